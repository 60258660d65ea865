//! What is known of a host, and of the hosts of a registrable domain together.
//!
//! A host that has nothing to do is small: its queues, its robots rules, and what few hosts have ([`Rare`]) are there only
//! when there is something in them. There are many more hosts than requests in flight.

use std::collections::VecDeque;
use std::sync::Arc;

use super::band::{Pieces, Queues};
use super::errand::Waiting;
use super::table::{Name, Spot};
use super::words::{Park, Permission};
use crate::rules::brake::Brake;
use crate::rules::priority;

/// Not in the heap.
pub(super) const NEVER: u64 = u64::MAX;
/// No host.
pub(super) const NOBODY: u32 = u32::MAX;
/// What an allocation takes besides what is in it, about.
const EACH: u64 = 8;

/// One host.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) name: Name,
    pub(super) group: u32,
    /// The host with the other scheme.
    pub(super) twin: u32,
    /// When the gap is over; of the lead.
    pub(super) next_at_ms: u64,
    /// When it is looked at next; the entry of the heap that counts.
    pub(super) heap_at_ms: u64,
    pub(super) gap_ms: u32,
    /// Answers that stay.
    pub(super) pages: u32,
    /// Addresses whose fetch ended.
    pub(super) finished: u32,
    /// Addresses that were ever queued.
    pub(super) used: u32,
    pub(super) brake: Brake,
    /// Requests in flight; of the lead.
    pub(super) in_flight: u8,
    /// Those among them that were handed out and are not known to be sent; of the lead.
    pub(super) unsent: u8,
    pub(super) turns: u8,
    pub(super) parked: Option<Park>,
    pub(super) is_braked: bool,
    /// Where it is, when it is not in the heap.
    pub(super) place: Place,
    pub(super) is_dirty: bool,
    /// Bands whose entries were taken since the last commit, one bit each.
    pub(super) consumed: u8,
    pub(super) queues: Queues,
    pub(super) robots: Spot,
    rare: Option<Box<Rare>>,
}

// There are millions of them in memory.
const _: () = assert!(size_of::<Host>() <= 80);

/// What few hosts have at a time.
#[derive(Debug)]
pub(super) struct Rare {
    /// Until when it asked to be left alone.
    pub(super) rest_until_ms: u64,
    /// Addresses that may ever be queued, if that is not what the crawl allows.
    pub(super) budget: Option<u32>,
    /// Failures in a row.
    pub(super) failures: u16,
    /// Until when it is not tried again: the breaker that counts its failures is open, its robots.txt cannot be had, its
    /// name does not exist.
    pub(super) open_until_ms: u64,
    /// Why it may not be asked, or why its robots.txt cannot be had.
    pub(super) trouble: Option<Box<str>>,
    /// Until when it waits for a robots.txt that is elsewhere.
    pub(super) led_until_ms: u64,
    /// What it is to be asked on behalf of others.
    pub(super) errands: Vec<Waiting>,
    /// What is in flight or goes before its queues.
    open: Vec<Open>,
}

/// What most hosts have of it.
static COMMON: Rare = Rare::COMMON;

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
    /// Whether it is known to be sent.
    pub(super) is_sent: bool,
    /// When the gaps of the host and of its domain were over before, and what the hand-out made of them.
    pub(super) before_ms: (u64, u64),
    pub(super) after_ms: (u64, u64),
    /// The packed entry; nothing for a robots.txt.
    pub(super) entry: Option<Box<[u8]>>,
}

/// What is known of a robots.txt.
#[derive(Debug, Default)]
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
    pub(super) fn new(name: Name, group: u32, gap_ms: u64) -> Self {
        Self {
            name,
            group,
            twin: NOBODY,
            next_at_ms: 0,
            heap_at_ms: NEVER,
            gap_ms: u32::try_from(gap_ms).unwrap_or(u32::MAX),
            pages: 0,
            finished: 0,
            used: 0,
            brake: Brake::default(),
            in_flight: 0,
            unsent: 0,
            turns: 0,
            parked: None,
            is_braked: false,
            place: Place::None,
            is_dirty: false,
            consumed: 0,
            queues: Queues::NONE,
            robots: Spot::NONE,
            rare: None,
        }
    }

    pub(super) fn rare(&self) -> &Rare {
        self.rare.as_deref().unwrap_or(&COMMON)
    }

    /// Changes what few hosts have. A host that has nothing of it then is small again.
    pub(super) fn change<T>(&mut self, change: impl FnOnce(&mut Rare) -> T) -> T {
        let rare = self.rare.get_or_insert_with(|| Box::new(Rare::COMMON));
        let changed = change(rare);
        if rare.is_common() {
            self.rare = None;
        }
        changed
    }

    /// Addresses that wait, in all.
    pub(super) fn queued(&self, pieces: &Pieces) -> u64 {
        self.queues.total(pieces) + self.redo().count() as u64
    }

    pub(super) fn has_work(&self, pieces: &Pieces) -> bool {
        self.queues.best(pieces).is_some() || self.redo().next().is_some() || self.has_errands()
    }

    pub(super) fn has_errands(&self) -> bool {
        !self.rare().errands.is_empty()
    }

    pub(super) fn opened(&self) -> &[Open] {
        &self.rare().open
    }

    /// Addresses that go before the queues.
    pub(super) fn redo(&self) -> impl Iterator<Item = &Open> {
        self.opened().iter().filter(|open| open.serial == 0)
    }

    /// The best band that has something; what goes before the queues is in the best, as are errands.
    pub(super) fn best_band(&self, pieces: &Pieces) -> usize {
        if self.redo().next().is_some() || self.has_errands() {
            return 0;
        }
        usize::from(self.queues.best(pieces).unwrap_or(priority::LAST))
    }

    /// Takes the first entry of a band from memory.
    pub(super) fn take(&mut self, pieces: &mut Pieces, band: u8) -> Option<Box<[u8]>> {
        let packed = self.queues.pop(pieces, band)?;
        self.consumed |= 1 << band;
        Some(packed)
    }

    pub(super) fn open(&mut self, open: Open) {
        self.change(|rare| rare.open.push(open));
    }

    /// What has this serial is sent; whether that is news.
    pub(super) fn mark_sent(&mut self, serial: u64) -> bool {
        let unsent = |open: &&mut Open| open.serial == serial && !open.is_sent;
        self.change(|rare| rare.open.iter_mut().find(unsent).map(|open| open.is_sent = true))
            .is_some()
    }

    /// Ends what has this serial.
    pub(super) fn close(&mut self, serial: u64) -> Option<Open> {
        let at = self.opened().iter().position(|each| each.serial == serial)?;
        Some(self.change(|rare| rare.open.remove(at)))
    }

    /// What it takes in memory beyond itself, about.
    pub(super) fn bytes(&self) -> u64 {
        self.rare.as_ref().map_or(0, |rare| rare.bytes())
    }
}

impl Rare {
    const COMMON: Self = Self {
        rest_until_ms: 0,
        budget: None,
        failures: 0,
        open_until_ms: 0,
        trouble: None,
        led_until_ms: 0,
        errands: Vec::new(),
        open: Vec::new(),
    };

    fn is_common(&self) -> bool {
        let Self { rest_until_ms, failures, open_until_ms, led_until_ms, .. } = self;
        let is_well = *rest_until_ms == 0 && *failures == 0 && *open_until_ms == 0;
        let has_robots = *led_until_ms == 0;
        let is_free = self.trouble.is_none() && self.budget.is_none() && has_robots;
        is_well && is_free && self.errands.is_empty() && self.open.is_empty()
    }

    fn bytes(&self) -> u64 {
        let open = (self.open.capacity() * size_of::<Open>()) as u64 + EACH;
        let entries = self.open.iter().filter_map(|open| open.entry.as_ref());
        let entries: u64 = entries.map(|entry| entry.len() as u64 + EACH).sum();
        let trouble = self.trouble.as_ref().map_or(0, |text| text.len() as u64 + EACH);
        let errands: u64 = self.errands.iter().map(|errand| errand.bytes() + EACH).sum();
        size_of::<Self>() as u64 + EACH + open + entries + trouble + errands
    }
}

impl Open {
    /// An entry that goes before the queues.
    pub(super) fn waiting(entry: Box<[u8]>) -> Self {
        Self { serial: 0, is_sent: false, before_ms: (0, 0), after_ms: (0, 0), entry: Some(entry) }
    }
}
