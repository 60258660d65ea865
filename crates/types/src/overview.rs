//! What people see of a server as a whole: settings, load, limits, alerts, and a task explained. Read models of the
//! HTTP API like those in [`crate::view`]; nothing here is decided.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::alerts::{Alert, AlertChange, AlertSink, AlertState, Alerts, Severity};
use crate::settings::{FairBy, Limit};
use crate::view::{Attempt, Explanation, LimitView, LoadMetrics, Move, QueueView, TaskSummary};
use crate::{Dependency, Name, Settings, Timestamp, WaitReason};

/// The settings that hold, and where they come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettingsView {
    /// What holds.
    pub settings: Settings,
    /// The file that the server watches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Sections that the file sets; the API cannot change these.
    #[serde(default)]
    pub file_sections: Vec<Name>,
    /// When the file was last read and held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reloaded_at: Option<Timestamp>,
    /// What was wrong with the file when it was read last; what held before still holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload_error: Option<String>,
}

/// A kind of tasks: who runs it, and what there is of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KindStatus {
    /// What it is called.
    pub name: Name,
    /// Connected workers that run it.
    pub workers: u32,
    /// Tasks of it that they run at once, if they run nothing else.
    pub slots: u32,
    /// Ready tasks that wait for a slot.
    pub waiting: u64,
    /// Tasks that run.
    pub running: u64,
    /// How long they run on average, in milliseconds; nothing before one has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_mean_ms: Option<u64>,
    /// What 95 of 100 of them stay below, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_p95_ms: Option<u64>,
}

/// A queue and what is set about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueStatus {
    /// What is in it.
    #[serde(flatten)]
    pub queue: QueueView,
    /// Its share against other queues with a weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// What fair keys share in it.
    #[serde(default)]
    pub fair_by: FairBy,
    /// Weights of fair keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fair_weights: BTreeMap<Name, u32>,
}

/// A limit and how full it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitStatus {
    /// Its name.
    pub name: Name,
    /// What is set.
    pub limit: Limit,
    /// Tasks that run under it, over all keys.
    pub running: u64,
    /// Ready tasks that it keeps, over all keys.
    pub waiting: u64,
    /// Keys that are in use.
    pub keys: u64,
    /// The level of each key, those that keep most first; the first ones of many.
    #[serde(default)]
    pub levels: Vec<LimitView>,
}

/// What one worker carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerLoad {
    /// Its name.
    pub name: Name,
    /// Names the connection.
    pub key: u64,
    /// Tasks that it runs at once.
    pub slots: u32,
    /// Tasks that it holds.
    pub leased: u32,
    /// Tasks that it holds and has presumably not begun.
    pub queue_length: u32,
    /// Whether it takes no more.
    pub draining: bool,
    /// Whether somebody lets it rest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

/// The load at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadSample {
    /// When.
    pub at: Timestamp,
    /// How much of all slots was in use, from 0 to 1.
    pub utilisation: f64,
    /// Tasks that waited for a worker.
    pub ready: u64,
    /// Dead letters since the start of the server.
    pub dead: u64,
    /// The queue of each worker; of many workers, the longest queues.
    pub queue_lengths: BTreeMap<Name, u32>,
}

/// Ready tasks of one queue, kind and needs that no connected worker can run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stranded {
    /// Their queue.
    pub queue: Name,
    /// Their kind.
    pub kind: Name,
    /// How many are ready, in memory.
    pub ready: u64,
    /// Why nobody can run them.
    pub wait: WaitReason,
}

/// How the load is spread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadView {
    /// How tasks move between workers.
    #[serde(flatten)]
    pub metrics: LoadMetrics,
    /// How much of all slots is in use, from 0 to 1.
    pub utilisation: f64,
    /// The variance of the workers' queue lengths.
    pub queue_variance: f64,
    /// Every worker.
    pub workers: Vec<WorkerLoad>,
    /// The last half hour in which workers said something, oldest first.
    pub samples: Vec<LoadSample>,
}

/// What a rebalance moved, or would move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rebalance {
    /// Whether nothing was done.
    pub dry_run: bool,
    /// What is moved.
    pub moves: Vec<Move>,
}

/// A task and why it is where it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskExplanation {
    /// What a list shows of it.
    #[serde(flatten)]
    pub summary: TaskSummary,
    /// What the scheduler says.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// Attempts that it has in all.
    pub attempts_max: u32,
    /// What it waits or waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Dependency>,
    /// Attempts that ended, oldest first, without their logs.
    pub history: Vec<Attempt>,
}
