//! Why so many: the inputs as they were understood, what each policy would want, which forecast is believed, what is out
//! of reach. Data with plain words; `divvy scale explain` and the API show it as it is.

use std::collections::BTreeMap;

use divvy_types::pools::Policy;
use divvy_types::{Name, Timestamp};
use serde::{Deserialize, Serialize};

use crate::costs::Costs;
use crate::decision::{Bound, Flapping, Wanted};

/// Why a pool has as many workers as it has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// When the sample was taken that it speaks of.
    pub at: Timestamp,
    /// What the pool is to reach, in words.
    pub goal: String,
    /// The policy that decides.
    pub policy: Policy,
    /// What was decided.
    pub wanted: Wanted,
    /// What kept it from more or fewer, if anything did.
    pub bound: Option<Bound>,
    /// The inputs as they were understood.
    pub inputs: Inputs,
    /// What each policy would want now, before bounds, paces and budgets.
    pub answers: Vec<Answer>,
    /// The forecasters.
    pub forecast: ForecastView,
    /// What cannot be reached with these settings, and the cheapest that would do.
    pub impossible: Vec<Impossible>,
    /// Whether the fleet goes up and down again and again.
    pub flapping: Option<Flapping>,
    /// What it costs.
    pub costs: Costs,
    /// All of it in sentences, the most important first.
    pub words: Vec<String>,
}

/// The inputs of a decision as they were understood. Work is in seconds on one slot of speed 1, so a capacity of 8 does
/// 8 seconds of work each second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Inputs {
    /// By kind.
    pub kinds: BTreeMap<Name, KindInputs>,
    /// Work that arrives, in seconds per second.
    pub work_rate: f64,
    /// Over how many seconds that was measured.
    pub measured_sec: f64,
    /// Work that waits, in seconds.
    pub backlog_sec: f64,
    /// Capacity of the workers that take tasks and will stay.
    pub capacity: f64,
    /// Capacity of the workers that are starting.
    pub starting: f64,
    /// How much of the workers is used, from 0 to 1; processors where that is known, else slots.
    pub used: f64,
    /// The time from asking for a worker until it takes tasks, in seconds.
    pub boot_sec: f64,
}

/// What was understood of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct KindInputs {
    /// Tasks that arrive per second.
    pub per_second: f64,
    /// How long one is taken to run, in seconds.
    pub run_sec: f64,
    /// Whether that was measured; else it is a guess from the goal.
    pub run_known: bool,
    /// Tasks that wait.
    pub waiting: u64,
    /// Tasks that run.
    pub running: u64,
}

/// What one policy would want.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// Which one.
    pub policy: Policy,
    /// How many workers.
    pub workers: u32,
    /// Why, in words.
    pub why: String,
}

/// The forecasters and how well each did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForecastView {
    /// The one that is believed; none before one has earned it.
    pub trusted: Option<String>,
    /// The most work that it expects until a new worker would be there, in seconds per second.
    pub expects: Option<f64>,
    /// Each with its recent error.
    pub forecasters: Vec<ForecasterView>,
}

/// One forecaster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ForecasterView {
    /// Its name.
    pub name: String,
    /// Its recent mean pinball loss, as a share of the load; nothing before it was tried.
    pub error: Option<f64>,
    /// How many of its forecasts were compared with what came.
    pub tried: u32,
}

/// Something that the settings make impossible.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Impossible {
    /// What is out of reach, and why.
    pub problem: String,
    /// The cheapest that would do.
    pub cheapest: String,
}
