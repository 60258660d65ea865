//! What people and programs see: the read models of the HTTP API, which the CLI prints with `--json` unchanged.

use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;

use crate::terms::Sparse;
use crate::{
    ErrorClass, Name, Payload, TaskError, TaskId, TaskSpec, TaskState, Terms, Timestamp, Token,
    WaitReason, Workflow,
};

pub use crate::view_graph::*;
pub use crate::view_workflow::*;

/// A task in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Why it does not run, while it is not final. A leased task has one only while it waits for a slot of its worker.
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskDetail {
    /// What a list shows of it.
    #[serde(flatten)]
    pub summary: TaskSummary,
    /// What the handler gets.
    pub payload: Payload,
    /// What it returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    /// Under which terms it runs; its workflow is in the summary. What was not given is left out, except `needs`,
    /// `after` and `retry`.
    #[serde(flatten, serialize_with = "with_defaults")]
    pub terms: Sparse<Terms>,
    /// The task whose finish spawned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<TaskId>,
    /// Attempts that ended, oldest first.
    pub history: Vec<Attempt>,
    /// When the attempt that runs presumably began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
}

fn with_defaults<S: Serializer>(terms: &Sparse<Terms>, serializer: S) -> Result<S::Ok, S::Error> {
    let mut given = serde_json::to_value(terms).map_err(S::Error::custom)?;
    if let Some(fields) = given.as_object_mut() {
        let retry = serde_json::to_value(&terms.retry).map_err(S::Error::custom)?;
        for (name, value) in [("needs", json!([])), ("after", json!([])), ("retry", retry)] {
            fields.entry(name).or_insert(value);
        }
    }
    given.serialize(serializer)
}

/// An attempt that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Attempt {
    /// Its token.
    pub token: Token,
    /// When it presumably began; nothing if it ended before the last start of the server, or many attempts ago.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Tasks that workers have: they run, or are `queued`.
    pub leased: u64,
    /// Of these, tasks that wait at their worker for a free slot.
    #[serde(default)]
    pub queued: u64,
    /// How long the oldest ready task has waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_ready_ms: Option<u64>,
    /// How many of the ready tasks have each priority, from the lowest on; nothing if none is ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ready_by_priority: Vec<u64>,
}

/// A connected worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Whether somebody lets it rest: it ends what it holds and takes nothing until that is undone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Its connection broke; until then it keeps what it holds, and may come back to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away_until: Option<Timestamp>,
    /// When it connected.
    pub connected_at: Timestamp,
    /// When it was last heard of.
    pub seen_at: Timestamp,
    /// Tasks that it finished since it connected.
    pub finished: u64,
    /// Attempts that failed on it since it connected.
    pub failed: u64,
    /// Tasks that it runs at once.
    #[serde(default)]
    pub slots: u32,
    /// Tasks that it was given and has presumably not begun.
    #[serde(default)]
    pub queue_length: u32,
    /// The same, by kinds that share slots.
    #[serde(default)]
    pub tiers: Vec<TierView>,
    /// The moving share of its attempts that worked, over all kinds; 1 before the first.
    #[serde(default = "whole")]
    pub success_rate: f64,
    /// How it does, kind by kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<SkillView>,
}

fn whole() -> f64 {
    1.0
}

/// Kinds of a worker that share slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TierView {
    /// The kinds.
    pub kinds: Vec<Name>,
    /// Tasks of these that the worker takes at once.
    pub credit: u32,
    /// Tasks of these that it runs at once.
    pub slots: u32,
    /// Tasks of these that it holds.
    pub leased: u32,
    /// Those of them that it has presumably not begun.
    pub queue_length: u32,
    /// Tasks that it finished since it connected.
    pub finished: u64,
    /// Attempts that failed on it since it connected.
    pub failed: u64,
}

/// How a worker does with one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SkillView {
    /// The kind.
    pub kind: Name,
    /// Attempts that were counted.
    pub attempts: u64,
    /// The moving share of them that worked.
    pub success_rate: f64,
    /// How long such a task is expected to run there, in milliseconds, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_ms: Option<f64>,
    /// Until when it is not given this kind, because it keeps failing it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantined_until: Option<Timestamp>,
}

/// How tasks move between workers, under the names that the work-stealing literature of agents uses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadMetrics {
    /// Tasks that were asked back from a worker.
    pub total_steals: u64,
    /// Those that it gave back.
    pub successful_steals: u64,
    /// Those that it had begun already.
    pub failed_steals: u64,
    /// `successful_steals` over those that were answered; 1 before the first.
    pub success_rate: f64,
    /// Tasks that another worker got after they were given back.
    pub tasks_migrated: u64,
    /// Looks at which the scheduler moved something.
    pub rebalance_cycles: u64,
    /// The mean wait of a task from ready to granted, in seconds, since the start.
    pub avg_task_wait_time: f64,
    /// Connected workers.
    pub agent_count: u64,
    /// Tasks that wait for a worker or in a worker's queue.
    pub total_queued: u64,
    /// Workers above the busy threshold.
    pub busy_agents: u64,
    /// Workers below the idle threshold.
    pub idle_agents: u64,
}

/// How full a limit is: one of its keys, or the total over all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitView {
    /// The limit.
    pub name: Name,
    /// The key; nothing for tasks that give none, `*` for the total over all keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Name>,
    /// Tasks that run under it.
    pub running: u64,
    /// Tasks that may run under it at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Ready tasks that it keeps.
    pub waiting: u64,
    /// Starts that its rate allows now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u32>,
    /// When its rate lets the next one start, if not now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Timestamp>,
}

/// A task that a rebalance would move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Move {
    /// The task.
    pub task: TaskId,
    /// Its kind.
    pub kind: Name,
    /// Who has it.
    pub from: Name,
    /// Who would get it.
    pub to: Name,
}

/// A task that is expected to be done after its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Late {
    /// The task.
    pub task: TaskId,
    /// When it should be done.
    pub deadline: Timestamp,
    /// When it is expected to be done, as things stood when it was submitted.
    pub expected_end: Timestamp,
}

/// What is expected of a task, and why it is where it is, beside what a list shows of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// How many tasks are expected to start before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// When it is expected to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_start: Option<Timestamp>,
    /// How long it is expected to run, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_run_ms: Option<u64>,
    /// When it should be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Whether it is expected to be late.
    #[serde(default)]
    pub late: bool,
    /// Who has it, and how that was decided; while it runs, or shortly after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Every worker, or the first ones of many, and what it would mean to give it the task now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
}

/// How a worker was chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Placement {
    /// Who was chosen.
    pub worker: Name,
    /// When.
    pub at: Timestamp,
    /// Whether the worker had a place free and the task was the next for it, or the task came and this worker had the
    /// best score.
    pub by: PlacedBy,
    /// Who else was compared, best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compared: Vec<Scored>,
}

/// Which side waited for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PlacedBy {
    /// The worker waited less: it became free and this was the next task.
    Turn,
    /// The task found several free workers: the best score won.
    Score,
}

/// A worker and its score at the time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Scored {
    /// The worker.
    pub worker: Name,
    /// The score.
    pub score: f64,
}

/// What it would mean to give a task to a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Candidate {
    /// The worker.
    pub worker: Name,
    /// What it lacks; nothing if it could run the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<Name>,
    /// Whether it serves the kind and the queue.
    pub serves: bool,
    /// Whether it has a place free now.
    pub free: bool,
    /// Until when it is not given this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantined_until: Option<Timestamp>,
    /// The score, and its terms by name; absent if it cannot run the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// What the score is made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub terms: Vec<ScoreTerm>,
}

/// One term of a score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScoreTerm {
    /// Its name, such as `skill_match`.
    pub name: Name,
    /// What it adds.
    pub value: f64,
}

/// A task changed its state, or told how far it is: one server-sent event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The token of the attempt that begins, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// How far it is, if that is all that changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

impl TaskChange {
    /// A task is in this state since then; that is all.
    pub fn of(spec: &TaskSpec, state: TaskState, at: Timestamp) -> Self {
        Self {
            id: spec.id,
            kind: spec.kind.clone(),
            queue: spec.queue.clone(),
            state,
            at,
            worker: None,
            workflow: spec.workflow.as_ref().map(|workflow| workflow.id),
            error: None,
            token: None,
            progress: None,
        }
    }
}

/// A group of dead letters with alike errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// When the first of them died.
    #[serde(default)]
    pub first: Timestamp,
    /// When the last of them died.
    #[serde(default)]
    pub last: Timestamp,
    /// How many died in each of 24 equal parts of the time from the first to the last letter of all groups that were found
    /// with this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trend: Vec<u64>,
}

/// A page of a list, and where the next one starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Pass this as `after` to get the next page; nothing if this is the last. Unless the page is `partial`, there is
    /// at least one more row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Whether the page ends because much was looked at for few that fit. Then `next` goes on, and may find none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// What a parent's end was, as its dependents get it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
