//! What people see of a pool: read models of the HTTP API, which the command line reads too. Nothing here is decided.

use divvy_types::pools::{Goal, Policy};
use divvy_types::{Name, Timestamp};
use serde::{Deserialize, Serialize};

use crate::costs::Costs;
use crate::decision::{Bound, Decision, Wanted};
use crate::explain::Explanation;
use crate::sample::Sample;

/// A pool at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PoolStatus {
    /// Its name.
    pub name: Name,
    /// Who starts and stops its workers: `local`, `print`, `exec` or `kubernetes`.
    pub driver: Name,
    /// How the number of workers is found.
    pub policy: Policy,
    /// What is to be reached.
    pub goal: Goal,
    /// Workers that are always there.
    pub min: u32,
    /// Workers that there are at most.
    pub max: u32,
    /// Whether the scaling is paused.
    pub paused: bool,
    /// The number that was set by hand.
    pub set: Option<u32>,
    /// Workers that are wanted, by type.
    pub wanted: Wanted,
    /// Workers that take tasks.
    pub running: u32,
    /// Workers that were asked for and do not take tasks yet.
    pub starting: u32,
    /// Workers that end what they run and then leave.
    pub draining: u32,
    /// Tasks that wait which the pool can run.
    pub tasks_waiting: u64,
    /// Tasks that run which the pool can run.
    pub tasks_running: u64,
    /// When it was decided how many are wanted.
    pub decided_at: Timestamp,
    /// Why so many, in words.
    pub reason: String,
    /// What kept it from more or fewer, if anything did.
    pub bound: Option<Bound>,
    /// What it costs.
    pub costs: Costs,
    /// What is wrong with its driver or its goal, if anything is.
    pub problem: Option<String>,
}

/// Why a pool has as many workers as it has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PoolExplained {
    /// The pool.
    pub status: PoolStatus,
    /// How the decision came about; nothing before the first sample.
    pub explanation: Option<Explanation>,
    /// What was seen last.
    pub sample: Sample,
    /// What else is to be known of how it counts, in words.
    pub notes: Vec<String>,
    /// Its workers.
    pub workers: Vec<PoolWorker>,
}

/// A connected worker of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PoolWorker {
    /// Its name.
    pub name: Name,
    /// Its type.
    pub worker_type: Name,
    /// Whether it takes no more tasks.
    pub draining: bool,
    /// Tasks that it runs.
    pub running: u32,
    /// Tasks that wait at it.
    pub queued: u32,
    /// Affinity keys whose last task it had.
    pub affinity_keys: u32,
}

/// A change of what is wanted, as it happens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PoolEvent {
    /// The pool.
    pub pool: Name,
    /// Workers that were wanted before.
    pub from: u32,
    /// What is wanted now, and why.
    pub decision: Decision,
    /// Who can go, and what goes with them, in words.
    pub leaving: Option<String>,
}

/// What to try with the samples of a pool; what is left out is as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Trial {
    /// Another policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Another minimum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<u32>,
    /// Another maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// Another goal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
}

/// What a pool would have wanted over the samples that were kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Simulated {
    /// The policy that was tried.
    pub policy: Policy,
    /// The minimum that was tried.
    pub min: u32,
    /// The maximum that was tried.
    pub max: u32,
    /// The samples, oldest first.
    pub steps: Vec<SimulatedStep>,
    /// Changes of what is wanted.
    pub changes: u32,
    /// What it would have cost.
    pub costs: Costs,
}

/// One sample and what would have been wanted at it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SimulatedStep {
    /// When.
    pub at: Timestamp,
    /// Tasks that waited.
    pub waiting: u64,
    /// Workers that there were.
    pub workers: u32,
    /// Workers that would have been wanted.
    pub wanted: u32,
    /// Tasks that would have waited, with the workers that would have been there.
    pub would_wait: u64,
    /// Workers that would have been there: those wanted before, after their boot time.
    pub would_work: u32,
    /// Work that arrived, in seconds per second.
    pub work_rate: f64,
    /// Work that the workers that there were could do, in seconds per second.
    pub capacity: f64,
    /// Why.
    pub reason: String,
}
