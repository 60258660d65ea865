//! Someone wants a task not to run. A task that waits is cancelled at once; one that runs is told to stop and is
//! cancelled when its worker answers, or when it has not answered in time.

use divvy_types::{Name, Seq, TaskState, Timestamp};

use crate::lanes::End;
use crate::settle::cause;
use crate::table::{NOBODY, Row};
use crate::timers::Timer;
use crate::{Action, Scheduler};

impl Scheduler {
    pub(crate) fn cancel_requested(&mut self, now: Timestamp, seq: Seq, reason: Name) {
        let Some(row) = self.tasks.row_of(seq) else { return };
        let task = &self.tasks[row];
        if task.state == TaskState::Leased && task.worker != NOBODY {
            return self.stop_running(now, row, reason);
        }
        self.withdraw(now, row);
        self.cancel_for(now, row, reason);
    }

    /// Takes a task out of wherever it waits; its state is blocked afterwards.
    fn withdraw(&mut self, now: Timestamp, row: Row) {
        let (state, seq, due) =
            (self.tasks[row].state, self.tasks[row].seq, self.tasks[row].ready_at);
        match state {
            TaskState::Scheduled => self.timers.remove(due, Timer::Due(seq)),
            TaskState::Leased => {
                self.end_lease(row);
            }
            _ => {}
        }
        self.set_state(row, TaskState::Blocked, now);
        if state == TaskState::Ready {
            self.unqueue(row, now);
        }
    }

    fn stop_running(&mut self, now: Timestamp, row: Row, reason: Name) {
        let stop_by = now.plus_ms(self.options.stop_grace_ms);
        let task = &mut self.tasks[row];
        if std::mem::replace(&mut task.stopping, true) {
            return;
        }
        let links = task.links();
        links.cancel = Some(reason.clone());
        links.stop_by = stop_by;
        let (seq, id, token) = (task.seq, task.spec.id, task.token);
        let worker = self.workers.get(task.worker).key.worker;
        self.timers.add(stop_by, Timer::StopGrace(seq));
        self.actions.push_back(Action::StopAttempt { worker, seq, task: id, token, reason });
    }

    /// The worker of a task that was told to stop has answered, or is gone.
    pub(crate) fn cancel_stopped(&mut self, now: Timestamp, row: Row) {
        let reason = self.tasks[row].links().cancel.take().unwrap_or_default();
        self.end_lease(row);
        self.cancel_for(now, row, reason);
    }

    /// The worker of a task that was told to stop has not answered in time.
    pub(crate) fn stop_ignored(&mut self, now: Timestamp, seq: Seq) {
        let Some(row) = self.tasks.row_of(seq) else { return };
        if self.tasks[row].state == TaskState::Leased && self.tasks[row].stopping {
            self.cancel_stopped(now, row);
        }
    }

    fn cancel_for(&mut self, now: Timestamp, row: Row, reason: Name) {
        let cause = cause(Some(self.tasks[row].spec.id), "was cancelled", &reason);
        self.cancel(now, row, reason, cause);
    }

    pub(crate) fn run_now_requested(&mut self, now: Timestamp, seq: Seq) {
        let Some(row) = self.tasks.row_of(seq) else { return };
        if self.tasks[row].state == TaskState::Scheduled {
            self.timers.remove(self.tasks[row].ready_at, Timer::Due(seq));
            self.make_ready(row, now, now, End::Back);
        }
    }
}
