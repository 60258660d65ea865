//! What the outside asks of the engine, and what it sends to workers.

use std::sync::Arc;

use divvy_types::fact::Replay;
use divvy_types::limits::SCHEDULES_MAX;
use divvy_types::settings::InvalidSetting;
use divvy_types::view::{Move, Progress, ResumedWorkflow, Upstream};
use divvy_types::{
    AttemptOutcome, Name, Payload, Settings, SpecError, Submitted, TaskId, TaskSpec, TaskState,
    Token, WorkerHello, WorkerKey, WorkflowId,
};
use tokio::sync::{mpsc, oneshot};

use crate::core::Core;
use crate::schedule_requests::ScheduleRequest;

/// Where an answer goes. It is sent only when everything it rests on is durable.
pub type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// Where messages to one worker go. A worker that lets it fill up is dropped; when it closes, so must the connection.
pub type Outbox = mpsc::Sender<ToWorker>;

/// A change of the settings that hold.
pub type SettingsChange = Box<dyn FnOnce(&mut Settings) -> Result<(), Error> + Send>;

/// What somebody tells a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerWord {
    /// To end what it holds and leave.
    Drain,
    /// To end what it holds and take nothing more until it is resumed.
    Pause,
    /// To take tasks again.
    Resume,
}

/// Something asked of the engine.
pub enum Request {
    /// Accept tasks, all or none. They passed `divvy_scheduler::admit::check_batch`.
    Submit {
        /// The tasks.
        specs: Vec<TaskSpec>,
        /// On what terms.
        options: SubmitOptions,
        /// Sent when they are durable.
        reply: Reply<Submitted>,
    },
    /// A worker connected.
    Connect {
        /// What it offers.
        hello: WorkerHello,
        /// Where its messages go.
        outbox: Outbox,
        /// Names the connection.
        reply: Reply<WorkerKey>,
    },
    /// A worker reports ends of attempts; each is answered through its outbox.
    Report {
        /// Who.
        worker: WorkerKey,
        /// What.
        reports: Vec<WorkerReport>,
    },
    /// A worker is alive and says how far its tasks are.
    Heartbeat {
        /// Who.
        worker: WorkerKey,
        /// What is new of running attempts.
        progress: Vec<ProgressUpdate>,
    },
    /// A worker takes no more tasks.
    Stopping {
        /// Who.
        worker: WorkerKey,
    },
    /// A worker said goodbye.
    Disconnect {
        /// Who.
        worker: WorkerKey,
    },
    /// A worker's connection broke; it may come back to what it holds.
    Cut {
        /// Who.
        worker: WorkerKey,
    },
    /// Stop a task or keep it from running.
    Cancel {
        /// Which.
        id: TaskId,
        /// Why.
        reason: Name,
        /// Where it is then: still leased while its worker is being told.
        reply: Reply<TaskState>,
    },
    /// Stop these tasks or keep them from running; those that have ended are passed over.
    CancelMembers {
        /// Which.
        ids: Vec<TaskId>,
        /// Why.
        reason: Name,
        /// How many were cancelled, or are being stopped.
        reply: Reply<u64>,
    },
    /// Put back what failed in a workflow, in one commit.
    ResumeWorkflow {
        /// Which.
        id: WorkflowId,
        /// Whether to put back what people cancelled too.
        include_cancelled: bool,
        /// What was put back.
        reply: Reply<ResumedWorkflow>,
    },
    /// A worker saved data of running attempts.
    Checkpoint {
        /// Who.
        worker: WorkerKey,
        /// Of which task, under which token, and the data.
        saved: Vec<(TaskId, Token, Payload)>,
    },
    /// Use these settings from now on. They passed their own check.
    ApplySettings {
        /// The settings.
        settings: Box<Settings>,
        /// Sent when they hold.
        reply: Reply<()>,
    },
    /// Change the settings that hold, or refuse to; nobody else changes them in between.
    ChangeSettings {
        /// The change. What comes out is checked.
        change: SettingsChange,
        /// What holds then.
        reply: Reply<Settings>,
    },
    /// Even the load of the workers out now.
    Rebalance {
        /// What is moved.
        reply: Reply<Vec<Move>>,
    },
    /// Run a dead, cancelled or waiting-for-a-time task now.
    Retry {
        /// Which.
        id: TaskId,
        /// Where it is then.
        reply: Reply<TaskState>,
    },
    /// Put a dead or cancelled task back.
    Replay {
        /// Which.
        id: TaskId,
        /// How.
        replay: Box<Replay>,
        /// Where it is then.
        reply: Reply<TaskState>,
    },
    /// Give a task that waits another priority.
    Reprioritise {
        /// The task.
        id: TaskId,
        /// Its priority.
        priority: u8,
        /// Where it is.
        reply: Reply<TaskState>,
    },
    /// Give a dead letter up.
    DropDead {
        /// Which.
        id: TaskId,
        /// Where it is then.
        reply: Reply<TaskState>,
    },
    /// Pause or resume a queue.
    PauseQueue {
        /// Which.
        queue: Name,
        /// Whether it shall be paused.
        paused: bool,
        /// Sent when that is durable.
        reply: Reply<()>,
    },
    /// Ask all connections of a worker to take no more tasks, for good or for a while.
    TellWorker {
        /// Its name.
        name: Name,
        /// What it is told.
        word: WorkerWord,
        /// How many connections were asked.
        reply: Reply<u32>,
    },
    /// Something about a schedule.
    Schedule(ScheduleRequest),
    /// Answer when everything recorded so far is durable and let out.
    Flush {
        /// The answer.
        reply: Reply<()>,
    },
    /// Look at the present state, from inside the loop.
    Look(Box<dyn FnOnce(&Core) + Send>),
}

/// On what terms tasks are submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubmitOptions {
    /// Refuse the whole batch if one of its tasks is expected to miss its deadline.
    pub strict: bool,
}

/// The end of an attempt.
#[derive(Clone, Debug)]
pub struct WorkerReport {
    /// Of which task.
    pub task: TaskId,
    /// Under which token.
    pub token: Token,
    /// How.
    pub outcome: AttemptOutcome,
    /// The end of its log.
    pub log: Option<Name>,
}

/// News of a running attempt.
#[derive(Clone, Debug)]
pub struct ProgressUpdate {
    /// Which task.
    pub task: TaskId,
    /// Under which token.
    pub token: Token,
    /// How far it is.
    pub progress: Progress,
    /// Log text since the last update.
    pub log: String,
}

/// A message to a worker.
#[derive(Clone, Debug)]
pub enum ToWorker {
    /// Tasks to run.
    Grants(Vec<GrantedTask>),
    /// Answers to reports: whether each was recorded.
    Answers(Vec<(TaskId, Token, bool)>),
    /// Attempts to stop, and why.
    Stops(Vec<(TaskId, Token, Name)>),
    /// Attempts to give back if they have not begun; the last says whether to give them back even then.
    Recalls(Vec<(TaskId, Token, bool)>),
    /// Take no more tasks.
    Drain,
}

/// A task to run.
#[derive(Clone, Debug)]
pub struct GrantedTask {
    /// The task.
    pub spec: Arc<TaskSpec>,
    /// The token to report under.
    pub token: Token,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// How its dependencies ended.
    pub upstream: Vec<Upstream>,
    /// Whether there was more than can travel: rows or results are missing.
    pub upstream_cut: bool,
    /// What an earlier attempt saved.
    pub checkpoint: Option<Payload>,
}

/// Why the engine refuses. Each variant is something that the caller can act on.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The tasks are not acceptable.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A setting makes no sense.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// A setting belongs to someone else.
    #[error("{section} is set by {owner}; change it there")]
    SettingOwned {
        /// Which section.
        section: String,
        /// Who sets it.
        owner: String,
    },
    /// There is no such setting.
    #[error("no {what} `{name}` is set")]
    NoSuchSetting {
        /// What sort of setting.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// No task has this id.
    #[error("no task {0}; it may have been dropped by retention, or the id is wrong")]
    NotFound(String),
    /// No workflow has this id.
    #[error("no workflow {0}; it may have been dropped by retention, or the id is wrong")]
    NoSuchWorkflow(Name),
    /// A shortened id fits several tasks.
    #[error("`{text}` fits several: {}; write more of the one that is meant", candidates.join(", "))]
    Ambiguous {
        /// What was given.
        text: String,
        /// The first ones of those that it fits.
        candidates: Vec<String>,
    },
    /// No worker has this name.
    #[error("no worker `{0}` is connected")]
    NoSuchWorker(String),
    /// No schedule has this name.
    #[error("no schedule `{0}`")]
    NoSuchSchedule(String),
    /// More schedules than allowed.
    #[error("there are {SCHEDULES_MAX} schedules, and no more are allowed; remove one first")]
    TooManySchedules,
    /// The task is in a state that does not allow this.
    #[error("task {task} is {state}: {problem}")]
    Conflict {
        /// The task.
        task: TaskId,
        /// Where it is.
        state: TaskState,
        /// Why that does not fit.
        problem: &'static str,
    },
    /// Too much is waiting already.
    #[error("the server is overloaded; try again in {retry_after_ms} ms")]
    Overloaded {
        /// When to try again.
        retry_after_ms: u64,
    },
    /// No room for new tasks.
    #[error("the disk of the server is nearly full: no new tasks are taken; free some space")]
    DiskFull,
    /// No room in memory for new tasks that cannot wait in the store.
    #[error(
        "tasks that wait for a time, a deadline or other tasks take all the memory that they may: no more of them are \
         taken, and none is put back, until some have ended; ask again later, or submit without run_at, deadline and after"
    )]
    MemoryFull,
    /// The store waits for something that a person has to do.
    #[error("{0}; nothing is recorded until then, so ask again with the same ids")]
    StoreUnavailable(String),
    /// The engine stops.
    #[error("the server is stopping; try again when it is back")]
    Stopping,
    /// The store failed.
    #[error("{0}")]
    Store(String),
    /// A text that is no cursor of ours.
    #[error("`{0}` is not a page cursor; pass `next` of the page before")]
    BadCursor(String),
}

impl Error {
    /// A stable name for programs: the `code` of API errors.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Spec(error) => error.code(),
            Self::Setting(_) => "invalid_setting",
            Self::SettingOwned { .. } => "set_by_file",
            Self::NoSuchSetting { .. } => "no_such_setting",
            Self::NotFound(_) => "not_found",
            Self::NoSuchWorkflow(_) => "no_such_workflow",
            Self::Ambiguous { .. } => "ambiguous_id",
            Self::NoSuchWorker(_) => "no_such_worker",
            Self::NoSuchSchedule(_) => "no_such_schedule",
            Self::TooManySchedules => "too_many_schedules",
            Self::Conflict { .. } => "conflict",
            Self::Overloaded { .. } => "overloaded",
            Self::DiskFull => "disk_full",
            Self::MemoryFull => "memory_full",
            Self::StoreUnavailable(_) => "store_unavailable",
            Self::Stopping => "stopping",
            Self::Store(_) => "store_failed",
            Self::BadCursor(_) => "bad_cursor",
        }
    }
}

impl From<divvy_store::Error> for Error {
    fn from(error: divvy_store::Error) -> Self {
        Self::Store(error.to_string())
    }
}
