//! Data that a running attempt saves, so that a later attempt can go on from there.

use divvy_types::{Fact, Payload, Seq, TaskState, Timestamp, Token, WorkerKey};

use crate::Scheduler;
use crate::table::NOBODY;

impl Scheduler {
    /// Only the holder of the lease may save, under its token; anything else is not heard.
    pub(crate) fn checkpoint_saved(
        &mut self,
        now: Timestamp,
        worker: WorkerKey,
        seq: Seq,
        token: Token,
        data: Payload,
    ) {
        let Some(row) = self.tasks.row_of(seq) else { return };
        let task = &mut self.tasks[row];
        let holds = task.state == TaskState::Leased
            && task.token == token
            && task.worker != NOBODY
            && self.workers.get(task.worker).key.worker == worker;
        if holds {
            task.checkpointed = true;
            self.record(Fact::Checkpoint { seq, token, at: now, data });
        }
    }
}
