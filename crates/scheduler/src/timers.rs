//! When something is due. Exact and ordered; an entry is taken out when what it waits for has happened, so the set
//! never holds more than the tasks and workers that wait for a time.

use std::collections::BTreeSet;

use divvy_types::{Seq, Timestamp, WorkerKey};

use crate::workers::TierKey;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A scheduled task becomes ready.
    Due(Seq),
    /// An attempt has taken longer than it may, and its worker has not said so.
    Overdue(Seq),
    /// A worker was told to stop an attempt and has not answered.
    StopGrace(Seq),
    /// An attempt from before the restart was not announced by its worker.
    Unclaimed(Seq),
    /// A ready task has waited long enough for another worker than the one that it failed on.
    Anywhere(Seq),
    /// A limit may let something through again.
    Limit(u32),
    /// A worker may hold attempts that have run for a while.
    Held(TierKey),
    /// A worker that holds leases may have been silent for too long.
    Lease(TierKey),
    /// A worker whose connection broke has been away for too long.
    Away(WorkerKey),
    /// A worker, by the number of its name, has rested long enough from a kind.
    QuarantineOver(u32, u32),
    /// The load of the workers is to be looked at.
    Look,
    /// Tasks that wait in line at workers are to be looked at.
    Lines,
}

#[derive(Debug, Default)]
pub(crate) struct Timers {
    set: BTreeSet<(Timestamp, Timer)>,
}

impl Timers {
    pub(crate) fn add(&mut self, at: Timestamp, timer: Timer) {
        self.set.insert((at, timer));
    }

    pub(crate) fn remove(&mut self, at: Timestamp, timer: Timer) {
        self.set.remove(&(at, timer));
    }

    /// All of them, which are then no longer here.
    pub(crate) fn take(&mut self) -> BTreeSet<(Timestamp, Timer)> {
        std::mem::take(&mut self.set)
    }

    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.set.first().map(|(at, _)| *at)
    }

    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<(Timestamp, Timer)> {
        let first = self.set.first().filter(|(at, _)| *at <= now).copied()?;
        self.set.remove(&first);
        Some(first)
    }
}
