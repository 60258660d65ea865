//! Pools of workers and what is wanted of them: how many at least and at most, of which types, at what price, towards
//! which goal. A section of [`crate::Settings`]; `divvy-autoscale` decides with it, a driver carries it out.
//!
//! Data and its checks only.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Name;

/// A pool: workers that are alike in what they can run, and scale together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Pool {
    /// Who starts and stops its workers.
    pub driver: Driver,
    /// Kinds that its workers run; none means every kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<Name>,
    /// Queues that its workers serve; none means all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<Name>,
    /// What its workers have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Name>,
    /// Workers that are always there; 0 lets the pool stop when there is nothing to do.
    pub min: u32,
    /// Workers that there are at most.
    pub max: u32,
    /// What its workers can be, the cheapest way is chosen; none means one free type of one slot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<WorkerType>,
    /// What is to be reached.
    pub goal: Goal,
    /// How the number of workers is found.
    pub policy: Policy,
    /// How fast the pool may grow.
    pub up: Pace,
    /// How fast it may shrink.
    pub down: Pace,
    /// What it may cost.
    pub budget: Budget,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            driver: Driver::default(),
            kinds: Vec::new(),
            queues: Vec::new(),
            capabilities: Vec::new(),
            min: 0,
            max: 10,
            types: Vec::new(),
            goal: Goal::default(),
            policy: Policy::default(),
            up: Pace { step: None, cool_down_sec: 0.0, window_sec: 0.0 },
            down: Pace { step: None, cool_down_sec: 30.0, window_sec: 120.0 },
            budget: Budget::default(),
        }
    }
}

/// Who starts and stops the workers of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Driver {
    /// `divvy up`, as processes on this machine.
    #[default]
    Local,
    /// Nobody: what is wanted is only told, in the log, the API and the metrics. KEDA asks for it there.
    Print,
    /// A program: it gets what is wanted as JSON on its standard input, and answers with what is there.
    Exec {
        /// The program and its arguments; no shell.
        command: Vec<String>,
    },
    /// The scale subresource of a Kubernetes object.
    Kubernetes {
        /// The API server; by default that of the cluster in which the server runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// The namespace of the object.
        namespace: String,
        /// What the object is: `deployments` or `statefulsets`.
        resource: String,
        /// Its name.
        name: String,
    },
}

/// One type of worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct WorkerType {
    /// What it is called.
    pub name: Name,
    /// Tasks that it runs at once.
    pub slots: u32,
    /// How fast it is; 1 runs a task in the time that was learnt.
    pub speed: f64,
    /// What it costs while it is there, in money per hour.
    pub price_hour: f64,
    /// The time from asking for it until it takes tasks.
    pub boot_sec: f64,
    /// What is paid for at least, once it was started.
    pub billing_sec: f64,
    /// Whether its owner may take it away at short notice.
    pub spot: bool,
    /// What it draws when it has nothing to do, in watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watts_idle: Option<f64>,
    /// What it draws when all its slots are busy, in watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watts_busy: Option<f64>,
}

impl Default for WorkerType {
    fn default() -> Self {
        Self {
            name: "worker".into(),
            slots: 1,
            speed: 1.0,
            price_hour: 0.0,
            boot_sec: 0.0,
            billing_sec: 0.0,
            spot: false,
            watts_idle: None,
            watts_busy: None,
        }
    }
}

/// What is to be reached, written as `p95 start within 30 s` or `deadline misses under 1 %`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// This share of tasks starts within this time.
    Start {
        /// The share, from 0 to 1.
        share: f64,
        /// The time from ready to running.
        within: Duration,
    },
    /// At most this share of tasks ends after its deadline.
    Misses {
        /// The share, from 0 to 1.
        under: f64,
    },
}

impl Default for Goal {
    fn default() -> Self {
        Self::Start { share: 0.95, within: Duration::from_secs(30) }
    }
}

/// How the number of workers is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Money and lateness weighed against each other, over forecasts that have earned trust.
    #[default]
    Objective,
    /// Arrivals times run time, and the backlog drained within the goal.
    Queue,
    /// The same, for the arrivals that are forecast for the time when a new worker would be there.
    Predictive,
    /// The use of the slots held at a target.
    Target,
    /// One step when the use of the slots leaves a band.
    Reactive,
    /// What Kubernetes does with a target of 70 % of processor use; to compare with.
    Hpa,
    /// As many as the maximum says.
    Fixed,
}

/// How fast a pool may change in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Pace {
    /// Workers per decision at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// The time after a change in which there is no other in this direction.
    pub cool_down_sec: f64,
    /// A change must have been right for so long; the most careful answer of that time holds.
    pub window_sec: f64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { step: None, cool_down_sec: 0.0, window_sec: 0.0 }
    }
}

/// What a pool may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// In an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hour: Option<f64>,
    /// In a month of 30 days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub month: Option<f64>,
    /// What a task that misses the goal costs; the objective weighs it against workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_task: Option<f64>,
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "`{text}` is not a goal; write `p95 start within 30 s` or `deadline misses under 1 %`"
            )
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            [share, "start", "within", time @ ..] => {
                let percent: f64 =
                    share.strip_prefix('p').and_then(|p| p.parse().ok()).ok_or_else(bad)?;
                let seconds = seconds(&time.concat()).ok_or_else(bad)?;
                let sound = percent > 0.0
                    && percent < 100.0
                    && (0.001..=86_400.0 * 30.0).contains(&seconds);
                let goal = Self::Start {
                    share: percent / 100.0,
                    within: Duration::from_secs_f64(if sound { seconds } else { 1.0 }),
                };
                sound.then_some(goal).ok_or_else(bad)
            }
            ["deadline", "misses", "under", share @ ..] => {
                let percent: f64 = share
                    .concat()
                    .strip_suffix('%')
                    .and_then(|p| p.parse().ok())
                    .ok_or_else(bad)?;
                let sound = percent > 0.0 && percent < 100.0;
                sound.then_some(Self::Misses { under: percent / 100.0 }).ok_or_else(bad)
            }
            _ => Err(bad()),
        }
    }
}

/// A time such as `30s`, `5m` or `2h`, in seconds.
fn seconds(text: &str) -> Option<f64> {
    let end = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(end);
    let factor = match unit {
        "ms" => 0.001,
        "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| number * factor).filter(|seconds| seconds.is_finite())
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded where a share such as 0.999 times 100 is not a round number.
        let percent = |share: f64| (share * 100_000.0).round() / 1_000.0;
        match self {
            Self::Start { share, within } => {
                write!(f, "p{} start within {} s", percent(*share), within.as_secs_f64())
            }
            Self::Misses { under } => write!(f, "deadline misses under {} %", percent(*under)),
        }
    }
}

impl Serialize for Goal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Goal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Goal {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Goal".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": r"^\s*(p\d+(\.\d+)? start within \d+(\.\d+)? ?(ms|s|sec|m|min|h)|deadline misses under \d+(\.\d+)? ?%)\s*$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_written_in_words() {
        for (text, told) in [
            ("p95 start within 30 s", "p95 start within 30 s"),
            ("p99.9 start within 2m", "p99.9 start within 120 s"),
            ("deadline misses under 1 %", "deadline misses under 1 %"),
            ("deadline misses under 0.5%", "deadline misses under 0.5 %"),
        ] {
            assert_eq!(text.parse::<Goal>().unwrap().to_string(), told);
        }
        for text in [
            "",
            "fast",
            "p95 start within",
            "p0 start within 3 s",
            "p100 start within 3 s",
            "p95 start within -1 s",
            "p95 start within NaN s",
            "p95 start within 9999h",
            "deadline misses under 100 %",
            "deadline misses under x %",
        ] {
            assert!(text.parse::<Goal>().unwrap_err().contains("p95 start within"), "{text}");
        }
    }
}
