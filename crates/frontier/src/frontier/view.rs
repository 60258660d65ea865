//! What is shown: counts, hosts, and why an address would be fetched or not.

use divvy_guard::breaker::State;

use super::entry::Entry;
use super::host::{Host, NEVER, Place};
use super::{Because, Counts, Due, Explanation, Frontier, HostView, Link, Park, RobotsView};

impl Frontier {
    /// How many of what there are. Looks at every host.
    pub fn counts(&self, now_ms: u64) -> Counts {
        let mut counts = Counts {
            in_memory: self.in_memory,
            in_flight: self.in_flight,
            hosts: self.hosts.len() as u64,
            refused: self.refused,
            disallowed: self.disallowed,
            ..Counts::default()
        };
        for (number, host) in (0..).zip(self.hosts.iter()) {
            for (band, queued) in (0..).zip(&mut counts.queued) {
                *queued += u64::from(host.queues.len(&self.pieces, band));
            }
            counts.queued[0] += host.redo().count() as u64;
            counts.finished += u64::from(host.finished);
            counts.hosts_braked += u64::from(host.is_braked);
            let of = match self.because(now_ms, number) {
                _ if host.parked.is_some() => &mut counts.hosts_parked,
                _ if host.opened().iter().any(|open| open.serial > 0) => {
                    &mut counts.hosts_in_flight
                }
                _ if !host.has_work(&self.pieces) => continue,
                Because::Ready | Because::RobotsFirst => &mut counts.hosts_ready,
                Because::Gap
                | Because::DomainGap
                | Because::HostInFlight
                | Because::RobotsElsewhere => &mut counts.hosts_waiting,
                Because::RobotsUnreachable | Because::Blocked | Because::Breaker => {
                    &mut counts.hosts_resting
                }
            };
            *of += 1;
        }
        counts
    }

    /// Addresses in queues. Looks at every host.
    pub fn queued(&self) -> u64 {
        self.hosts.iter().map(|host| host.queued(&self.pieces)).sum()
    }

    /// Whether no host has anything queued that could be fetched some time, and nothing is in flight.
    pub fn is_done(&self) -> bool {
        let waits = |host: &Host| host.parked.is_none() && host.has_work(&self.pieces);
        self.in_flight == 0 && !self.hosts.iter().any(waits)
    }

    /// The hosts with the most queued addresses first, at most `limit`. Looks at every host.
    pub fn hosts(&self, now_ms: u64, limit: usize) -> Vec<HostView> {
        let queued = |host: &Host| host.queued(&self.pieces);
        let mut numbers: Vec<(u64, u32)> =
            (0..).zip(self.hosts.iter()).map(|(number, host)| (queued(host), number)).collect();
        numbers.sort_unstable_by_key(|(queued, number)| (u64::MAX - queued, *number));
        numbers.truncate(limit);
        numbers.into_iter().map(|(_, number)| self.view(now_ms, number)).collect()
    }

    /// Hosts that are parked, apart from those that people blocked, or have work and rest because they failed or asked for
    /// it; at most `limit`. Looks at every host.
    pub fn kept_away(&self, now_ms: u64, limit: usize) -> Vec<HostView> {
        let is_away = |number: &u32| {
            let host = &self.hosts[*number];
            let rests = || host.has_work(&self.pieces) && self.because(now_ms, *number).is_rest();
            host.parked.map_or_else(rests, |park| park != Park::Blocked)
        };
        let numbers = (0..).zip(self.hosts.iter()).map(|(number, _)| number);
        numbers.filter(is_away).take(limit).map(|number| self.view(now_ms, number)).collect()
    }

    /// One host.
    pub fn host(&self, now_ms: u64, name: &str) -> Option<HostView> {
        self.find(name).map(|number| self.view(now_ms, number))
    }

    /// The host whose requests count together with those of this one (itself, or the one with the other scheme), and the
    /// gap that they keep.
    pub fn pace_of(&self, host: u32) -> (u32, u64) {
        (self.lead(host), self.gap_ms(host))
    }

    /// The number of a host, by which the store knows it.
    pub fn host_number(&self, name: &str) -> Option<u32> {
        self.find(name)
    }

    /// The origin and the registrable domain of a host.
    pub fn host_name(&self, number: u32) -> Option<(&str, &str)> {
        let is_known = (number as usize) < self.hosts.len();
        is_known.then(|| {
            let group = self.hosts[number].group;
            (self.name_of(number), self.names.get(self.groups[group].name))
        })
    }

    /// Whether an address would be fetched, when, and which rule decides. Whether it was found before is for the store.
    pub fn explain(&self, now_ms: u64, link: &Link<'_>) -> Explanation {
        let Some(number) = self.find(link.host) else {
            return match self.refusal(link) {
                Some(why) => Explanation::Refused { why },
                None if self.has_enough() => Explanation::Enough,
                None => {
                    let because = Because::RobotsFirst;
                    Explanation::Fetched { not_before_ms: now_ms, because, queued: 0 }
                }
            };
        };
        let host = &self.hosts[number];
        let is_path =
            |packed: &[u8]| Entry::unpack(packed).is_some_and(|(entry, _)| entry.path == link.path);
        let mut in_flight = host.opened().iter().filter(|open| open.serial > 0);
        if in_flight.any(|open| open.entry.as_deref().is_some_and(is_path)) {
            return Explanation::InFlight;
        }
        let was_found = self.seen.may_contain(self.fingerprint(link));
        if let Some(why) = self.refusal(link).filter(|_| !was_found) {
            return Explanation::Refused { why };
        }
        if let Some(why) = host.parked {
            return Explanation::Parked { why };
        }
        let robots = self.robots.get(host.robots);
        let permission = robots.and_then(|robots| robots.permission.as_ref());
        if permission.is_some_and(|permission| !permission.allows(link.path)) {
            return Explanation::Disallowed;
        }
        if self.has_enough() {
            return Explanation::Enough;
        }
        let group_ms = self.groups[host.group].next_at_ms;
        let because = self.because(now_ms, number);
        let not_before_ms = match because {
            // It goes on as soon as that comes.
            Because::RobotsElsewhere => now_ms,
            _ => self.not_before(number).max(group_ms).max(now_ms),
        };
        Explanation::Fetched { not_before_ms, because, queued: host.queued(&self.pieces) }
    }

    /// What the frontier takes in memory, about: computed from what it has allocated, not measured.
    pub fn bytes(&self) -> u64 {
        let heap = self.heap.capacity() * size_of::<Due>();
        let ready: usize = self.ready.iter().map(|ready| ready.capacity() * 4).sum();
        let hosts: u64 = self.hosts.iter().map(Host::bytes).sum();
        let waiting: u64 = self
            .groups
            .iter()
            .filter_map(|group| group.waiting.as_ref())
            .map(|waiting| 48 + waiting.capacity() as u64 * 4)
            .sum();
        let tables =
            self.hosts.bytes() + self.groups.bytes() + self.names.bytes() + self.pieces.bytes();
        let robots = self.robots.bytes() + self.robots_bytes;
        let indexes = self.host_index.bytes() + self.group_index.bytes();
        (heap + ready) as u64 + hosts + waiting + tables + robots + indexes
    }

    fn has_enough(&self) -> bool {
        self.rules.pages_max.is_some_and(|most| self.pages + self.pages_in_flight >= most)
    }

    /// What decides when a host may be asked.
    fn because(&self, now_ms: u64, number: u32) -> Because {
        let host = &self.hosts[number];
        let lead = &self.hosts[self.lead(number)];
        let robots = self.robots.get(host.robots);
        let rare = host.rare();
        let is_shut = rare.open_until_ms > now_ms;
        let rest_ms = rare.rest_until_ms.max(lead.rare().rest_until_ms);
        let group = &self.groups[host.group];
        match () {
            () if is_shut && rare.trouble.is_some() => Because::RobotsUnreachable,
            () if is_shut => Because::Breaker,
            () if rest_ms > now_ms => Because::Blocked,
            () if rare.led_until_ms > now_ms => Because::RobotsElsewhere,
            () if self.is_busy(number) => Because::HostInFlight,
            () if lead.next_at_ms > now_ms => Because::Gap,
            () if host.place == Place::Group || group.next_at_ms > now_ms => Because::DomainGap,
            () if robots.is_none_or(|robots| robots.until_ms <= now_ms) => Because::RobotsFirst,
            () => Because::Ready,
        }
    }

    fn view(&self, now_ms: u64, number: u32) -> HostView {
        let host = &self.hosts[number];
        let failures = u32::from(host.rare().failures);
        let is_open = failures >= self.rules.retry.breaker_failures.max(1);
        HostView {
            name: self.name_of(number).to_owned(),
            domain: self.names.get(self.groups[host.group].name).to_owned(),
            queued: host.queued(&self.pieces),
            pages: host.pages,
            gap_ms: self.gap_ms(number),
            next_at_ms: self.not_before(number).min(NEVER - 1),
            in_flight: host.opened().iter().filter(|open| open.serial > 0).count() as u32,
            failures,
            breaker: if is_open { State::Open } else { State::Closed }.name(),
            robots: match self.robots.get(host.robots) {
                None if host.rare().trouble.is_some() => RobotsView::Unreachable,
                None => RobotsView::Unknown,
                Some(robots) if robots.permission.is_some() => RobotsView::Known,
                Some(_) => RobotsView::Unreachable,
            },
            parked: host.parked,
            because: self.because(now_ms, number),
            trouble: host.rare().trouble.as_deref().map(str::to_owned),
            is_braked: host.is_braked,
        }
    }
}
