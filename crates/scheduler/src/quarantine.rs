//! Workers that keep failing a kind rest from it for a while.
//!
//! Trips when at least [`ATTEMPTS_MIN`] of the last [`Results::WINDOW`] attempts of a worker at a kind are known and
//! half of them failed, *and* another active worker that may take the task does clearly better or has hardly tried.
//! Then the worker is quarantined for that kind: 30 seconds, twice as long after each failed trial, at most 10 minutes.
//! After that it gets one task at a time on trial; if one works it plays again.
//!
//! A quarantine must never stop a kind. If nobody does better, the kind itself is bad and nobody is quarantined for it. A
//! worker that is quarantined still gets tasks of a class that no other active worker may take. Snoozes, cancels, tasks
//! given back and lost workers are nobody's fault here.
//!
//! This is a breaker whose trip depends on others and whose trials end with leases, so it does not use the one of
//! `divvy-guard`, which judges one part by itself and keeps its own permits.

use divvy_types::{Timestamp, Token};

use crate::Scheduler;
use crate::learn::Seen;
use crate::table::Row;
use crate::timers::Timer;

/// Attempts in the window before it says anything.
const ATTEMPTS_MIN: u32 = 5;
/// The first rest, and the longest.
const REST_MS: u64 = 30_000;
const REST_MS_MAX: u64 = 600_000;
/// How many other workers are looked at for one that does better.
const OTHERS_MAX: usize = 256;

/// The last results of a worker at a kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Results {
    /// The newest in the lowest bit; 1 is a failure.
    failures: u32,
    known: u32,
}

impl Results {
    const WINDOW: u32 = 20;

    pub(crate) fn add(&mut self, seen: Seen) {
        let failed = u32::from(seen == Seen::Failed);
        self.failures = (self.failures << 1 | failed) & ((1 << Self::WINDOW) - 1);
        self.known = (self.known + 1).min(Self::WINDOW);
    }

    fn failed(&self) -> u32 {
        self.failures.count_ones()
    }

    fn is_bad(&self) -> bool {
        self.known >= ATTEMPTS_MIN && 2 * self.failed() >= self.known
    }

    /// Whether it fails at most half as often as the other, or says too little.
    fn is_clearly_better_than(&self, other: &Self) -> bool {
        self.known < ATTEMPTS_MIN || 2 * self.failed() * other.known <= other.failed() * self.known
    }
}

/// A rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quarantine {
    pub(crate) until: Timestamp,
    /// Trials that failed.
    rounds: u32,
    /// Attempts up to this one were granted before it.
    after: Token,
    /// The attempt on trial.
    trial: Option<Token>,
}

impl Scheduler {
    /// Whether a worker is not to be given tasks of this class for now.
    pub(crate) fn is_quarantined(&self, worker: u32, class: u32) -> bool {
        if self.learning.quarantines() == 0 {
            return false;
        }
        let kind = self.fits.get(class).kind;
        let known = self.workers.get(worker).known;
        self.rests(known, kind) && self.others_ready(class, known)
    }

    /// Whether another active worker may take tasks of a class and does not rest from its kind.
    pub(crate) fn others_ready(&self, class: u32, known: u32) -> bool {
        let kind = self.fits.get(class).kind;
        self.others_able(class, known).any(|other| !self.rests(other, kind))
    }

    /// Whether a name rests from a kind; once its time is over, only while it has a task on trial.
    fn rests(&self, known: u32, kind: u32) -> bool {
        self.settings.load_balancing.capabilities.consider_history
            && self
                .learning
                .skill(known, kind)
                .and_then(|skill| skill.quarantine)
                .is_some_and(|quarantine| self.now < quarantine.until || quarantine.trial.is_some())
    }

    /// Names of other active workers that may take tasks of a class.
    fn others_able(&self, class: u32, known: u32) -> impl Iterator<Item = u32> {
        let groups = self.classes.get(class).groups.iter();
        groups
            .flat_map(|group| &self.workers.group(group).active)
            .map(|index| self.workers.get(*index).known)
            .filter(move |other| *other != known)
            .take(OTHERS_MAX)
    }

    /// How many free workers rest from the kind of a class while all others that may take its tasks are full, and
    /// when the first of them is tried again.
    pub(crate) fn quarantined_for(&self, class: u32) -> Option<(u32, Timestamp)> {
        if self.learning.quarantines() == 0 {
            return None;
        }
        let kind = self.fits.get(class).kind;
        let (mut count, mut first) = (0, Timestamp::MAX);
        for group in self.classes.get(class).groups.iter() {
            for index in &self.workers.group(group).active {
                let worker = self.workers.get(*index);
                if !worker.is_waiting() {
                    continue;
                }
                if !self.is_quarantined(*index, class) {
                    return None;
                }
                let skill = self.learning.skill(worker.known, kind)?;
                first = first.min(skill.quarantine?.until);
                count += 1;
            }
        }
        (count > 0).then_some((count, first))
    }

    /// Judges a worker by an attempt that was just added to its results.
    pub(crate) fn judge(&mut self, now: Timestamp, row: Row, seen: Seen) {
        let task = &self.tasks[row];
        let (class, token) = (task.class, task.token);
        let known = self.workers.get(task.worker).known;
        let kind = self.fits.get(class).kind;
        let Some(skill) = self.learning.skill(known, kind) else { return };
        match (skill.quarantine, seen) {
            (Some(quarantine), Seen::Worked) if token > quarantine.after => {
                self.learning.set_quarantine(known, kind, None);
            }
            (Some(quarantine), Seen::Failed) if quarantine.trial == Some(token) => {
                self.quarantine(now, known, kind, quarantine.rounds + 1);
            }
            (None, Seen::Failed) if skill.results.is_bad() => self.fault(now, class, known, kind),
            _ => {}
        }
    }

    /// A worker failed a kind too often: it is its own fault if someone does better, else it is the kind's.
    fn fault(&mut self, now: Timestamp, class: u32, known: u32, kind: u32) {
        if !self.settings.load_balancing.capabilities.consider_history {
            return;
        }
        let Some(own) = self.learning.skill(known, kind).map(|skill| skill.results) else { return };
        let does_better = |other: u32| match self.learning.skill(other, kind) {
            Some(skill) => skill.quarantine.is_none() && skill.results.is_clearly_better_than(&own),
            None => true,
        };
        if self.others_able(class, known).any(does_better) {
            return self.quarantine(now, known, kind, 0);
        }
        if self.learning.quarantines() > 0 {
            for other in self.learning.quarantined_at(kind) {
                self.learning.set_quarantine(other, kind, None);
                self.mark_workers_named(other);
            }
        }
    }

    fn quarantine(&mut self, now: Timestamp, known: u32, kind: u32, rounds: u32) {
        let rest = REST_MS.saturating_mul(1 << rounds.min(16)).min(REST_MS_MAX);
        let until = now.plus_ms(rest);
        let after = Token::new(self.options.epoch, self.grants);
        self.learning.set_quarantine(
            known,
            kind,
            Some(Quarantine { until, rounds, after, trial: None }),
        );
        self.timers.add(until, Timer::QuarantineOver(known, kind));
        // Someone else may have rested on the strength of this one.
        self.mark_kept_out();
    }

    /// A rest is over: the worker may have a task on trial.
    pub(crate) fn quarantine_over(&mut self, known: u32, kind: u32) {
        if self.learning.skill(known, kind).is_some_and(|skill| skill.quarantine.is_some()) {
            self.mark_workers_named(known);
        }
    }

    /// An attempt was granted: it may be on trial.
    pub(crate) fn note_trial(&mut self, row: Row, worker: u32) {
        if self.learning.quarantines() == 0 {
            return;
        }
        let (token, kind) = (self.tasks[row].token, self.fits.get(self.tasks[row].class).kind);
        let (known, now) = (self.workers.get(worker).known, self.now);
        if let Some(skill) = self.learning.skill_mut(known, kind)
            && let Some(quarantine) = &mut skill.quarantine
            && quarantine.until <= now
            && quarantine.trial.is_none()
        {
            quarantine.trial = Some(token);
            // It gets no more, and someone else may have been kept out on the strength of it.
            self.mark_kept_out();
        }
    }

    /// An attempt ended, whatever way: if it was on trial and did not decide, the next one may.
    pub(crate) fn trial_over(&mut self, row: Row, worker: u32) {
        if self.learning.quarantines() == 0 {
            return;
        }
        let (token, kind) = (self.tasks[row].token, self.fits.get(self.tasks[row].class).kind);
        let known = self.workers.get(worker).known;
        if let Some(skill) = self.learning.skill_mut(known, kind)
            && let Some(quarantine) = &mut skill.quarantine
            && quarantine.trial == Some(token)
        {
            quarantine.trial = None;
        }
    }

    /// Offers tasks again to workers that were kept from some, after someone has gone who might have been better.
    pub(crate) fn mark_kept_out(&mut self) {
        if self.learning.quarantines() > 0 || self.kept > 0 {
            for index in self.workers.indices() {
                if self.workers.get(index).is_waiting() {
                    self.mark_worker(index);
                }
            }
        }
    }

    fn mark_workers_named(&mut self, known: u32) {
        for index in self.workers.indices() {
            if self.workers.get(index).known == known {
                self.mark_worker(index);
            }
        }
    }
}
