//! How many breakers of one fleet may be open at once.
//!
//! When most targets look bad, the judgement is more likely wrong than the targets: the network, the caller or the
//! settings are to blame, and opening every breaker would turn a bad hour into an outage. So a breaker of a fleet
//! that is over its cap stays closed and tries again at its next bad call.
//!
//! It counts; it does not know the targets and does not choose which breaker opens first: the first that trips does.
//! A half-open breaker still counts as open. One that is forced open by hand always opens and is counted. When members
//! leave and the cap sinks below what is open, nothing closes by force. At first start nothing is open.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::circuit::Breaker;
use super::settings::Settings;
use crate::setting::{self, Invalid};

/// How much of a fleet may be open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FleetSettings {
    /// At most this share of the members, rounded down.
    pub open_share_max: f64,
    /// This many may be open even if they are a larger share, so that a fleet of one still has a breaker.
    pub open_always: u32,
}

impl Default for FleetSettings {
    fn default() -> Self {
        Self { open_share_max: 0.5, open_always: 1 }
    }
}

/// Breakers of many targets under one cap.
#[derive(Debug)]
pub struct Fleet {
    settings: FleetSettings,
    members: AtomicU64,
    open: AtomicU64,
    spared: AtomicU64,
}

impl Fleet {
    /// A fleet without members.
    pub fn new(settings: FleetSettings) -> Result<Arc<Self>, Invalid> {
        setting::fraction("open_share_max", settings.open_share_max)?;
        Ok(Arc::new(Self {
            settings,
            members: AtomicU64::new(0),
            open: AtomicU64::new(0),
            spared: AtomicU64::new(0),
        }))
    }

    /// A new breaker that is a member until it is dropped.
    pub fn breaker(self: &Arc<Self>, settings: Settings) -> Result<Breaker, Invalid> {
        Ok(Breaker::new(settings)?.in_fleet(Seat::take(self)))
    }

    /// How many members there are.
    pub fn members(&self) -> u64 {
        self.members.load(Ordering::Relaxed)
    }

    /// How many of them are open, half-open or forced open.
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// How often a breaker would have opened, had the cap not kept it closed.
    pub fn spared(&self) -> u64 {
        self.spared.load(Ordering::Relaxed)
    }

    /// How many may be open.
    pub fn open_max(&self) -> u64 {
        let share = (self.members() as f64 * self.settings.open_share_max).floor() as u64;
        share.max(u64::from(self.settings.open_always))
    }
}

/// The place of one breaker in its fleet.
#[derive(Debug)]
pub(super) struct Seat {
    fleet: Arc<Fleet>,
    counted_open: bool,
}

impl Seat {
    fn take(fleet: &Arc<Fleet>) -> Self {
        fleet.members.fetch_add(1, Ordering::Relaxed);
        Self { fleet: Arc::clone(fleet), counted_open: false }
    }

    /// Asks to open; the answer may be no.
    pub(super) fn ask_to_open(&mut self) -> bool {
        if self.counted_open {
            return true;
        }
        let open_max = self.fleet.open_max();
        let taken = self.fleet.open.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |open| {
            (open < open_max).then_some(open + 1)
        });
        self.counted_open = taken.is_ok();
        if !self.counted_open {
            self.fleet.spared.fetch_add(1, Ordering::Relaxed);
        }
        self.counted_open
    }

    /// Follows a change of state that is not to be refused.
    pub(super) fn follow(&mut self, keeps_away: bool) {
        match (self.counted_open, keeps_away) {
            (false, true) => self.fleet.open.fetch_add(1, Ordering::SeqCst),
            (true, false) => self.fleet.open.fetch_sub(1, Ordering::SeqCst),
            (true, true) | (false, false) => return,
        };
        self.counted_open = keeps_away;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.follow(false);
        self.fleet.members.fetch_sub(1, Ordering::Relaxed);
    }
}
