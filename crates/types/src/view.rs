//! What people and programs see: the read models of the HTTP API, which the CLI prints with `--json` unchanged.

use serde::{Deserialize, Serialize};

use crate::{
    Dependency, ErrorClass, Name, Payload, RetryPolicy, TaskError, TaskId, TaskState, Timestamp,
    Token, WaitReason, Workflow,
};

/// A task in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskSummary {
    /// Its id.
    pub id: TaskId,
    /// Its kind.
    pub kind: Name,
    /// Its queue.
    pub queue: Name,
    /// Its priority.
    pub priority: u8,
    /// Where it is.
    pub state: TaskState,
    /// Why it does not run, while it is not final and not leased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<WaitReason>,
    /// The same in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_text: Option<String>,
    /// Attempts that were begun and counted.
    pub attempts: u32,
    /// Who runs it or ran it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Name>,
    /// How far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The last error, or why it was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
    /// When it was accepted.
    pub submitted_at: Timestamp,
    /// When it became final.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The workflow that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Workflow>,
}

/// A task whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskDetail {
    /// What a list shows of it.
    #[serde(flatten)]
    pub summary: TaskSummary,
    /// What the handler gets.
    pub payload: Payload,
    /// What it returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    /// Capabilities it needs.
    pub needs: Vec<Name>,
    /// What it waits or waited for.
    pub after: Vec<Dependency>,
    /// Not before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Timestamp>,
    /// How long one attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What follows a failure.
    pub retry: RetryPolicy,
    /// The task whose finish spawned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<TaskId>,
    /// Attempts that ended, oldest first.
    pub history: Vec<Attempt>,
}

/// An attempt that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its token.
    pub token: Token,
    /// When it ended.
    pub at: Timestamp,
    /// Who ran it.
    pub worker: Name,
    /// What went wrong; nothing if it finished the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
    /// Whether it counts against the retry limit.
    pub counted: bool,
    /// The end of its log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Name>,
}

/// How far a running task is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Units done.
    pub done: u64,
    /// Units in all; 0 if not known.
    pub total: u64,
    /// What it does at the moment.
    #[serde(default, skip_serializing_if = "Name::is_empty")]
    pub message: Name,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueView {
    /// Its name.
    pub name: Name,
    /// Whether it is paused.
    pub paused: bool,
    /// Tasks that wait for dependencies.
    pub blocked: u64,
    /// Tasks that wait for a time.
    pub scheduled: u64,
    /// Tasks that wait for a worker.
    pub ready: u64,
    /// Tasks that run.
    pub leased: u64,
    /// How long the oldest ready task has waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_ready_ms: Option<u64>,
}

/// A connected worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerView {
    /// Its name.
    pub name: Name,
    /// Names the connection.
    pub key: u64,
    /// Queues that it serves; none means all.
    pub queues: Vec<Name>,
    /// Kinds that it can run.
    pub kinds: Vec<Name>,
    /// What it has.
    pub capabilities: Vec<Name>,
    /// Tasks that it takes at once.
    pub credit: u32,
    /// Tasks that it holds.
    pub leased: u32,
    /// Whether it takes no more.
    pub draining: bool,
    /// When it connected.
    pub connected_at: Timestamp,
    /// When it was last heard of.
    pub seen_at: Timestamp,
    /// Tasks that it finished since it connected.
    pub finished: u64,
    /// Attempts that failed on it since it connected.
    pub failed: u64,
}

/// A task changed its state: one server-sent event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskChange {
    /// The task.
    pub id: TaskId,
    /// Its kind.
    pub kind: Name,
    /// Its queue.
    pub queue: Name,
    /// Where it is now.
    pub state: TaskState,
    /// When.
    pub at: Timestamp,
    /// The worker concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Name>,
    /// The workflow that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<crate::WorkflowId>,
    /// What went wrong, if something did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
}

/// A group of dead letters with alike errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeadGroup {
    /// The kind.
    pub kind: Name,
    /// The sort of error.
    pub class: ErrorClass,
    /// The error with numbers and ids blanked out.
    pub error: String,
    /// How many.
    pub count: u64,
    /// One of them.
    pub sample: TaskId,
}

/// A page of a list, and where the next one starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Pass this as `after` to get the next page; nothing if this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What a parent's end was, as its dependents get it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Upstream {
    /// The parent, or a child that a parent spawned.
    pub task: TaskId,
    /// Its kind.
    pub kind: Name,
    /// How it ended.
    pub state: TaskState,
    /// What it returned, if it is done.
    pub result: Payload,
    /// Whether it is a spawned child of a dependency instead of a dependency.
    pub spawned: bool,
}
