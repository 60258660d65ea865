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

    /// A host that is parked or failed is asked again; its failures are forgotten, its gap and how long it asked to be left
    /// alone are kept. Whether it is known.
    pub fn unpark(&mut self, host: &str) -> bool {
        let found = self.find(host);
        found.into_iter().for_each(|number| self.revive(number));
        found.is_some()
    }

    /// All hosts that could not be reached or might not be asked are asked again; not those that people blocked, and not
    /// those that ask for too long a delay. Gives their numbers: what the store knows of their robots.txt must not keep
    /// them waiting. Looks at every host.
    pub fn retry(&mut self) -> Vec<u32> {
        let hosts = u32::try_from(self.hosts.len()).expect("hosts are numbered with 32 bits");
        let is_lost = |number: &u32| {
            let (host, rare) = (&self.hosts[*number], self.hosts[*number].rare());
            match host.parked {
                Some(Park::Unreachable | Park::Refused) => true,
                Some(Park::Blocked | Park::CrawlDelay) => false,
                None => rare.failures > 0 || rare.trouble.is_some(),
            }
        };
        let lost: Vec<u32> = (0..hosts).filter(is_lost).collect();
        lost.iter().for_each(|number| self.revive(*number));
        lost
    }

    fn revive(&mut self, number: u32) {
        let host = &mut self.hosts[number];
        host.parked = None;
        host.change(|rare| {
            (rare.failures, rare.open_until_ms, rare.trouble) = (0, 0, None);
            rare.led_until_ms = 0;
        });
        self.forget_robots(number);
        self.touch(number);
        self.schedule(number);
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
