//! What the scheduler wants done.

use std::sync::Arc;

use divvy_types::view::TaskChange;
use divvy_types::{Fact, Lane, Name, Seq, TaskId, TaskSpec, Token, WorkerKey, WorkflowId};

/// Something to do.
#[derive(Clone, Debug)]
pub enum Action {
    /// Write this down. Everything that follows from it waits until it is durable.
    Record(Fact),
    /// Give a task to a worker.
    Grant(Grant),
    /// Answer a worker's report.
    AnswerReport {
        /// The worker.
        worker: WorkerKey,
        /// The task.
        seq: Seq,
        /// The attempt.
        token: Token,
        /// The answer.
        answer: ReportAnswer,
        /// How long the attempt ran, in microseconds, if it finished its task and its start is known.
        ran_us: Option<u64>,
    },
    /// Tell a worker to stop an attempt; it will report the end, or be refused if the token is not valid any more.
    StopAttempt {
        /// The worker.
        worker: WorkerKey,
        /// The task.
        seq: Seq,
        /// Its id.
        task: TaskId,
        /// The attempt.
        token: Token,
        /// Why, in words for people.
        reason: Name,
    },
    /// Ask a worker to give a task back that it was given and has not begun. It reports `Released` if it does, and
    /// says nothing if it has begun.
    Recall {
        /// The worker.
        worker: WorkerKey,
        /// The task.
        seq: Seq,
        /// Its id.
        task: TaskId,
        /// The attempt.
        token: Token,
        /// Whether to stop it and give it back even if it has begun.
        begun_too: bool,
    },
    /// The worker was silent for a lease time: its connection is to be closed.
    DropWorker {
        /// The worker.
        worker: WorkerKey,
    },
    /// Fetch tasks of a lane that wait in the store; answer with [`crate::Input::SpilledLoaded`].
    LoadSpilled {
        /// The lane.
        lane: Lane,
        /// Only tasks after this one.
        after: Option<Seq>,
        /// At most this many.
        rows: usize,
    },
    /// Tell whoever watches.
    Announce(Arc<TaskChange>),
    /// The task has left the scheduler's memory (it is final and settled, or it waits in the store).
    Forget {
        /// The task.
        seq: Seq,
        /// Its id.
        task: TaskId,
    },
    /// A workflow has left the scheduler's memory: no member of it is open, and no task waits for its end.
    ForgetWorkflow {
        /// The workflow.
        workflow: WorkflowId,
    },
}

/// A lease.
#[derive(Clone, Debug)]
pub struct Grant {
    /// To whom.
    pub worker: WorkerKey,
    /// Which task.
    pub seq: Seq,
    /// Under which token.
    pub token: Token,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// The task itself.
    pub spec: Arc<TaskSpec>,
    /// Dependencies whose results the handler may want.
    pub parents: Vec<Seq>,
    /// Whether an earlier attempt saved data for this one.
    pub checkpointed: bool,
    /// How long the task was ready before, in microseconds.
    pub waited_us: u64,
}

/// What a worker hears of its report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportAnswer {
    /// It is recorded; the worker may forget it.
    Recorded,
    /// The token is not valid (any more); nothing changed, the worker may forget it.
    Refused,
}
