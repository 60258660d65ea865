//! Errands: requests of a host because the robots.txt of another one leads there. The host that is asked on the way has its
//! turn for that as for a page of its own: its gap, its requests in flight, its rest and its breaker count. The host whose
//! robots.txt it is waits meanwhile.
//!
//! Errands are in memory only. Who sent one asks again after a while, so one that is lost comes back. Several hosts that
//! are led to one place are served by one request.

use super::host::Open;
use super::{Errand, Frontier, Lease, Link, Loan, NoErrand, Outcome, RobotsAnswer};
use super::{HOST_BYTES_MAX, PATH_BYTES_MAX, Refusal};

/// Places of one host that errands wait for.
pub(super) const PLACES_MAX: usize = 64;
/// Hosts that are led to one place.
pub(super) const ASKERS_MAX: usize = 4_096;

/// A place that was not asked for yet.
#[derive(Debug)]
pub(super) struct Waiting {
    path: Box<str>,
    askers: Vec<Box<str>>,
}

impl Waiting {
    pub(super) fn bytes(&self) -> u64 {
        let askers: usize = self.askers.iter().map(|asker| asker.len()).sum();
        (size_of::<Self>() + self.path.len() + askers + self.askers.len() * size_of::<Box<str>>())
            as u64
    }
}

impl Frontier {
    /// The robots.txt of a host is elsewhere: the host waits for [`Frontier::robots_came`], and when that is not told by
    /// this time its robots.txt is ordered again.
    pub fn led_on(&mut self, host: u32, until_ms: u64) {
        self.forget_robots(host);
        self.hosts[host].change(|rare| rare.led_until_ms = until_ms);
        self.touch(host);
    }

    /// Asks for the place of a link when the turn of its host comes, for the origin `asker`. The host need not be known. Who
    /// asks again before that is served once.
    pub fn send(&mut self, now_ms: u64, link: &Link<'_>, asker: &str) -> Result<(), NoErrand> {
        let number = self.known(now_ms, link).map_err(NoErrand::Refused)?;
        if let Some(park) = self.hosts[number].parked {
            // Nobody asks a parked host, and nobody may wait for that.
            self.hosts[number].change(|rare| rare.errands.clear());
            return Err(NoErrand::Parked(park));
        }
        let is_queued = self.hosts[number].change(|rare| {
            let has_room = rare.errands.len() < PLACES_MAX;
            let waiting = rare.errands.iter_mut().find(|each| *each.path == *link.path);
            match waiting {
                Some(waiting) if waiting.askers.iter().any(|known| **known == *asker) => true,
                Some(waiting) if waiting.askers.len() < ASKERS_MAX => {
                    waiting.askers.push(asker.into());
                    true
                }
                None if has_room => {
                    let (path, askers) = (link.path.into(), vec![asker.into()]);
                    rare.errands.push(Waiting { path, askers });
                    true
                }
                Some(_) | None => false,
            }
        });
        if !is_queued {
            return Err(NoErrand::TooMany);
        }
        self.schedule(number);
        Ok(())
    }

    /// The right to ask a host now, from which a page of another host takes parts: if it is free, and its gap over. It ends
    /// with [`Frontier::passed`]. The host need not be known.
    pub fn borrow(&mut self, now_ms: u64, link: &Link<'_>) -> Loan {
        let Ok(number) = self.known(now_ms, link) else { return Loan::Refused };
        let group = self.hosts[number].group;
        let at_ms = self.not_before(number).max(self.groups[group].next_at_ms);
        if self.hosts[number].parked.is_some() || self.is_busy(number) {
            return Loan::Refused;
        }
        if at_ms > now_ms {
            return Loan::Later(at_ms);
        }
        if !self.is_group_free(group, now_ms) {
            return Loan::Refused;
        }
        let (lease, _) = self.occupy(now_ms, number, None);
        Loan::Granted { lease, host: number }
    }

    /// The number of a host that is asked for others; it is made if it is not known.
    fn known(&mut self, now_ms: u64, link: &Link<'_>) -> Result<u32, Refusal> {
        if link.path.len() > PATH_BYTES_MAX || link.host.len() > HOST_BYTES_MAX {
            return Err(Refusal::TooLong);
        }
        let is_known = self.find(link.host).is_some();
        if !is_known && self.hosts.len() >= self.rules.hosts_max as usize {
            return Err(Refusal::TooManyHosts);
        }
        let number = self.intern(now_ms, link.host, link.domain);
        if !is_known {
            self.touch(number);
        }
        Ok(number)
    }

    /// A request that was for no page, and that gave no robots.txt to its own host, has ended: an errand, or one whose answer
    /// leads on.
    pub fn passed(&mut self, now_ms: u64, lease: Lease, outcome: Outcome) {
        let Some(open) = self.close(lease) else { return };
        let number = lease.host;
        let unsent: Option<&Open> = match outcome {
            Outcome::Returned => Some(&open),
            Outcome::Answer(answer) => {
                self.judge(now_ms, number, answer.status, answer.retry_after_ms);
                None
            }
            Outcome::Failed(failure) => {
                self.blame(now_ms, number, failure);
                None
            }
        };
        self.touch(number);
        self.release(now_ms, number, unsent);
    }

    /// What is known now of the robots.txt of a host that was led on. Its own turn was over long before.
    pub fn robots_came(&mut self, now_ms: u64, host: u32, answer: &RobotsAnswer) {
        let gap_ms = self.gap_ms(host);
        self.learn_robots(now_ms, host, answer);
        if self.gap_ms(host) > gap_ms {
            // The host may have been asked for this just now, when a longer gap was not known.
            self.begin_gap(now_ms, host);
        }
        self.schedule(host);
        self.bound_robots(host);
    }

    pub(super) fn hand_out_errand(&mut self, now_ms: u64, number: u32) -> Option<Errand> {
        if !self.hosts[number].has_errands() {
            return None;
        }
        // With the errand in its place, for which the host need not wait for a robots.txt of its own.
        let (lease, allowed_at_ms) = self.occupy(now_ms, number, None);
        let waiting = self.hosts[number].change(|rare| rare.errands.remove(0));
        let url = format!("{}{}", self.name_of(number), waiting.path);
        Some(Errand { lease, host: number, url, askers: waiting.askers, allowed_at_ms })
    }
}
