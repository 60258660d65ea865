//! Why a task is where it is, when it is expected to start, and whether it will be in time.
//!
//! Estimates rest on what was learnt of run times and on who waits before the task now. They know nothing of tasks
//! that are still to come, so they are a promise to nobody; without any known run time there is none.

use divvy_types::view::Explanation;
use divvy_types::{Seq, TaskState, Timestamp};

use crate::Scheduler;
use crate::table::{Task, band_of};

/// What stands between a task and its start.
struct Ahead {
    /// Tasks that are expected to start before it.
    tasks: u64,
    /// Tasks that the workers who could run it have in hand.
    running: u64,
    /// Slots of those workers.
    slots: u64,
}

impl Scheduler {
    /// Everything that is known about why a task in memory waits or runs where it does.
    pub fn explain(&self, now: Timestamp, seq: Seq) -> Option<Explanation> {
        let status = self.status(seq)?;
        let task = self.tasks.find(seq)?;
        let spec = &task.spec;
        let run_us = self.estimate_us(spec);
        let estimated_start = self.estimated_start(now, task);
        Some(Explanation {
            id: spec.id,
            state: status.state,
            wait_text: status.wait.as_ref().map(ToString::to_string),
            wait: status.wait,
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
        now.max(Timestamp(start.0.saturating_add(run_us)))
    }

    /// When a task that waits is expected to start, where that can be known.
    fn estimated_start(&self, now: Timestamp, task: &Task) -> Option<Timestamp> {
        match task.state {
            TaskState::Scheduled => Some(task.ready_at),
            TaskState::Ready => {
                let limit = self.limit_until(task, now);
                let ahead = self.ahead_of(task);
                if ahead.slots == 0 {
                    return None;
                }
                // Whoever runs is half done, as far as one knows.
                let before = ahead.tasks as f64 + ahead.running as f64 / 2.0;
                let free = ahead.tasks + ahead.running < ahead.slots;
                let wait_us = match self.estimate_us(&task.spec) {
                    _ if free => 0.0,
                    Some(run_us) => before * run_us as f64 / ahead.slots as f64,
                    None => return None,
                };
                let start = Timestamp(now.0.saturating_add(wait_us as u64));
                Some(limit.map_or(start, |until| until.max(start)))
            }
            _ => None,
        }
    }

    /// When a limit lets the stream of a task go on, if its rate keeps it.
    fn limit_until(&self, task: &Task, now: Timestamp) -> Option<Timestamp> {
        let stream = self.streams.at(task.stream)?;
        let limit = self.limits.blocker(stream.id.limits, now)?;
        self.limits.get(limit).next(now)
    }

    /// Who is expected to start before a ready task: of streams that compete for the same workers, all tasks of
    /// higher priority, and of equal priority as many as take turns with those before it in its own stream.
    fn ahead_of(&self, task: &Task) -> Ahead {
        let groups = &self.classes.get(task.class).groups;
        let band = band_of(task.spec.priority);
        let latest = task.spec.deadline.map(|deadline| self.latest_start(&task.spec, deadline));
        let own = self.position(task).unwrap_or_default();
        let mut tasks = own;
        for (index, stream) in self.streams.iter() {
            let competes = stream.listed.is_some()
                && index != task.stream
                && self.classes.get(stream.id.class).groups.intersects(groups);
            if !competes {
                continue;
            }
            let live = stream.live as u64;
            tasks += match usize::from(stream.id.band).cmp(&band) {
                std::cmp::Ordering::Greater => live,
                std::cmp::Ordering::Less => 0,
                std::cmp::Ordering::Equal => match latest {
                    Some(latest) => stream.due_before(latest),
                    None => live.min(own + 1),
                },
            };
        }
        let able = groups.iter().flat_map(|group| self.workers.group(group).active.iter());
        let (mut running, mut slots) = (0, 0);
        for worker in able.map(|index| self.workers.get(*index)) {
            running += u64::from(worker.leased);
            slots += u64::from(worker.slots.max(1));
        }
        Ahead { tasks, running, slots }
    }
}
