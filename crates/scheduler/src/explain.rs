//! Why a task is where it is, when it is expected to start, and whether it will be in time.
//!
//! Estimates rest on what was learnt of run times and on who waits before the task now. They know nothing of tasks
//! that are still to come, so they are a promise to nobody; without any known run time there is none.

use std::cmp::Ordering;

use divvy_types::view::Explanation;
use divvy_types::{Seq, TaskState, Timestamp, WaitReason};

use crate::Scheduler;
use crate::admission::{Work, after_us};
use crate::table::{Task, band_of};

impl Scheduler {
    /// Everything that is known about why a task in memory waits or runs where it does.
    pub fn explain(&self, now: Timestamp, seq: Seq) -> Option<Explanation> {
        let task = self.tasks.find(seq)?;
        let spec = &task.spec;
        let run_us = self.estimate_us(spec);
        let estimated_start = self.estimated_start(now, task);
        Some(Explanation {
            position: (task.state == TaskState::Ready).then(|| self.ahead_of(task).tasks),
            estimated_start,
            estimated_run_ms: run_us.map(|us| us / 1_000),
            deadline: spec.deadline,
            late: self.is_expected_late(now, task),
            placement: self.placement_of(seq),
            candidates: self.candidates(seq),
        })
    }

    /// When a task with a deadline is expected to be done, if that is too late: the admission test.
    pub fn expected_late(&self, now: Timestamp, seq: Seq) -> Option<Timestamp> {
        let task = self.tasks.find(seq)?;
        let deadline = task.spec.deadline?;
        Some(self.expected_end(now, task)).filter(|end| *end > deadline)
    }

    pub(crate) fn is_expected_late(&self, now: Timestamp, task: &Task) -> bool {
        task.spec.deadline.is_some_and(|deadline| self.expected_end(now, task) > deadline)
    }

    fn expected_end(&self, now: Timestamp, task: &Task) -> Timestamp {
        let start = match task.state {
            TaskState::Leased => task.since,
            _ => self.estimated_start(now, task).unwrap_or_else(|| now.max(task.ready_at)),
        };
        let run_us = self.estimate_us(&task.spec).unwrap_or(0);
        now.max(after_us(start, run_us))
    }

    /// When a task that waits is expected to start, where that can be known.
    fn estimated_start(&self, now: Timestamp, task: &Task) -> Option<Timestamp> {
        match task.state {
            TaskState::Scheduled => Some(task.ready_at),
            // Nobody knows when a person opens a queue, or a task that holds a place under a limit ends.
            TaskState::Ready if self.waits_for_others(now, task) => None,
            TaskState::Ready => {
                let crew = self.crew(&self.classes.get(task.class).groups);
                let run_us = self.estimate_us(&task.spec);
                let start = crew.start(now, self.ahead_of(task), run_us)?;
                let limit = self.limits.until(&task.spec.limits, now);
                Some(limit.map_or(start, |until| until.max(start)))
            }
            _ => None,
        }
    }

    /// Whether a ready task is kept by something that has no end in time: a paused queue, or a limit that is full.
    fn waits_for_others(&self, now: Timestamp, task: &Task) -> bool {
        let paused = self.queues.find(&task.spec.queue).is_some_and(|queue| queue.paused);
        let limit = self.wait_for_limit_of(task, now);
        paused || matches!(limit, Some(WaitReason::Limit { concurrency: Some(_), .. }))
    }

    /// What is expected to start before a ready task: of streams that compete for the same workers, all tasks of
    /// higher priority, and of equal priority as many as take turns with those before it in its own stream.
    fn ahead_of(&self, task: &Task) -> Work {
        let band = band_of(task.spec.priority);
        let latest = task.spec.deadline.map(|deadline| self.latest_start(&task.spec, deadline));
        let own = self.position(task).unwrap_or_default();
        let mut ahead = Work::of(own, self.run_us_of(task.class));
        for (index, stream) in self.rivals(&self.classes.get(task.class).groups) {
            if index == task.stream {
                continue;
            }
            let before = match (usize::from(stream.id.band).cmp(&band), latest) {
                (Ordering::Greater, _) => self.all_of(stream),
                (Ordering::Less, _) => continue,
                (Ordering::Equal, Some(latest)) => self.due_before(stream, latest),
                (Ordering::Equal, None) => {
                    let turns = (stream.live as u64).min(own + 1);
                    Work::of(turns, self.run_us_of(stream.id.class))
                }
            };
            ahead = ahead.plus(before);
        }
        ahead
    }
}
