//! What was seen of a pool at one time: what came, what waits, what runs, who works.

use std::collections::BTreeMap;

use divvy_types::{Name, Timestamp};
use serde::{Deserialize, Serialize};

/// What was seen of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Sample {
    /// When.
    pub at: Timestamp,
    /// What there is of each kind that the pool can run.
    pub kinds: BTreeMap<Name, KindLoad>,
    /// Who works, by type of worker.
    pub fleet: BTreeMap<Name, Fleet>,
    /// Slots that run a task.
    pub busy_slots: u32,
    /// How busy the processors of the workers are, from 0 to 1, where that is known.
    pub cpu: Option<f64>,
    /// How full their memory is, from 0 to 1, where that is known.
    pub memory: Option<f64>,
    /// Requests per second. They are work for pools that serve requests rather than tasks; where there are `kinds`, only told.
    pub requests_per_second: Option<f64>,
    /// The 95th percentile of answer times in seconds, for such pools.
    pub p95_sec: Option<f64>,
}

/// What there is of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct KindLoad {
    /// Tasks that became ready since the sample before.
    pub arrived: u64,
    /// Tasks that ended since the sample before.
    pub ended: u64,
    /// Tasks that are ready and wait.
    pub waiting: u64,
    /// Tasks that run.
    pub running: u64,
    /// How long the one that waits longest has waited, in seconds.
    pub oldest_sec: f64,
    /// The mean run time of a task, in seconds on a worker of speed 1; nothing before one has ended.
    pub run_sec: Option<f64>,
    /// The 95th percentile of the run time, likewise.
    pub run_p95_sec: Option<f64>,
    /// Waiting tasks with a deadline, by rising deadline, in at most a few dozen steps.
    pub due: Vec<Due>,
}

/// Waiting tasks that are due by a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Due {
    /// By when.
    pub at: Timestamp,
    /// How many.
    pub tasks: u64,
}

/// Workers of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Fleet {
    /// Workers that take tasks.
    pub running: u32,
    /// Workers that were asked for and do not take tasks yet.
    pub starting: u32,
    /// Workers that end what they run and then leave; they can be called back.
    pub draining: u32,
    /// Of those that run: spot workers that were told that they will be taken away.
    pub leaving: u32,
}
