//! Why so many: the inputs as they were understood, what each policy would want, which forecast is believed, what is out
//! of reach. Data with plain words; `divvy scale explain` and the API show it as it is.

use std::collections::BTreeMap;

use divvy_types::pools::Policy;
use divvy_types::{Name, Timestamp};
use serde::{Deserialize, Serialize};

use crate::costs::Costs;
use crate::decision::{Bound, Flapping, Wanted};
use crate::policies::name;

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
    /// What it expects in the next two hours, in steps of five minutes; nothing before one has earned trust.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ahead: Vec<ForecastPoint>,
    /// Each with its recent error.
    pub forecasters: Vec<ForecasterView>,
}

/// What is expected at one time, in seconds of work per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ForecastPoint {
    /// When.
    pub at: Timestamp,
    /// The mean.
    pub rate: f64,
    /// Less is expected in one of ten cases.
    pub low: f64,
    /// More is expected in one of ten cases.
    pub high: f64,
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

impl Explanation {
    /// All of it in sentences; `why` is that of the decision.
    pub(crate) fn sentences(&self, why: &str) -> Vec<String> {
        let total: u32 = self.wanted.values().sum();
        let workers = if total == 1 { "worker is" } else { "workers are" };
        let mut words = vec![format!("{total} {workers} wanted: {why}.")];
        let told = self.impossible.iter().map(|one| {
            format!("The goal ({}) is out of reach: {}; {}.", self.goal, one.problem, one.cheapest)
        });
        words.extend(told);
        words.extend(self.flapping.iter().map(|flapping| sentence(&flapping.words)));
        words.push(self.inputs.words());
        words.extend(self.inputs.guessed().map(|name| {
            format!("No task of kind {name} has ended yet; its run time is guessed from the goal.")
        }));
        words.push(self.forecast.words());
        let answers: Vec<String> = self
            .answers
            .iter()
            .map(|answer| format!("{} {}", name(answer.policy), answer.workers))
            .collect();
        words.push(format!("What each policy would want: {}.", answers.join(", ")));
        words.push(self.costs.words());
        words
    }
}

impl Inputs {
    fn words(&self) -> String {
        let starting = if self.starting > 0.0 {
            format!(", and {:.2} more is starting", self.starting)
        } else {
            String::new()
        };
        format!(
            "Of the last {:.0} s, {:.2} s of work arrived per second; {:.1} s of work waits; the workers do {:.2} s \
             per second{starting}; {:.0} % of them is used; a new one takes {:.0} s to start.",
            self.measured_sec,
            self.work_rate,
            self.backlog_sec,
            self.capacity,
            self.used * 100.0,
            self.boot_sec
        )
    }

    fn guessed(&self) -> impl Iterator<Item = &Name> {
        let open = |kind: &KindInputs| kind.waiting > 0 || kind.per_second > 0.0;
        self.kinds
            .iter()
            .filter(move |(_, kind)| !kind.run_known && open(kind))
            .map(|(name, _)| name)
    }
}

impl ForecastView {
    fn words(&self) -> String {
        let error = |name: &str| {
            let one = self.forecasters.iter().find(|one| one.name == name)?;
            Some(one.error? * 100.0)
        };
        match (&self.trusted, self.expects) {
            (Some(by), Some(expects)) => format!(
                "The forecast by {by} is trusted: its recent error is {:.1} % of the load, {:.1} % without a forecast; \
                 it expects {expects:.2} s of work per second until a new worker would be there.",
                error(by).unwrap_or(0.0),
                error("stays").unwrap_or(0.0)
            ),
            _ => {
                let tried = self.forecasters.iter().map(|one| one.tried).max().unwrap_or(0);
                format!(
                    "No forecaster has earned trust yet, after {tried} tries of five minutes each."
                )
            }
        }
    }
}

impl Costs {
    fn words(&self) -> String {
        let energy = self.energy_kwh.map_or_else(String::new, |kwh| format!("; {kwh:.2} kWh"));
        format!(
            "It costs {:.2} per hour now, {:.2} so far; always at the maximum it would have been {:.2}, by the rules of \
             Kubernetes {:.2}{energy}.",
            self.per_hour, self.total, self.fixed_total, self.hpa_total
        )
    }
}

fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}
