//! What a step of the clock means for what is under way: everything that lasts for a while keeps its length.
//!
//! Leases, time-outs, graces and the rests before retries are moved along. What people set as a point in time, such as
//! `run_at` or a deadline, is not: it is met by the new time. Rests that only spare effort may end early.

use std::time::Duration;

use divvy_types::{TaskState, Timestamp};

use crate::Scheduler;
use crate::places::{QUEUED, UNMEASURED};
use crate::table::Task;
use crate::timers::Timer;

impl Scheduler {
    /// The clock was set forward by `by`; nothing has happened meanwhile.
    pub(crate) fn clock_stepped(&mut self, by: Duration) {
        for (at, timer) in self.timers.take() {
            let moves = match timer {
                Timer::Due(seq) => self.tasks.find(seq).is_some_and(|task| !waits_for_run_at(task)),
                Timer::Overdue(_)
                | Timer::StopGrace(_)
                | Timer::Unclaimed(_)
                | Timer::Held(_)
                | Timer::Lease(_) => true,
                _ => false,
            };
            self.timers.add(if moves { at + by } else { at }, timer);
        }
        for task in self.tasks.all_mut() {
            match task.state {
                TaskState::Scheduled if !waits_for_run_at(task) => move_on(&mut task.ready_at, by),
                TaskState::Leased => {
                    move_on(&mut task.since, by);
                    if ![QUEUED, UNMEASURED].contains(&task.begun) {
                        move_on(&mut task.begun, by);
                    }
                    if let Some(links) = &mut task.links {
                        move_on(&mut links.stop_by, by);
                    }
                }
                _ => {}
            }
        }
        for index in self.workers.indices() {
            let worker = self.workers.get_mut(index);
            for at in [&mut worker.connected_at, &mut worker.seen_at, &mut worker.holding_since] {
                move_on(at, by);
            }
            let waiting = worker.lines.iter_mut().flatten();
            for note in worker.young.iter_mut().chain(&mut worker.old).chain(waiting) {
                move_on(&mut note.at, by);
            }
        }
    }
}

/// Whether what a scheduled task waits for is the time that its submitter set.
fn waits_for_run_at(task: &Task) -> bool {
    task.state == TaskState::Scheduled && task.spec.run_at == Some(task.ready_at)
}

fn move_on(at: &mut Timestamp, by: Duration) {
    *at = *at + by;
}
