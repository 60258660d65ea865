//! The second token: what all hosts of a registrable domain may have in flight together, and the gap between them.
//!
//! A host that finds the token taken queues up at its domain. Of those that queue, one (the *runner*) is in the heap, at
//! the time at which the token is free; so a domain with thousands of hosts costs no more than one host.

use super::Frontier;
use super::host::{NOBODY, Place};

impl Frontier {
    /// Whether a host of this domain may be asked now.
    pub(super) fn is_group_free(&self, group: u32, now_ms: u64) -> bool {
        let group = &self.groups[group];
        group.in_flight < self.group_in_flight_max() && group.next_at_ms <= now_ms
    }

    /// The host ceases to be the runner of its domain; whether it was.
    pub(super) fn take_runner(&mut self, group: u32, host: u32) -> bool {
        let group = &mut self.groups[group];
        let was_runner = group.runner == host;
        if was_runner {
            group.runner = NOBODY;
        }
        was_runner
    }

    /// The host queues up at its domain; one that was the runner does so at the front.
    pub(super) fn wait_for_group(&mut self, group: u32, host: u32, was_runner: bool) {
        self.hosts[host].place = Place::Group;
        let waiting = self.groups[group].waiting.get_or_insert_default();
        if was_runner {
            waiting.push_front(host);
        } else {
            waiting.push_back(host);
        }
    }

    /// If hosts queue up at the domain and it may have more in flight, one of them is in the heap.
    pub(super) fn send_runner(&mut self, now_ms: u64, number: u32) {
        let in_flight_max = self.group_in_flight_max();
        loop {
            let group = &mut self.groups[number];
            if group.runner != NOBODY || group.in_flight >= in_flight_max {
                return;
            }
            let at_ms = group.next_at_ms;
            let Some(waiting) = group.waiting.as_mut() else { return };
            let Some(host) = waiting.pop_front() else {
                group.waiting = None;
                return;
            };
            self.hosts[host].place = Place::None;
            // One that may not be asked when the token is free would keep the others waiting.
            if self.not_before(host) > at_ms.max(now_ms) {
                self.schedule(host);
            } else if self.schedule_at(host, at_ms) {
                self.groups[number].runner = host;
            }
        }
    }

    /// A request of this domain goes out.
    pub(super) fn occupy_group(&mut self, now_ms: u64, number: u32) {
        let gap_ms = self.group_gap_ms();
        let group = &mut self.groups[number];
        group.in_flight += 1;
        group.next_at_ms = now_ms.saturating_add(gap_ms);
    }

    fn group_gap_ms(&self) -> u64 {
        self.rules.delay_ms.checked_div(u64::from(self.rules.domain_share)).unwrap_or(0)
    }

    fn group_in_flight_max(&self) -> u32 {
        match self.rules.domain_share {
            0 => u32::MAX,
            share => share.saturating_mul(u32::from(self.rules.per_host)),
        }
    }
}
