//! What is known of a host, and of the hosts of a registrable domain together.
//!
//! A host that has nothing to do is small: its queues, what is in flight, its robots rules and its breaker are there only
//! when there is something in them.

use std::collections::VecDeque;
use std::sync::Arc;

use divvy_guard::breaker::Breaker;

use super::band::{Pieces, Queues};
use super::table::Name;
use super::words::{Park, Permission};
use crate::rules::brake::Brake;
use crate::rules::priority::BANDS;

/// Not in the heap.
pub(super) const NEVER: u64 = u64::MAX;
/// No host.
pub(super) const NOBODY: u32 = u32::MAX;

/// One host.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) name: Name,
    pub(super) group: u32,
    /// The host with the other scheme.
    pub(super) twin: u32,
    /// When the gap is over; of the lead.
    pub(super) next_at_ms: u64,
    /// Until when it rests: `Retry-After`, a robots.txt that cannot be had, a name that does not exist.
    pub(super) rest_until_ms: u64,
    /// When it is looked at next; the entry of the heap that counts.
    pub(super) heap_at_ms: u64,
    pub(super) gap_ms: u32,
    /// Answers that stay.
    pub(super) pages: u32,
    /// Addresses whose fetch ended.
    pub(super) finished: u32,
    /// Addresses that were ever queued, and how many may be.
    pub(super) used: u32,
    pub(super) budget: u32,
    /// The number of the first entry that was not taken, and of the next one that comes, by band.
    pub(super) heads: [u32; BANDS],
    pub(super) ends: [u32; BANDS],
    pub(super) brake: Brake,
    /// Failures in a row.
    pub(super) failures: u16,
    /// Requests in flight; of the lead.
    pub(super) in_flight: u16,
    pub(super) turns: u8,
    pub(super) parked: Option<Park>,
    pub(super) is_braked: bool,
    /// Where it is, when it is not in the heap.
    pub(super) place: Place,
    pub(super) is_dirty: bool,
    /// Bands whose entries were taken since the last commit, one bit each.
    pub(super) consumed: u8,
    /// The parts of its queues that are in memory.
    pub(super) held: Queues,
    /// What is in flight or goes before its queues.
    #[expect(
        clippy::box_collection,
        reason = "most hosts have nothing in flight, and a host is to be small"
    )]
    pub(super) open: Option<Box<Vec<Open>>>,
    pub(super) robots: Option<Box<Robots>>,
    pub(super) breaker: Option<Box<Breaker>>,
}

/// Where a host waits, besides the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Nowhere.
    None,
    /// Among those whose time has come.
    Ready,
    /// For the token of its domain.
    Group,
    /// For entries from the store.
    Loading,
}

/// A request in flight, or an address that goes before the queues because it was in flight when the last owner ended.
#[derive(Debug)]
pub(super) struct Open {
    /// Of the lease; 0 for one that waits.
    pub(super) serial: u64,
    /// When the gaps of the host and of its domain were over before, and what the hand-out made of them.
    pub(super) before_ms: (u64, u64),
    pub(super) after_ms: (u64, u64),
    /// The packed entry; nothing for a robots.txt.
    pub(super) entry: Option<Box<[u8]>>,
}

/// What is known of a robots.txt.
#[derive(Debug)]
pub(super) struct Robots {
    pub(super) permission: Option<Arc<dyn Permission>>,
    pub(super) until_ms: u64,
    pub(super) bytes: u32,
}

/// The hosts of a registrable domain.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: Name,
    /// When the gap of the domain is over.
    pub(super) next_at_ms: u64,
    /// The host of those that queue here which is in the heap.
    pub(super) runner: u32,
    pub(super) in_flight: u32,
    /// Addresses that were ever queued.
    pub(super) used: u32,
    /// Hosts that found the token taken.
    #[expect(clippy::box_collection, reason = "most domains have one host and nobody waits")]
    pub(super) waiting: Option<Box<VecDeque<u32>>>,
}

impl Group {
    pub(super) fn new(name: Name) -> Self {
        Self { name, next_at_ms: 0, runner: NOBODY, in_flight: 0, used: 0, waiting: None }
    }

    pub(super) fn is_waited_for(&self) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| !waiting.is_empty())
    }
}

impl Host {
    pub(super) fn new(name: Name, group: u32, gap_ms: u64, budget: u32) -> Self {
        Self {
            name,
            group,
            twin: NOBODY,
            next_at_ms: 0,
            rest_until_ms: 0,
            heap_at_ms: NEVER,
            gap_ms: u32::try_from(gap_ms).unwrap_or(u32::MAX),
            pages: 0,
            finished: 0,
            used: 0,
            budget,
            heads: [0; BANDS],
            ends: [0; BANDS],
            brake: Brake::default(),
            failures: 0,
            in_flight: 0,
            turns: 0,
            parked: None,
            is_braked: false,
            place: Place::None,
            is_dirty: false,
            consumed: 0,
            held: Queues::NONE,
            open: None,
            robots: None,
            breaker: None,
        }
    }

    /// Addresses of a band that wait.
    pub(super) fn queued_in(&self, band: usize) -> u32 {
        self.ends[band] - self.heads[band]
    }

    /// Addresses that wait, in all.
    pub(super) fn queued(&self) -> u64 {
        let bands: u64 = (0..BANDS).map(|band| u64::from(self.queued_in(band))).sum();
        bands + self.redo().count() as u64
    }

    pub(super) fn has_work(&self) -> bool {
        self.heads != self.ends || self.redo().next().is_some()
    }

    pub(super) fn opened(&self) -> &[Open] {
        self.open.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Addresses that go before the queues.
    pub(super) fn redo(&self) -> impl Iterator<Item = &Open> {
        self.opened().iter().filter(|open| open.serial == 0)
    }

    /// The best band that has something; what goes before the queues is in the best.
    pub(super) fn best_band(&self) -> usize {
        if self.redo().next().is_some() {
            return 0;
        }
        (0..BANDS).find(|band| self.queued_in(*band) > 0).unwrap_or(BANDS - 1)
    }

    /// Takes the first entry of a band from memory.
    pub(super) fn take(&mut self, pieces: &mut Pieces, band: u8) -> Option<Box<[u8]>> {
        let packed = self.held.pop(pieces, band)?;
        self.heads[usize::from(band)] += 1;
        self.consumed |= 1 << band;
        Some(packed)
    }

    pub(super) fn open(&mut self, open: Open) {
        self.open.get_or_insert_default().push(open);
    }

    /// Ends what has this serial.
    pub(super) fn close(&mut self, serial: u64) -> Option<Open> {
        let open = self.open.as_mut()?;
        let at = open.iter().position(|each| each.serial == serial)?;
        let closed = open.remove(at);
        if open.is_empty() {
            self.open = None;
        }
        Some(closed)
    }

    /// What it takes in memory beyond itself, about: allocations cost 8 bytes more each.
    pub(super) fn bytes(&self) -> u64 {
        const EACH: u64 = 8;
        let open: u64 = self.opened().iter().map(|open| open.bytes()).sum();
        let robots = self
            .robots
            .as_ref()
            .map_or(0, |robots| size_of::<Robots>() as u64 + EACH + u64::from(robots.bytes));
        let breaker = self.breaker.as_ref().map_or(0, |_| size_of::<Breaker>() as u64 + EACH);
        open + robots + breaker
    }
}

impl Open {
    /// An entry that goes before the queues.
    pub(super) fn waiting(entry: Box<[u8]>) -> Self {
        Self { serial: 0, before_ms: (0, 0), after_ms: (0, 0), entry: Some(entry) }
    }

    fn bytes(&self) -> u64 {
        let entry = self.entry.as_ref().map_or(0, |entry| entry.len() as u64 + 8);
        // The list is a box of its own, with room for four.
        entry + 2 * 8 + (size_of::<Vec<Self>>() + 4 * size_of::<Self>()) as u64
    }
}
