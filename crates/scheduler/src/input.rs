//! What the scheduler is told.

use std::sync::Arc;

use divvy_types::fact::Replay;
use divvy_types::{
    AttemptOutcome, Lane, Member, Name, OpenTask, Payload, Seq, Settings, TaskId, TaskSpec, Token,
    WorkerHello, WorkerKey, WorkflowId,
};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// Tasks were accepted. They passed [`crate::admit::check_batch`], their ids are new, and their dependencies
    /// were looked up.
    TasksSubmitted(Vec<Submission>),
    /// At start: an open task came back from the store.
    TaskRecovered(RecoveredTask),
    /// At start: tasks of this lane wait in the store.
    LaneRecovered {
        /// The lane.
        lane: Lane,
        /// How many.
        count: u64,
        /// One of them, to know the class by.
        sample: Arc<TaskSpec>,
    },
    /// At start: a task that is done has children that are not, so its dependents still wait.
    /// Comes before its dependents and after nothing in particular.
    SettlingRecovered {
        /// The finished task.
        seq: Seq,
        /// Its id.
        task: TaskId,
        /// Whether one of its children has failed already.
        failed: bool,
        /// The task that spawned it.
        spawned_by: Option<Seq>,
        /// What it is a member of.
        member: Option<Member>,
    },
    /// At start: open members of a workflow wait in the store.
    MembersRecovered {
        /// The workflow, and their group.
        member: Member,
        /// How many.
        count: u64,
    },
    /// What the store knows of a workflow: at start, or before a task is submitted or put back that runs when the
    /// workflow has ended or waits for a group of it.
    WorkflowLookedUp {
        /// The workflow.
        workflow: WorkflowId,
        /// Members that are dead or cancelled.
        failed: Vec<FailedMember>,
    },
    /// At start: all of the above was said; work may begin.
    RecoveryEnded,
    /// Tasks of a lane, asked for by [`crate::Action::LoadSpilled`], arrived from the store.
    SpilledLoaded {
        /// The lane.
        lane: Lane,
        /// The tasks, in order.
        tasks: Vec<RecoveredTask>,
        /// Whether nothing more waits behind them.
        exhausted: bool,
    },
    /// Someone wants a task not to run that waits in the store. It is recorded as cancelled (with its lane), the
    /// lane's count is corrected, and what depends on the task is cancelled or goes on as with any other cancel.
    SpilledCancelled {
        /// The task.
        seq: Seq,
        /// Its id.
        task: TaskId,
        /// Where it waits.
        lane: Lane,
        /// What it is a member of.
        member: Option<Member>,
        /// Why, in words for people.
        reason: Name,
    },
    /// A worker connected.
    WorkerJoined(WorkerKey, WorkerHello<Seq>),
    /// A worker was heard of: its leases are renewed.
    WorkerSeen {
        /// Which.
        worker: WorkerKey,
    },
    /// A worker takes no more tasks (it was asked to drain, or said that it stops).
    WorkerDraining {
        /// Which.
        worker: WorkerKey,
    },
    /// Someone wants a worker to take no more tasks for a while, or to take some again. What it holds it keeps. The
    /// pause is of the process: it outlives a connection that breaks, and ends with the process.
    WorkerPaused {
        /// Which.
        worker: WorkerKey,
        /// Whether it rests.
        paused: bool,
    },
    /// A worker's connection broke without a goodbye. It keeps what it holds for a while: the process may live on and
    /// come back with [`Input::WorkerJoined`]. If it does not, it has left.
    WorkerCut {
        /// Which.
        worker: WorkerKey,
    },
    /// A worker said goodbye, or is known to be gone. What it ran counts as a failed attempt (`ErrorClass::WorkerLost`); what waited there
    /// for a slot is given back uncounted.
    WorkerLeft {
        /// Which.
        worker: WorkerKey,
    },
    /// A worker reported the end of an attempt.
    AttemptEnded(AttemptEnded),
    /// Someone wants a task not to run, or to stop running.
    CancelRequested {
        /// The task.
        seq: Seq,
        /// Why, in words for people.
        reason: Name,
    },
    /// Someone wants a scheduled task (run_at or backoff) to run now.
    RunNowRequested {
        /// The task.
        seq: Seq,
    },
    /// A task that waits shall have another priority.
    PriorityChanged {
        /// The task.
        seq: Seq,
        /// Its priority.
        priority: u8,
    },
    /// A dead or cancelled task is put back: recorded as `Fact::Replayed`. Its attempts start anew. The task comes
    /// with its new payload, if it has one.
    TaskReplayed(RecoveredTask, Replay),
    /// Dead or cancelled tasks are put back together, to wait for their dependencies as before. Those among them that
    /// depend on each other say that the other one is open.
    TasksResumed {
        /// Every finished task that spawned one of them, or spawned one of these: its dependents wait for it again.
        /// Spawners come before those whom they spawned.
        spawners: Vec<Spawner>,
        /// The tasks; members of a workflow before those that wait for its end.
        tasks: Vec<RecoveredTask>,
    },
    /// The settings are these from now on. They passed their own check.
    SettingsChanged(Box<Settings>),
    /// Someone wants the load to be evened out now, as at the end of a rebalance interval.
    RebalanceRequested,
    /// A running attempt saved data for a later one.
    CheckpointSaved {
        /// Who says so.
        worker: WorkerKey,
        /// Of which task.
        seq: Seq,
        /// Under which token.
        token: Token,
        /// The data.
        data: Payload,
    },
    /// A queue was paused or resumed.
    QueuePaused {
        /// The queue.
        queue: Name,
        /// Whether it is paused now.
        paused: bool,
    },
    /// The server stops: record every lease as held, so that the next start leaves the running tasks alone.
    ServerStopping,
    /// The clock was set forward; what is under way keeps its length.
    ClockStepped {
        /// By how much, in microseconds.
        by_us: u64,
    },
    /// The deadline was reached.
    TimePassed,
}

/// A new task.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Its number, greater than any before.
    pub seq: Seq,
    /// What it is.
    pub spec: Arc<TaskSpec>,
    /// Its dependencies, in the order of `spec.after`.
    pub parents: Vec<Parent>,
}

/// A dependency, looked up.
#[derive(Clone, Copy, Debug)]
pub struct Parent {
    /// Its number.
    pub seq: Seq,
    /// Whether its failure may be ignored.
    pub optional: bool,
    /// What is known of it.
    pub state: ParentState,
}

/// What the engine knows of a dependency that the scheduler may not have in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentState {
    /// Open, or settling: the scheduler or the store has it.
    Open,
    /// Done, with all the children it spawned.
    Done,
    /// Dead or cancelled, or one of its children is.
    Failed,
}

/// A task that comes from the store.
#[derive(Clone, Debug)]
pub struct RecoveredTask {
    /// What is known of it.
    pub open: OpenTask,
    /// Its dependencies, in the order of `spec.after`.
    pub parents: Vec<Parent>,
}

/// A member of a workflow that is dead or cancelled.
#[derive(Clone, Debug)]
pub struct FailedMember {
    /// Its number.
    pub seq: Seq,
    /// The groups that have failed with it, and the number of the member of each: itself, or a task that spawned it.
    pub groups: Vec<(Name, Seq)>,
}

/// A task that is done and has a child, or the child of a child, that is put back.
#[derive(Clone, Debug)]
pub struct Spawner {
    /// The finished task.
    pub seq: Seq,
    /// Its id.
    pub task: TaskId,
    /// Whether a task below it has failed and is not put back.
    pub failed: bool,
    /// The task that spawned it.
    pub spawned_by: Option<Seq>,
    /// What it is a member of.
    pub member: Option<Member>,
}

/// The end of an attempt.
#[derive(Clone, Debug)]
pub struct AttemptEnded {
    /// Who says so.
    pub worker: WorkerKey,
    /// Of which task.
    pub seq: Seq,
    /// Under which token.
    pub token: Token,
    /// How it ended.
    pub end: AttemptEnd,
    /// The end of its log.
    pub log: Option<Name>,
}

/// How an attempt ended, with spawned children already numbered and looked up.
#[derive(Clone, Debug)]
pub enum AttemptEnd {
    /// It worked.
    Finished {
        /// What it returned.
        result: Payload,
        /// Children.
        spawned: Vec<Submission>,
    },
    /// Anything but [`AttemptOutcome::Finished`].
    Other(AttemptOutcome),
}
