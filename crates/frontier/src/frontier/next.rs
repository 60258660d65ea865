//! What is to be done next: hosts whose time has come, the choice among them, the choice among their bands.

use std::cmp::Reverse;
use std::sync::Arc;

use super::band::HELD_MAX;
use super::entry::Entry;
use super::host::{NEVER, Open, Place};
use super::{
    Block, Damaged, Due, Frontier, Lease, LoadOrder, Next, Order, Permission, RobotsOrder, entry,
};
use crate::rules::BAND_MEMORY_MIN;
use crate::rules::priority::{self, BANDS};

/// Addresses of a host that robots.txt forbids are passed over in runs of at most so many.
const FORBIDDEN_RUN_MAX: u32 = 256;
/// How many entries are asked of the store at once.
const LOAD_ENTRIES: u32 = 256;

/// What a look at the queues of a host gives.
enum Choice {
    /// This entry is next.
    Entry(Box<[u8]>),
    /// The store has what is next.
    Load(LoadOrder),
    /// Nothing.
    Nothing,
}

impl Frontier {
    /// What is to be done next.
    pub fn next(&mut self, now_ms: u64) -> Next {
        if self.rules.pages_max.is_some_and(|most| self.pages + self.pages_in_flight >= most) {
            return Next::Enough;
        }
        self.collect(now_ms);
        while let Some(host) = self.pick() {
            let group = self.hosts[host].group;
            let was_runner = self.take_runner(group, host);
            let next = self.look_at(now_ms, host, was_runner);
            self.send_runner(now_ms, group);
            if let Some(next) = next {
                return next;
            }
            // A runner may be due at once.
            self.collect(now_ms);
        }
        self.heap.peek().map_or(Next::Idle, |Reverse(due)| Next::Wait(due.at_ms()))
    }

    /// The entries that a [`Next::Load`] asked for, from the first that was wanted on.
    pub fn loaded(&mut self, order: &LoadOrder, blocks: &[Block]) -> Result<(), Damaged> {
        let host = &mut self.hosts[order.host];
        host.place = Place::None;
        let (head, end) = host.queues.numbers(&self.pieces, order.band);
        let mut held = host.queues.held(&self.pieces, order.band);
        let mut left = order.entries_max;
        for block in blocks {
            let mut rest = block.bytes.as_slice();
            for number in block.first..block.first.saturating_add(block.count) {
                let length =
                    entry::length(rest).filter(|end| Entry::unpack(&rest[..*end]).is_some());
                let Some(length) = length else {
                    let subject = format!("a queue of {}", self.name_of(order.host));
                    return Err(Damaged { subject, problem: "an entry is cut or no text" });
                };
                let is_next = number == head + held && number < end;
                if is_next && left > 0 && held < HELD_MAX {
                    host.queues.hold(&mut self.pieces, order.band, &rest[..length]);
                    self.in_memory += 1;
                    (held, left) = (held + 1, left - 1);
                }
                rest = &rest[length..];
            }
        }
        if left == order.entries_max && head < end {
            let subject = format!("a queue of {}", self.name_of(order.host));
            return Err(Damaged { subject, problem: "entries are missing" });
        }
        self.schedule(order.host);
        Ok(())
    }

    /// Puts a host into the heap if it has work and may have another request in flight.
    pub(super) fn schedule(&mut self, number: u32) {
        let at_ms = self.not_before(number);
        self.schedule_at(number, at_ms);
    }

    /// The same at a given time. Whether the host is in the heap now.
    pub(super) fn schedule_at(&mut self, number: u32, at_ms: u64) -> bool {
        let host = &self.hosts[number];
        let is_free = !self.is_busy(number) && host.parked.is_none() && host.place == Place::None;
        if !is_free || !host.has_work(&self.pieces) {
            return false;
        }
        // An earlier entry finds out by itself that it is early.
        if host.heap_at_ms > at_ms {
            self.hosts[number].heap_at_ms = at_ms;
            if self.heap.len() == self.heap.capacity() {
                self.heap.reserve_exact(more_than(self.heap.len()));
            }
            self.heap.push(Reverse(Due::new(at_ms, number)));
        }
        true
    }

    /// When a host may be asked, apart from its domain.
    pub(super) fn not_before(&self, number: u32) -> u64 {
        let lead = &self.hosts[self.lead(number)];
        let rare = self.hosts[number].rare();
        let rest_ms = rare.rest_until_ms.max(lead.rare().rest_until_ms);
        // Who waits for a robots.txt may be asked for those of others, or for its own at another place.
        let led_ms = if rare.errands.is_empty() { rare.led_until_ms } else { 0 };
        lead.next_at_ms.max(rest_ms).max(rare.open_until_ms).max(led_ms)
    }

    /// Hosts whose time has come leave the heap.
    fn collect(&mut self, now_ms: u64) {
        while let Some(Reverse(due)) = self.heap.peek().copied() {
            let (at_ms, number) = (due.at_ms(), due.host);
            let host = &mut self.hosts[number];
            let counts = host.heap_at_ms == at_ms && host.place == Place::None;
            if counts && at_ms > now_ms {
                return;
            }
            self.heap.pop();
            if counts {
                host.heap_at_ms = NEVER;
                host.place = Place::Ready;
                let ready = &mut self.ready[host.best_band(&self.pieces)];
                if ready.len() == ready.capacity() {
                    ready.reserve_exact(more_than(ready.len()));
                }
                ready.push_back(number);
            }
        }
    }

    /// One of the hosts whose time has come.
    fn pick(&mut self) -> Option<u32> {
        let first = usize::from(priority::turn(self.turns));
        let bands = std::iter::once(first).chain((0..BANDS).filter(|band| *band != first));
        let number = bands.into_iter().find_map(|band| self.ready[band].pop_front())?;
        self.turns = self.turns.wrapping_add(1);
        self.hosts[number].place = Place::None;
        Some(number)
    }

    /// Everything that may keep a host from being asked now, in the order in which it is looked at.
    fn look_at(&mut self, now_ms: u64, number: u32, was_runner: bool) -> Option<Next> {
        let host = &self.hosts[number];
        if host.parked.is_some() || self.is_busy(number) || !host.has_work(&self.pieces) {
            return None;
        }
        let group = host.group;
        let at_ms = self.not_before(number);
        if at_ms > now_ms {
            self.schedule_at(number, at_ms);
            return None;
        }
        let in_turn = was_runner || !self.groups[group].is_waited_for();
        if !in_turn || !self.is_group_free(group, now_ms) {
            self.wait_for_group(group, number, was_runner);
            return None;
        }
        if let Some(errand) = self.hand_out_errand(now_ms, number) {
            return Some(Next::Errand(errand));
        }
        let robots = self.robots.get(self.hosts[number].robots);
        if robots.is_none_or(|robots| robots.until_ms <= now_ms) {
            return Some(Next::Robots(self.hand_out_robots(now_ms, number)));
        }
        for _ in 0..FORBIDDEN_RUN_MAX {
            match self.choose(number) {
                Choice::Nothing => {
                    self.drop_robots_when_idle(number);
                    return None;
                }
                Choice::Load(order) => {
                    self.hosts[number].place = Place::Loading;
                    return Some(Next::Load(order));
                }
                Choice::Entry(packed) => {
                    if self.is_allowed(number, &packed) {
                        return Some(Next::Fetch(self.hand_out(now_ms, number, packed)));
                    }
                    self.disallowed += 1;
                    self.hosts[number].finished += 1;
                    self.touch(number);
                }
            }
        }
        self.schedule(number);
        None
    }

    /// The next entry of a host: what goes before the queues, then by bands, of which each has its turns.
    fn choose(&mut self, number: u32) -> Choice {
        let most = if self.in_memory >= self.rules.memory_max {
            BAND_MEMORY_MIN
        } else {
            LOAD_ENTRIES.min(self.rules.band_memory_max).max(1)
        };
        let host = &mut self.hosts[number];
        if let Some(open) = host.close(0) {
            return open.entry.map_or(Choice::Nothing, Choice::Entry);
        }
        let first = priority::turn(u32::from(host.turns));
        let mut bands = std::iter::once(first).chain(0..=priority::LAST);
        let has_some = |band: &u8| host.queues.len(&self.pieces, *band) > 0;
        let Some(band) = bands.find(has_some) else { return Choice::Nothing };
        let Some(packed) = host.take(&mut self.pieces, band) else {
            let (from, _) = host.queues.numbers(&self.pieces, band);
            return Choice::Load(LoadOrder { host: number, band, from, entries_max: most });
        };
        host.turns = host.turns.wrapping_add(1);
        self.in_memory -= 1;
        Choice::Entry(packed)
    }

    /// What a host lets be fetched, while that is known.
    pub fn permission(&self, host: u32) -> Option<Arc<dyn Permission>> {
        self.permission_of(host).map(Arc::clone)
    }

    fn permission_of(&self, number: u32) -> Option<&Arc<dyn Permission>> {
        self.robots.get(self.hosts[number].robots)?.permission.as_ref()
    }

    fn is_allowed(&self, number: u32, packed: &[u8]) -> bool {
        let permission = self.permission_of(number);
        let entry = Entry::unpack(packed);
        permission.zip(entry).is_some_and(|(allowed, (entry, _))| allowed.allows(entry.path))
    }

    fn hand_out(&mut self, now_ms: u64, number: u32, packed: Box<[u8]>) -> Order {
        let (entry, _) = Entry::unpack(&packed).expect("entries are looked at when they come in");
        let name = self.name_of(number);
        let fingerprint = self.fingerprint_of(name, entry.path);
        let mut order = Order {
            lease: Lease { host: number, serial: 0 },
            host: number,
            url: format!("{name}{}", entry.path),
            path_at: name.len(),
            fingerprint,
            depth: entry.depth,
            hops: entry.hops,
            attempt: entry.failed + 1,
            is_known: entry.is_known,
            is_sitemap: entry.is_sitemap,
            allowed_at_ms: 0,
        };
        self.pages_in_flight += 1;
        (order.lease, order.allowed_at_ms) = self.occupy(now_ms, number, Some(packed));
        order
    }

    fn hand_out_robots(&mut self, now_ms: u64, number: u32) -> RobotsOrder {
        let (lease, allowed_at_ms) = self.occupy(now_ms, number, None);
        let origin = self.name_of(number).to_owned();
        RobotsOrder { lease, host: number, origin, allowed_at_ms }
    }

    /// A request of this host goes out: its gap begins, and that of its domain.
    pub(super) fn occupy(
        &mut self,
        now_ms: u64,
        number: u32,
        entry: Option<Box<[u8]>>,
    ) -> (Lease, u64) {
        self.serial += 1;
        self.in_flight += 1;
        let (lead, group) = (self.lead(number), self.hosts[number].group);
        let before_ms = (self.hosts[lead].next_at_ms, self.groups[group].next_at_ms);
        let allowed_at_ms = self.not_before(number).max(before_ms.1);
        self.hosts[lead].in_flight += 1;
        self.hosts[lead].unsent += 1;
        self.begin_gap(now_ms, number);
        self.occupy_group(now_ms, group);
        let after_ms = (self.hosts[lead].next_at_ms, self.groups[group].next_at_ms);
        let serial = self.serial;
        self.hosts[number].open(Open { serial, is_sent: false, before_ms, after_ms, entry });
        (Lease { host: number, serial }, allowed_at_ms)
    }

    /// Whether a host may have no further request in flight for now.
    pub(super) fn is_busy(&self, number: u32) -> bool {
        let lead = &self.hosts[self.lead(number)];
        lead.in_flight >= self.rules.per_host || lead.unsent > 0
    }

    pub(super) fn gap_ms(&self, number: u32) -> u64 {
        let host = &self.hosts[number];
        u64::from(host.gap_ms.max(self.hosts[self.lead(number)].gap_ms))
    }
}

/// How much longer a long list becomes that is full: by an eighth, because doubled it would be half empty on average.
fn more_than(len: usize) -> usize {
    len / 8 + 64
}
