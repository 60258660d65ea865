//! What a dashboard follows: how a server stands now, how it stood over the last day, and what happens in it besides tasks.
//! Read models of the HTTP API like those in [`crate::view`]; nothing here is decided.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::alerts::Alert;
use crate::{Name, Scopes, Timestamp};

/// Who asks, and what it may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Caller {
    /// Everything that the caller may do: whoever has `admin` is told all of them.
    pub scopes: Scopes,
    /// The name of the token that was shown. Nothing if none was needed, or if it was the one that the server was started
    /// with.
    pub token: Option<Name>,
}

/// How a server stands, in the numbers that are looked at first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overview {
    /// The time by the server's clock.
    pub time: Timestamp,
    /// Tasks that wait for a slot: for a worker, or at their worker.
    pub waiting: u64,
    /// How long the oldest task that waits for a worker has done so; nothing if none does.
    pub oldest_wait_ms: Option<u64>,
    /// Tasks that run.
    pub running: u64,
    /// Tasks that all connected workers together run at once.
    pub slots: u64,
    /// Tasks that were done in the last minute.
    pub done_per_min: f64,
    /// The share of attempts that failed, of those that ended in the last five minutes, from 0 to 1; 0 if none ended.
    pub failed_share: f64,
    /// Dead letters that are kept.
    pub dead: u64,
    /// Connected workers.
    pub workers: u64,
    /// Workers that all pools together want; nothing without pools.
    pub workers_wanted: Option<u64>,
    /// What the workers of all pools cost in an hour; nothing if no pool has a price.
    pub cost_per_hour: Option<f64>,
    /// Rules about the health of the server that are broken now: alerts that fire, and those that are pending because it
    /// has not been so for long enough.
    pub alerts: Vec<Alert>,
    /// How many tasks are kept in each state.
    pub states: BTreeMap<Name, u64>,
}

/// How a server or one of its queues stood over a time, in equal steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct History {
    /// The length of a step.
    pub step_ms: u64,
    /// When the first step begins.
    pub from: Timestamp,
    /// The queue, if only one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Name>,
    /// The figures of each step.
    pub series: Series,
}

/// Figures of equal steps, oldest first; nothing where nothing is known, because the server did not run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// Tasks done, per minute.
    pub done: Vec<Option<f64>>,
    /// Tasks that failed for good, per minute.
    pub failed: Vec<Option<f64>>,
    /// Attempts that failed and are tried again, per minute.
    pub retried: Vec<Option<f64>>,
    /// Tasks accepted, per minute.
    pub submitted: Vec<Option<f64>>,
    /// What half of the tasks that were given to workers had waited at most; nothing if none was.
    pub wait_p50_ms: Vec<Option<f64>>,
    /// The same for 95 of 100.
    pub wait_p95_ms: Vec<Option<f64>>,
    /// The same for 99 of 100.
    pub wait_p99_ms: Vec<Option<f64>>,
    /// Tasks that waited for a slot, at the end of the step.
    pub waiting: Vec<Option<f64>>,
    /// Tasks that ran.
    pub running: Vec<Option<f64>>,
    /// Connected workers; of a queue, nothing.
    pub workers: Vec<Option<f64>>,
}

/// The figures of one step; see [`Series`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistoryPoint {
    /// When the step begins.
    pub at: Timestamp,
    /// Its length.
    pub step_ms: u64,
    /// Tasks done, per minute.
    pub done: f64,
    /// Tasks that failed for good, per minute.
    pub failed: f64,
    /// Attempts that failed and are tried again, per minute.
    pub retried: f64,
    /// Tasks accepted, per minute.
    pub submitted: f64,
    /// What half of the tasks that were given to workers had waited at most; nothing if none was.
    pub wait_p50_ms: Option<f64>,
    /// The same for 95 of 100.
    pub wait_p95_ms: Option<f64>,
    /// The same for 99 of 100.
    pub wait_p99_ms: Option<f64>,
    /// Tasks that waited for a slot, at the end of the step.
    pub waiting: f64,
    /// Tasks that ran.
    pub running: f64,
    /// Connected workers; of a queue, nothing.
    pub workers: Option<f64>,
}

/// How a server stands: the event `pulse`, once a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pulse {
    /// The numbers.
    pub overview: Overview,
    /// The last step of the history that is over. A page that has one with the same `at` has it already.
    pub point: Option<HistoryPoint>,
}

/// Something happened to a worker: the event `worker`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerEvent {
    /// When it was noticed.
    pub at: Timestamp,
    /// Its name.
    pub worker: Name,
    /// Names the connection.
    pub key: u64,
    /// What happened.
    pub what: WorkerNews,
}

/// What happened to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WorkerNews {
    /// It connected.
    Came,
    /// It is gone.
    Left,
    /// It ends what it holds and takes no more.
    Draining,
    /// Somebody lets it rest.
    Paused,
    /// It takes tasks again.
    Resumed,
    /// Its connection broke; it may come back to what it holds.
    Away,
    /// It came back.
    Back,
}

/// Tasks went from one worker to another: the event `steal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StealEvent {
    /// When.
    pub at: Timestamp,
    /// Who had them.
    pub from: Name,
    /// Who has them now.
    pub to: Name,
    /// How many within about a second.
    pub count: u64,
    /// Who wanted it.
    pub by: StolenBy,
}

/// Who wanted a task to go to another worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StolenBy {
    /// The worker that has it now: it had nothing to do.
    Pull,
    /// The scheduler, to even the load out.
    Push,
}

/// Something happened to a queue: the event `queue`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueEvent {
    /// When it was noticed.
    pub at: Timestamp,
    /// Its name.
    pub queue: Name,
    /// What happened.
    pub what: QueueNews,
}

/// What happened to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum QueueNews {
    /// Its tasks are not given to workers any more.
    Paused,
    /// They are again.
    Resumed,
    /// Its settings changed.
    Set,
}

/// A rule about the health of the server broke, or holds again: the event `alert`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AlertEvent {
    /// When it was noticed.
    pub at: Timestamp,
    /// What happened.
    pub what: AlertNews,
    /// The rule.
    pub alert: Alert,
}

/// What happened to a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AlertNews {
    /// It broke.
    Fired,
    /// It holds again.
    Resolved,
}

/// What a dashboard hears, each under the name of its event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum PulseEvent {
    /// `pulse`.
    Pulse(Box<Pulse>),
    /// `worker`.
    Worker(WorkerEvent),
    /// `steal`.
    Steal(StealEvent),
    /// `queue`.
    Queue(QueueEvent),
    /// `alert`.
    Alert(Box<AlertEvent>),
}

impl PulseEvent {
    /// The name under which it is sent.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pulse(_) => "pulse",
            Self::Worker(_) => "worker",
            Self::Steal(_) => "steal",
            Self::Queue(_) => "queue",
            Self::Alert(_) => "alert",
        }
    }
}
