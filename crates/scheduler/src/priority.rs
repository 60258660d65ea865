//! Someone gives a task that waits another priority. It keeps its age: among those of its new priority it stands where it
//! would if it had had that from the start. One that a worker has keeps the priority that it was given out with.

use std::sync::Arc;

use divvy_types::{Fact, Seq, TaskState, Timestamp};

use crate::Scheduler;
use crate::lanes::End;

impl Scheduler {
    pub(crate) fn priority_changed(&mut self, now: Timestamp, seq: Seq, priority: u8) {
        let Some(row) = self.tasks.row_of(seq) else { return };
        let task = &self.tasks[row];
        let (state, ready_at, class) = (task.state, task.ready_at, task.class);
        if state == TaskState::Leased || task.spec.priority == priority {
            return;
        }
        if state == TaskState::Ready {
            self.set_state(row, TaskState::Blocked, now);
            self.unqueue(row, now);
        }
        Arc::make_mut(&mut self.tasks[row].spec).priority = priority;
        self.record(Fact::Reprioritised { seq, at: now, priority });
        if state == TaskState::Ready {
            self.make_ready(row, now, ready_at, End::Front);
            self.traffic_not_new(class);
        }
    }
}
