//! What follows from an attempt that did not finish its task: another attempt after a wait, or a dead letter.
//!
//! Counted are attempts that failed and attempts whose worker was lost; not counted are snoozes and tasks given back.
//! A task whose counted attempts exceed its retry limit is dead; which limit and which wait hold may depend on the
//! error. While the retry budget of its kind is spent, a retry waits for as long as its policy allows. A task that has
//! lost too many workers is dead whatever its limit: it may be what takes them down.

use divvy_types::limits::RETRY_WAIT_MS_MAX;
use divvy_types::view::TaskChange;
use divvy_types::{
    ErrorClass, Fact, Failure, FailureVerdict, Name, TaskError, TaskState, Timestamp,
};

use crate::Scheduler;
use crate::lanes::End;
use crate::learn::{Seen, is_fault};
use crate::settle::{Ended, cause};
use crate::spread::spread;
use crate::table::{NOBODY, Row};
use crate::workflows;

/// When the next attempt comes.
enum Next {
    /// After this many milliseconds, behind the others.
    AfterMs(u64),
    /// At once, before the others: its turn had come.
    FirstInLane,
}

impl Scheduler {
    /// A worker reported a failure.
    pub(crate) fn failed(&mut self, now: Timestamp, row: Row, failure: Failure, log: Option<Name>) {
        if self.tasks[row].stopping {
            return self.cancel_stopped(now, row);
        }
        let Failure { verdict, error } = failure;
        if verdict != FailureVerdict::Cancelled {
            let holder = self.tasks[row].worker;
            self.workers.get_mut(holder).failed += 1;
        }
        if is_fault(verdict, &error) {
            self.learn(now, row, Seen::Failed);
        }
        match verdict {
            FailureVerdict::Retry => {
                let wait = self.backoff(row, &error);
                self.count_failure(now, row, error, log, Next::AfterMs(wait));
            }
            FailureVerdict::RetryAfterMs(wait) => {
                let wait = wait.min(RETRY_WAIT_MS_MAX);
                self.count_failure(now, row, error, log, Next::AfterMs(wait));
            }
            FailureVerdict::SnoozeMs(wait) => {
                self.try_again(
                    now,
                    row,
                    error,
                    log,
                    Next::AfterMs(wait.min(RETRY_WAIT_MS_MAX)),
                    false,
                );
            }
            FailureVerdict::Dead => self.die(now, row, error, log),
            FailureVerdict::Cancelled => self.gave_up(now, row),
        }
    }

    /// A worker gave the task back unrun.
    pub(crate) fn released(&mut self, now: Timestamp, row: Row) {
        if self.tasks[row].stopping {
            return self.cancel_stopped(now, row);
        }
        self.recall_answered(row);
        self.give_back(now, row);
    }

    /// A handler stopped although nobody cancelled the task. On a worker that drains this is how it gives tasks back;
    /// on any other the same would happen again at once, so the task rests for a moment.
    fn gave_up(&mut self, now: Timestamp, row: Row) {
        if self.workers.get(self.tasks[row].worker).draining {
            return self.released(now, row);
        }
        self.end_without_fact(row);
        self.schedule(row, now, now.plus_ms(self.options.give_up_pause_ms));
    }

    /// The worker of an attempt is gone, or never came back after a restart.
    pub(crate) fn lost(&mut self, now: Timestamp, row: Row, worker: &Name) {
        if self.tasks[row].stopping {
            return self.cancel_stopped(now, row);
        }
        let lost = &mut self.tasks[row].links().lost_workers;
        // A worker that went away twice may just be restarted often; it says no more about the task than once.
        if !lost.contains(worker) {
            lost.push(worker.clone());
        }
        if lost.len() as u64 >= u64::from(self.settings.poison_after.0) {
            return self.poison(now, row);
        }
        let error = TaskError::new(
            ErrorClass::WorkerLost,
            format!("worker `{worker}` went away while it held the task"),
        );
        // Its turn had come, so it waits only if a rule for such errors says so.
        let rule = self.tasks[row].spec.retry.rule_for(&error);
        let next = match rule.and_then(|rule| rule.base_ms) {
            Some(_) => Next::AfterMs(self.backoff(row, &error)),
            None => Next::FirstInLane,
        };
        self.count_failure(now, row, error, None, next);
    }

    /// A task has lost so many workers that it is believed to take them down.
    fn poison(&mut self, now: Timestamp, row: Row) {
        let task = &mut self.tasks[row];
        task.attempts += 1;
        let names = std::mem::take(&mut task.links().lost_workers);
        let lost = names.len();
        let text = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let message = format!(
            "{lost} workers went away while they held the task ({text}); it may take them down, so \
             it is not tried again by itself"
        );
        self.die(now, row, TaskError::new(ErrorClass::WorkerLost, message), None);
    }

    /// The wait that the policy of a task gives this error.
    fn backoff(&mut self, row: Row, error: &TaskError) -> u64 {
        let task = &self.tasks[row];
        let retry = task.spec.retry.for_error(error);
        let wait = retry.wait_ms(task.attempts + 1);
        spread(&mut self.random, wait, retry.jitter_percent).min(RETRY_WAIT_MS_MAX)
    }

    /// The attempt has taken too long and its worker did not end it.
    pub(crate) fn timed_out(&mut self, now: Timestamp, row: Row) {
        let task = &self.tasks[row];
        let limit = task.spec.timeout_ms.unwrap_or_default();
        let holder = task.worker;
        if holder != NOBODY {
            self.workers.get_mut(holder).failed += 1;
        }
        self.learn(now, row, Seen::Failed);
        let message =
            format!("the attempt took longer than its {limit} ms and its worker did not stop it");
        let error = TaskError::new(ErrorClass::Timeout, message);
        let wait = self.backoff(row, &error);
        self.count_failure(now, row, error, None, Next::AfterMs(wait));
    }

    fn count_failure(
        &mut self,
        now: Timestamp,
        row: Row,
        error: TaskError,
        log: Option<Name>,
        next: Next,
    ) {
        let task = &mut self.tasks[row];
        task.attempts += 1;
        let retry = task.spec.retry.for_error(&error);
        if task.attempts > retry.limit {
            return self.die(now, row, error, log);
        }
        let next = match next {
            Next::AfterMs(wait) => Next::AfterMs(self.within_budget(now, row, wait, retry.cap_ms)),
            Next::FirstInLane => Next::FirstInLane,
        };
        self.try_again(now, row, error, log, next, true);
    }

    /// The wait of a retry, or the longest that its policy allows if the retries of its kind are spent.
    fn within_budget(&mut self, now: Timestamp, row: Row, wait: u64, longest: u64) -> u64 {
        let task = &mut self.tasks[row];
        let spent = !self.budgets.spend(now, &task.spec.kind, &self.settings);
        if spent || task.links.as_ref().is_some_and(|links| links.over_budget) {
            task.links().over_budget = spent;
        }
        if spent { wait.max(longest) } else { wait }
    }

    fn try_again(
        &mut self,
        now: Timestamp,
        row: Row,
        error: TaskError,
        log: Option<Name>,
        next: Next,
        counted: bool,
    ) {
        self.tally_of(row).retried += 1;
        let worker = self.end_lease(row);
        if counted && error.class != ErrorClass::Cancelled {
            self.failed_on(row, &worker);
        }
        let task = &mut self.tasks[row];
        task.retried = true;
        task.given_back = false;
        let (seq, token, spec) = (task.seq, task.token, task.spec.clone());
        let ready_at = task.ready_at;
        let retry_at = match next {
            Next::AfterMs(wait) => now.plus_ms(wait),
            Next::FirstInLane => now,
        };
        let known = error.clone();
        self.record(Fact::AttemptFailed {
            seq,
            token,
            at: now,
            worker: worker.clone(),
            error,
            log,
            retry_at,
            counted,
        });
        let state = if retry_at > now { TaskState::Scheduled } else { TaskState::Ready };
        self.announce(|| TaskChange {
            worker: Some(worker),
            error: Some(known),
            ..TaskChange::of(&spec, state, now)
        });
        match next {
            Next::FirstInLane => self.make_ready(row, now, ready_at, End::Front),
            Next::AfterMs(0) => self.make_ready(row, now, now, End::Back),
            Next::AfterMs(_) => self.schedule(row, now, retry_at),
        }
    }

    fn die(&mut self, now: Timestamp, row: Row, error: TaskError, log: Option<Name>) {
        self.tally_of(row).failed += 1;
        let worker = self.end_lease(row);
        let task = self.remove(row);
        let (seq, token) = (task.seq, task.token);
        let links = task.links.map(|links| *links).unwrap_or_default();
        let why = cause(Some(task.spec.id), "failed", &error.to_string());
        self.member_ended(seq, task.spec.member(), workflows::End::Failed(&why), true);
        self.record(Fact::Dead {
            seq,
            token,
            at: now,
            worker: worker.clone(),
            error: error.clone(),
            log,
        });
        self.announce(|| TaskChange {
            worker: Some(worker),
            error: Some(error),
            ..TaskChange::of(&task.spec, TaskState::Dead, now)
        });
        self.forget(seq, &task.spec);
        self.ended.push(Ended {
            dependents: links.dependents,
            spawned_by: links.spawned_by,
            cause: Some(why),
        });
    }
}
