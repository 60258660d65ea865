//! The figures of the engine since its start: counters and histograms that the loop and the writer add to, and anyone
//! may read or register for a monitor. A figure for monitors costs its field and its line in `Stats::register`.

use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use divvy_types::Fact;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::core::Core;
use crate::request::Error;
use crate::times::Times;

/// Running figures.
#[derive(Debug)]
pub struct Stats {
    submitted: Counter,
    finished: Counter,
    failed_attempts: Counter,
    dead: Counter,
    cancelled: Counter,
    granted: Counter,
    refused_reports: Counter,
    facts: Counter,
    commits: Times,
    waits: Times,
    runs: Times,
    groups: AtomicU64,
    commit_us_total: AtomicU64,
    commit_us_max: AtomicU64,
    disk_full: AtomicBool,
    unavailable: AtomicBool,
    /// Why the store is not available, and what the last read that failed said.
    problem: Mutex<String>,
    unread: Mutex<String>,
    failed_reads: AtomicU64,
    clock_away_us: AtomicI64,
    retention_behind_us: AtomicU64,
    /// Whether someone waits for a task to become ready, and where.
    awaits_work: AtomicBool,
    work_came: Notify,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            submitted: Counter::default(),
            finished: Counter::default(),
            failed_attempts: Counter::default(),
            dead: Counter::default(),
            cancelled: Counter::default(),
            granted: Counter::default(),
            refused_reports: Counter::default(),
            facts: Counter::default(),
            commits: Times::default(),
            waits: Times::default(),
            runs: Times::default(),
            groups: AtomicU64::default(),
            commit_us_total: AtomicU64::default(),
            commit_us_max: AtomicU64::default(),
            disk_full: AtomicBool::default(),
            unavailable: AtomicBool::default(),
            problem: Mutex::default(),
            unread: Mutex::default(),
            failed_reads: AtomicU64::default(),
            clock_away_us: AtomicI64::default(),
            retention_behind_us: AtomicU64::default(),
            awaits_work: AtomicBool::default(),
            work_came: Notify::new(),
        }
    }
}

/// The counters at one moment, and how many tasks were open then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Why nothing is recorded at present, if that is so.
    pub store_problem: Option<String>,
    /// Requests that could not be answered because what they asked for could not be read.
    pub failed_reads: u64,
    /// What the last of these met.
    pub failed_read: Option<String>,
    /// How far the machine's clock was set away from the time that tasks go by, in milliseconds; 0 if they agree.
    pub clock_away_ms: i64,
    /// How far the time by which old tasks are deleted is behind that, in milliseconds.
    pub retention_behind_ms: u64,
    /// Tasks that wait for dependencies.
    pub blocked: u64,
    /// Tasks that wait for a time.
    pub scheduled: u64,
    /// Tasks that wait for a worker, those in the store included.
    pub ready: u64,
    /// Tasks that workers have: they run, or are `queued`.
    pub leased: u64,
    /// Of these, tasks that wait at their worker for a free slot.
    pub queued: u64,
    /// Ready tasks that wait in the store because the window is full.
    pub spilled: u64,
    /// Connected workers.
    pub workers: u64,
}

impl Stats {
    /// Makes the figures readable for monitors.
    pub(crate) fn register(&self, registry: &mut Registry) {
        for (name, help, counter) in [
            ("tasks_submitted", "Tasks accepted since the start", &self.submitted),
            ("tasks_finished", "Tasks done since the start", &self.finished),
            ("tasks_dead", "Tasks that became dead letters since the start", &self.dead),
            ("tasks_cancelled", "Tasks cancelled since the start", &self.cancelled),
            ("attempts_failed", "Attempts that failed and are retried", &self.failed_attempts),
            ("grants", "Leases given out", &self.granted),
            (
                "reports_refused",
                "Reports refused because their token was not valid",
                &self.refused_reports,
            ),
            ("facts", "Facts made durable", &self.facts),
        ] {
            registry.register(name, help, counter.clone());
        }
        for (name, help, histogram) in [
            ("commit_seconds", "Time that a commit of a group of facts took", &self.commits),
            ("task_wait_seconds", "Time from ready to granted", &self.waits),
            ("task_run_seconds", "Time that an attempt ran which finished its task", &self.runs),
        ] {
            registry.register(name, help, histogram.clone());
        }
    }

    pub(crate) fn count_fact(&self, fact: &Fact) {
        let counter = match fact {
            Fact::Submitted { .. } => &self.submitted,
            Fact::Finished { .. } => &self.finished,
            Fact::AttemptFailed { .. } => &self.failed_attempts,
            Fact::Dead { .. } => &self.dead,
            Fact::Cancelled { .. } => &self.cancelled,
            _ => return,
        };
        counter.inc();
    }

    pub(crate) fn count_grant(&self, waited_us: u64) {
        self.granted.inc();
        self.waits.add(waited_us);
    }

    pub(crate) fn count_run(&self, ran_us: u64) {
        self.runs.add(ran_us);
    }

    pub(crate) fn count_refused(&self) {
        self.refused_reports.inc();
    }

    pub(crate) fn count_commit(&self, facts: usize, took: Duration) {
        let micros = took.as_micros() as u64;
        self.groups.fetch_add(1, Relaxed);
        self.facts.inc_by(facts as u64);
        self.commits.add(micros);
        self.commit_us_total.fetch_add(micros, Relaxed);
        self.commit_us_max.fetch_max(micros, Relaxed);
    }

    /// A number that changes with everything that is counted.
    pub(crate) fn activity(&self) -> u64 {
        [
            &self.submitted,
            &self.finished,
            &self.failed_attempts,
            &self.cancelled,
            &self.granted,
            &self.facts,
        ]
        .iter()
        .fold(self.groups.load(Relaxed), |sum, counter| sum.wrapping_add(counter.get()))
    }

    pub(crate) fn set_disk_full(&self, full: bool) {
        self.disk_full.store(full, Relaxed);
    }

    pub(crate) fn is_disk_full(&self) -> bool {
        self.disk_full.load(Relaxed)
    }

    /// Says why nothing can be recorded, or that it can be again.
    pub(crate) fn set_problem(&self, problem: Option<&str>) {
        *lock(&self.problem) = problem.unwrap_or_default().to_owned();
        self.unavailable.store(problem.is_some(), Relaxed);
    }

    /// Why nothing can be recorded, if that is so.
    pub(crate) fn problem(&self) -> Option<String> {
        self.unavailable.load(Relaxed).then(|| lock(&self.problem).clone())
    }

    /// Why no new task can be taken, if that is so.
    pub(crate) fn refusal(&self) -> Option<Error> {
        let full = || self.is_disk_full().then_some(Error::DiskFull);
        self.problem().map(Error::StoreUnavailable).or_else(full)
    }

    /// A read that a request needed has failed.
    pub(crate) fn count_failed_read(&self, error: &str) {
        error.clone_into(&mut lock(&self.unread));
        self.failed_reads.fetch_add(1, Relaxed);
    }

    /// How many reads have failed.
    pub(crate) fn failed_reads(&self) -> u64 {
        self.failed_reads.load(Relaxed)
    }

    /// What the last read that failed met.
    pub(crate) fn failed_read(&self) -> String {
        lock(&self.unread).clone()
    }

    /// How far the wall clock is away, and how far the time of retention is behind, in microseconds.
    pub(crate) fn set_clock(&self, away_us: i64, retention_behind_us: u64) {
        self.clock_away_us.store(away_us, Relaxed);
        self.retention_behind_us.store(retention_behind_us, Relaxed);
    }

    /// A task has become ready.
    pub(crate) fn tell_work(&self) {
        if self.awaits_work.load(Relaxed) && self.awaits_work.swap(false, AcqRel) {
            self.work_came.notify_one();
        }
    }

    /// From now on the next task that becomes ready is told.
    pub(crate) fn await_work(&self) {
        self.awaits_work.store(true, Release);
    }

    /// Waits until a task has become ready.
    pub(crate) async fn work_came(&self) {
        self.work_came.notified().await;
    }

    pub(crate) fn snapshot(&self, core: &Core) -> Snapshot {
        let counts = core.scheduler().counts();
        Snapshot {
            submitted: self.submitted.get(),
            finished: self.finished.get(),
            failed_attempts: self.failed_attempts.get(),
            dead: self.dead.get(),
            cancelled: self.cancelled.get(),
            granted: self.granted.get(),
            refused_reports: self.refused_reports.get(),
            groups: self.groups.load(Relaxed),
            facts: self.facts.get(),
            commit_us_total: self.commit_us_total.load(Relaxed),
            commit_us_max: self.commit_us_max.load(Relaxed),
            disk_full: self.disk_full.load(Relaxed).into(),
            store_problem: self.problem(),
            failed_reads: self.failed_reads(),
            failed_read: (self.failed_reads() > 0).then(|| self.failed_read()),
            clock_away_ms: self.clock_away_us.load(Relaxed) / 1_000,
            retention_behind_ms: self.retention_behind_us.load(Relaxed) / 1_000,
            blocked: counts.blocked,
            scheduled: counts.scheduled,
            ready: counts.ready + counts.spilled,
            leased: counts.leased,
            queued: counts.queued,
            spilled: counts.spilled,
            workers: core.worker_count(),
        }
    }
}

fn lock(text: &Mutex<String>) -> std::sync::MutexGuard<'_, String> {
    text.lock().unwrap_or_else(PoisonError::into_inner)
}
