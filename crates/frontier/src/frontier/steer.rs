//! What people say about hosts: leave this one alone, for a time or until further notice, and try it again.

use super::entry::Entry;
use super::{Frontier, Link, Park};
use crate::rules::priority;

impl Frontier {
    /// A host gets no requests until [`Frontier::unpark`]. Whether it is known.
    pub fn park(&mut self, host: &str, why: Park) -> bool {
        let Some(number) = self.find(host) else { return false };
        self.hosts[number].parked = Some(why);
        self.touch(number);
        true
    }

    /// Parks exactly the hosts that people want left alone: whom `is_blocked` names by its origin is parked, and who was
    /// parked for that reason and is not named any more is asked again. Looks at every host.
    pub fn block(&mut self, is_blocked: impl Fn(&str) -> bool) {
        let hosts = u32::try_from(self.hosts.len()).expect("hosts are numbered with 32 bits");
        for number in 0..hosts {
            let was_blocked = self.hosts[number].parked == Some(Park::Blocked);
            let blocked = is_blocked(self.name_of(number));
            if blocked != was_blocked {
                let name = self.name_of(number).to_owned();
                let known =
                    if blocked { self.park(&name, Park::Blocked) } else { self.unpark(&name) };
                assert!(known, "a host of the table is found by its name");
            }
        }
    }

    /// A host that is parked or rests is asked again; its failures are forgotten, its gap is kept. Whether it is known.
    pub fn unpark(&mut self, host: &str) -> bool {
        let Some(number) = self.find(host) else { return false };
        let host = &mut self.hosts[number];
        host.parked = None;
        host.change(|rare| {
            (rare.failures, rare.open_until_ms, rare.rest_until_ms) = (0, 0, 0);
        });
        let lead = self.lead(number);
        self.hosts[lead].change(|rare| rare.rest_until_ms = 0);
        self.forget_robots(number);
        self.touch(number);
        self.touch(lead);
        self.schedule(number);
        true
    }

    /// A host gets no requests before this time, with either scheme. Whether it is known.
    pub fn rest(&mut self, host: &str, until_ms: u64) -> bool {
        let Some(number) = self.find(host) else { return false };
        let lead = self.lead(number);
        // It may have asked for a longer rest itself.
        self.hosts[lead].change(|rare| rare.rest_until_ms = until_ms.max(rare.rest_until_ms));
        self.touch(lead);
        true
    }

    /// An address that was given up is tried again from its first attempt, whether it was found before or not. Whether
    /// its host is known. Who replays it twice before it ends has it fetched twice.
    pub fn replay(&mut self, link: &Link<'_>) -> bool {
        let Some(number) = self.find(link.host) else { return false };
        let entry = Entry {
            depth: link.depth,
            hops: link.hops,
            failed: 0,
            is_known: true,
            is_sitemap: link.is_sitemap,
            path: link.path,
        };
        self.append(number, priority::LAST, &entry.packed());
        self.schedule(number);
        true
    }
}
