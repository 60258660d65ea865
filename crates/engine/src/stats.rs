//! The figures of the engine since its start: counters that the loop and the writer add to, and anyone may read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use divvy_types::Fact;
use serde::{Deserialize, Serialize};

use crate::core::Core;

/// Running counters.
#[derive(Default, Debug)]
pub struct Stats {
    submitted: AtomicU64,
    finished: AtomicU64,
    failed_attempts: AtomicU64,
    dead: AtomicU64,
    cancelled: AtomicU64,
    granted: AtomicU64,
    refused_reports: AtomicU64,
    groups: AtomicU64,
    facts: AtomicU64,
    commit_us_total: AtomicU64,
    commit_us_max: AtomicU64,
    disk_full: AtomicU64,
}

/// The counters at one moment, and how many tasks were open then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Tasks accepted.
    pub submitted: u64,
    /// Tasks done.
    pub finished: u64,
    /// Attempts that failed and will be retried.
    pub failed_attempts: u64,
    /// Tasks that became dead letters.
    pub dead: u64,
    /// Tasks cancelled.
    pub cancelled: u64,
    /// Leases given out.
    pub granted: u64,
    /// Reports refused because their token was not valid.
    pub refused_reports: u64,
    /// Groups committed.
    pub groups: u64,
    /// Facts committed.
    pub facts: u64,
    /// Time spent in commits, in microseconds.
    pub commit_us_total: u64,
    /// The longest commit, in microseconds.
    pub commit_us_max: u64,
    /// 1 while new tasks are refused because the disk is nearly full.
    pub disk_full: u64,
    /// Tasks that wait for dependencies.
    pub blocked: u64,
    /// Tasks that wait for a time.
    pub scheduled: u64,
    /// Tasks that wait for a worker, those in the store included.
    pub ready: u64,
    /// Tasks that run.
    pub leased: u64,
    /// Ready tasks that wait in the store because the window is full.
    pub spilled: u64,
    /// Connected workers.
    pub workers: u64,
}

impl Stats {
    pub(crate) fn count_fact(&self, fact: &Fact) {
        let counter = match fact {
            Fact::Submitted { .. } => &self.submitted,
            Fact::Finished { .. } => &self.finished,
            Fact::AttemptFailed { .. } => &self.failed_attempts,
            Fact::Dead { .. } => &self.dead,
            Fact::Cancelled { .. } => &self.cancelled,
            _ => return,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_grant(&self) {
        self.granted.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_refused(&self) {
        self.refused_reports.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_commit(&self, facts: usize, took: Duration) {
        let micros = took.as_micros() as u64;
        self.groups.fetch_add(1, Relaxed);
        self.facts.fetch_add(facts as u64, Relaxed);
        self.commit_us_total.fetch_add(micros, Relaxed);
        self.commit_us_max.fetch_max(micros, Relaxed);
    }

    pub(crate) fn set_disk_full(&self, full: bool) {
        self.disk_full.store(full.into(), Relaxed);
    }

    pub(crate) fn is_disk_full(&self) -> bool {
        self.disk_full.load(Relaxed) != 0
    }

    pub(crate) fn snapshot(&self, core: &Core) -> Snapshot {
        let counts = core.scheduler().counts();
        Snapshot {
            submitted: self.submitted.load(Relaxed),
            finished: self.finished.load(Relaxed),
            failed_attempts: self.failed_attempts.load(Relaxed),
            dead: self.dead.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
            granted: self.granted.load(Relaxed),
            refused_reports: self.refused_reports.load(Relaxed),
            groups: self.groups.load(Relaxed),
            facts: self.facts.load(Relaxed),
            commit_us_total: self.commit_us_total.load(Relaxed),
            commit_us_max: self.commit_us_max.load(Relaxed),
            disk_full: self.disk_full.load(Relaxed),
            blocked: counts.blocked,
            scheduled: counts.scheduled,
            ready: counts.ready + counts.spilled,
            leased: counts.leased,
            spilled: counts.spilled,
            workers: core.worker_count(),
        }
    }
}
