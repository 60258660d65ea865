//! What a server may be told about scheduling, in `divvy.yaml` and over the API, while it runs.
//!
//! Data and its checks only. Every field has a default; a bad value is refused with its path named, and then nothing
//! of the new settings holds.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::*;
use crate::pools::Pool;
use crate::spec::check_name;
use crate::terms::Matching;
use crate::{Name, RetryPolicy};

/// All settings of scheduling.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// How tasks get to workers and move between them.
    pub load_balancing: LoadBalancing,
    /// Whose turn it is.
    pub ordering: Ordering,
    /// Limits by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<crate::schema::LimitName, Limit>"))]
    pub limits: BTreeMap<Name, Limit>,
    /// What is special about a queue, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "BTreeMap<crate::schema::Label<QUEUE_LEN_MAX>, QueueSettings>")
    )]
    pub queues: BTreeMap<Name, QueueSettings>,
    /// What is special about a kind, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "BTreeMap<crate::schema::Label<KIND_LEN_MAX>, KindSettings>")
    )]
    pub kinds: BTreeMap<Name, KindSettings>,
    /// Pools of workers, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "BTreeMap<crate::schema::Label<QUEUE_LEN_MAX>, Pool>")
    )]
    pub pools: BTreeMap<Name, Pool>,
    /// A task that was lost with so many different workers while it ran is a dead letter, whatever its retries.
    pub poison_after: PoisonAfter,
}

/// How many lost workers make a task a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct PoisonAfter(
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_000)))] pub u32,
);

impl Default for PoisonAfter {
    fn default() -> Self {
        Self(3)
    }
}

/// How tasks get to workers and move between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct LoadBalancing {
    /// Which ways of moving tasks are used.
    pub strategy: Strategy,
    /// What counts as busy, idle and unbalanced.
    pub thresholds: Thresholds,
    /// How tasks are stolen.
    pub work_stealing: WorkStealing,
    /// How workers are matched to needs.
    pub capabilities: Capabilities,
    /// What high priority means.
    pub priority: PriorityRules,
    /// How much else counts when a worker is chosen.
    pub scores: Scores,
}

/// Which ways of moving tasks are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Tasks stay with the worker that got them.
    None,
    /// Idle workers steal.
    Pull,
    /// The scheduler moves tasks when the load is severely uneven.
    Push,
    /// Both.
    #[default]
    Hybrid,
}

impl Strategy {
    /// Whether idle workers steal.
    pub fn pulls(self) -> bool {
        matches!(self, Self::Pull | Self::Hybrid)
    }

    /// Whether the scheduler moves tasks.
    pub fn pushes(self) -> bool {
        matches!(self, Self::Push | Self::Hybrid)
    }
}

/// What counts as busy, idle and unbalanced. A worker's queue is what it was given and has not begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Thresholds {
    /// A longer queue is busy.
    #[cfg_attr(feature = "schema", schemars(range(max = 1_000_000)))]
    pub busy_threshold: u32,
    /// A shorter queue is idle.
    pub idle_threshold: u32,
    /// How often the scheduler looks, in seconds.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.001, max = 86_400.0)))]
    pub rebalance_interval_sec: f64,
    /// The longest over the shortest queue from which on it acts.
    #[cfg_attr(feature = "schema", schemars(range(min = 1.0, max = 1e6)))]
    pub severe_imbalance_ratio: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            busy_threshold: 5,
            idle_threshold: 2,
            rebalance_interval_sec: 30.0,
            severe_imbalance_ratio: 3.0,
        }
    }
}

/// How tasks are stolen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct WorkStealing {
    /// Tasks that one steal or one look moves at most.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000)))]
    pub max_steal_per_cycle: u32,
    /// The last task that was given goes first (LIFO), or the first (FIFO).
    pub prefer_recent_tasks: bool,
    /// Whether tasks that have begun may move too; they start again elsewhere, from their checkpoint if they have one.
    pub allow_task_migration: bool,
    /// Whether the scheduler moves tasks ahead of time, by how long they are expected to run.
    pub predictive: bool,
}

impl Default for WorkStealing {
    fn default() -> Self {
        Self {
            max_steal_per_cycle: 3,
            prefer_recent_tasks: true,
            allow_task_migration: false,
            predictive: false,
        }
    }
}

/// How workers are matched to needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Capabilities {
    /// For tasks that do not say.
    pub matching_strategy: Matching,
    /// Whether workers are judged by how they did.
    pub consider_history: bool,
    /// How much that counts, from 0 to 1.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1.0)))]
    pub history_weight: f64,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self { matching_strategy: Matching::BestFit, consider_history: true, history_weight: 0.3 }
    }
}

/// What high priority means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PriorityRules {
    /// From this priority on it is high.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 6)))]
    pub high_priority_threshold: u8,
    /// Whether tasks of high priority are never stolen.
    pub preserve_high_priority: bool,
}

impl Default for PriorityRules {
    fn default() -> Self {
        Self { high_priority_threshold: 4, preserve_high_priority: true }
    }
}

/// How much else counts when a worker is chosen; 0 leaves a term out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Scores {
    /// That the worker ran tasks with the same affinity key.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1_000.0)))]
    pub affinity: f64,
    /// How long it is expected to take there, against the fastest.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1_000.0)))]
    pub run_time: f64,
    /// What it costs there: capabilities `price_hour` and `speed`.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1_000.0)))]
    pub cost: f64,
    /// What energy it takes there: capabilities `watts_busy`, `watts_idle` and `speed`.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1_000.0)))]
    pub energy: f64,
}

impl Default for Scores {
    fn default() -> Self {
        Self { affinity: 0.5, run_time: 0.0, cost: 0.0, energy: 0.0 }
    }
}

/// Whose turn it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Ordering {
    /// How much waiting makes up for one step of priority, in seconds.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.001, max = 86_400.0)))]
    pub ageing_sec: f64,
    /// A task without a deadline counts as if it had one so many seconds after it became ready.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.001, max = 2_592_000.0)))]
    pub patience_sec: f64,
}

impl Default for Ordering {
    fn default() -> Self {
        Self { ageing_sec: 60.0, patience_sec: 600.0 }
    }
}

/// A limit that tasks name: how often they may start, and how many may run at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Limit {
    /// Starts per time and key, such as `10/s`, `100/m`, `5000/h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Starts that may come at once after a pause; by default what the rate gives in a second, at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub burst: Option<u32>,
    /// Tasks that may run at once, per key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub concurrency: Option<u32>,
    /// Starts per time, over all keys together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_rate: Option<Rate>,
    /// Tasks that may run at once, over all keys together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub total_concurrency: Option<u32>,
}

/// So many per time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many.
    pub count: u32,
    /// In how many milliseconds.
    pub per_ms: u64,
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a rate; write 10/s, 100/m, 5000/h or 20000/d");
        let (count, per) = text.split_once('/').ok_or_else(bad)?;
        let count: u32 = count.trim().parse().map_err(|_| bad())?;
        let per_ms = match per.trim() {
            "s" | "sec" | "second" => 1_000,
            "m" | "min" | "minute" => 60_000,
            "h" | "hour" => 3_600_000,
            "d" | "day" => 86_400_000,
            _ => return Err(bad()),
        };
        if count == 0 {
            return Err(format!("`{text}` lets nothing through; pause the queue instead"));
        }
        Ok(Self { count, per_ms })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per = match self.per_ms {
            1_000 => "s",
            60_000 => "m",
            3_600_000 => "h",
            86_400_000 => "d",
            other => return write!(f, "{}/{other}ms", self.count),
        };
        write!(f, "{}/{per}", self.count)
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What is special about a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct QueueSettings {
    /// Its share against other queues; 1 for those that have none. If no queue has one, queues are served by age.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = WEIGHT_MAX)))]
    pub weight: Option<u32>,
    /// What fair keys share in it.
    pub fair_by: FairBy,
    /// Weights of fair keys; 1 for those that are not listed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "BTreeMap<crate::schema::Label<KEY_LEN_MAX>, crate::schema::Weight>")
    )]
    pub fair_weights: BTreeMap<Name, u32>,
}

/// What fair keys share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FairBy {
    /// Starts: each key as many tasks as its weight says.
    #[default]
    Tasks,
    /// Run time: each key as much of the workers' time as its weight says.
    Time,
}

/// What is special about a kind. The first four hold for tasks that leave the field at its default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct KindSettings {
    /// How long one attempt may take, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = TIMEOUT_MS_MAX)))]
    pub timeout_ms: Option<u64>,
    /// What follows a failed attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// Limits that its tasks run under.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::schema::Label<LIMIT_LEN_MAX>>", length(max = LIMITS_MAX)))]
    pub limits: Vec<Name>,
    /// What its workers must have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<crate::schema::NeedText>", length(max = NEEDS_MAX)))]
    pub needs: Vec<Name>,
    /// How many retries its successes pay for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_budget: Option<RetryBudget>,
}

/// How many retries the successes of a kind pay for. When they are spent, a retry waits as long as its policy allows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RetryBudget {
    /// How much of a retry one success pays for.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1.0)))]
    pub share: f64,
    /// How many retries per second are free.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1e6)))]
    pub per_second: f64,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { share: 0.2, per_second: 1.0 }
    }
}

/// A setting that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} {problem}")]
pub struct InvalidSetting {
    /// Where it is, such as `load_balancing.thresholds.idle_threshold`.
    pub path: String,
    /// What is wrong with it, and the cure.
    pub problem: String,
}

/// Names that settings may list.
const SETTINGS_NAMES_MAX: usize = 10_000;
/// Pools of one server.
pub const POOLS_MAX: usize = 100;
/// The highest rate, in starts per millisecond.
const RATE_PER_MS_MAX: u64 = 1_000;
/// The longest time that a bucket may take to fill: a year.
const FILL_MS_MAX: u64 = 365 * 86_400_000;
/// The greatest weight of a queue or a fair key.
pub const WEIGHT_MAX: u32 = 10_000;

impl Settings {
    /// Checks every field.
    pub fn check(&self) -> Result<(), InvalidSetting> {
        self.load_balancing.check()?;
        within("ordering.ageing_sec", self.ordering.ageing_sec, 0.001, 86_400.0)?;
        within("ordering.patience_sec", self.ordering.patience_sec, 0.001, 30.0 * 86_400.0)?;
        within("poison_after", f64::from(self.poison_after.0), 1.0, 1_000.0)?;
        for (path, count) in [
            ("limits", self.limits.len()),
            ("queues", self.queues.len()),
            ("kinds", self.kinds.len()),
        ] {
            within(path, count as f64, 0.0, SETTINGS_NAMES_MAX as f64)?;
        }
        within("pools", self.pools.len() as f64, 0.0, POOLS_MAX as f64)?;
        for (name, limit) in &self.limits {
            limit.check(name)?;
        }
        for (name, queue) in &self.queues {
            queue.check(name)?;
        }
        for (name, kind) in &self.kinds {
            kind.check(name)?;
        }
        self.pools.iter().try_for_each(|(name, pool)| pool.check(name))
    }

    /// Checks that the limits that kinds name are defined. Apart from [`Settings::check`], which what was stored by an
    /// earlier version must pass.
    pub fn check_names(&self) -> Result<(), InvalidSetting> {
        for (kind, settings) in &self.kinds {
            let names =
                settings.limits.iter().map(|limit| limit.split('/').next().unwrap_or(limit));
            if let Some(name) = names.into_iter().find(|name| !self.limits.contains_key(*name)) {
                let problem = format!(
                    "names `{name}`, which is not defined; define it first: divvy limit set {name} --rate 10/s"
                );
                return Err(InvalidSetting { path: format!("kinds.{kind}.limits"), problem });
            }
        }
        Ok(())
    }
}

impl LoadBalancing {
    fn check(&self) -> Result<(), InvalidSetting> {
        let path = |field: &str| format!("load_balancing.{field}");
        let thresholds = &self.thresholds;
        if thresholds.idle_threshold > thresholds.busy_threshold {
            let problem = format!(
                "is {}, more than busy_threshold ({}); an idle worker cannot be busy",
                thresholds.idle_threshold, thresholds.busy_threshold
            );
            return Err(InvalidSetting { path: path("thresholds.idle_threshold"), problem });
        }
        within(&path("thresholds.busy_threshold"), thresholds.busy_threshold.into(), 0.0, 1e6)?;
        within(
            &path("thresholds.rebalance_interval_sec"),
            thresholds.rebalance_interval_sec,
            0.001,
            86_400.0,
        )?;
        within(
            &path("thresholds.severe_imbalance_ratio"),
            thresholds.severe_imbalance_ratio,
            1.0,
            1e6,
        )?;
        within(
            &path("work_stealing.max_steal_per_cycle"),
            self.work_stealing.max_steal_per_cycle.into(),
            1.0,
            10_000.0,
        )?;
        within(&path("capabilities.history_weight"), self.capabilities.history_weight, 0.0, 1.0)?;
        within(
            &path("priority.high_priority_threshold"),
            self.priority.high_priority_threshold.into(),
            1.0,
            6.0,
        )?;
        for (field, value) in [
            ("scores.affinity", self.scores.affinity),
            ("scores.run_time", self.scores.run_time),
            ("scores.cost", self.scores.cost),
            ("scores.energy", self.scores.energy),
        ] {
            within(&path(field), value, 0.0, 1_000.0)?;
        }
        Ok(())
    }
}

impl Limit {
    fn check(&self, name: &str) -> Result<(), InvalidSetting> {
        check_key("limits", name, LIMIT_LEN_MAX)?;
        let path = |field: &str| format!("limits.{name}.{field}");
        if name.contains(['/', '{', '}']) {
            let problem = "has `/`, `{` or `}` in its name; keys belong to tasks, as in name/key";
            return Err(InvalidSetting { path: format!("limits.{name}"), problem: problem.into() });
        }
        let nothing = self.rate.is_none()
            && self.concurrency.is_none()
            && self.total_rate.is_none()
            && self.total_concurrency.is_none();
        if nothing {
            let problem = "limits nothing; give rate, concurrency, total_rate or total_concurrency";
            return Err(InvalidSetting { path: format!("limits.{name}"), problem: problem.into() });
        }
        if self.burst.is_some() && self.rate.is_none() && self.total_rate.is_none() {
            let problem = "needs a rate".to_owned();
            return Err(InvalidSetting { path: path("burst"), problem });
        }
        let rates = [("rate", self.rate), ("total_rate", self.total_rate)];
        for (field, rate) in rates.into_iter().filter_map(|(field, rate)| Some((field, rate?))) {
            if u64::from(rate.count) > rate.per_ms * RATE_PER_MS_MAX {
                let problem = format!("is {rate}, at most {RATE_PER_MS_MAX} per millisecond");
                return Err(InvalidSetting { path: path(field), problem });
            }
            let fill_ms = rate.per_ms * u64::from(self.burst.unwrap_or(1)) / u64::from(rate.count);
            if fill_ms > FILL_MS_MAX {
                let problem = format!("takes more than a year to fill at {rate}; lower it");
                return Err(InvalidSetting { path: path("burst"), problem });
            }
        }
        for (field, value) in [
            ("burst", self.burst),
            ("concurrency", self.concurrency),
            ("total_concurrency", self.total_concurrency),
        ] {
            if value == Some(0) {
                let problem =
                    "is 0, which lets nothing through; pause the queue instead".to_owned();
                return Err(InvalidSetting { path: path(field), problem });
            }
        }
        Ok(())
    }
}

impl QueueSettings {
    fn check(&self, name: &str) -> Result<(), InvalidSetting> {
        check_key("queues", name, QUEUE_LEN_MAX)?;
        if let Some(weight) = self.weight {
            within(&format!("queues.{name}.weight"), weight.into(), 1.0, WEIGHT_MAX.into())?;
        }
        for (key, weight) in &self.fair_weights {
            check_key("fair_weights", key, KEY_LEN_MAX)?;
            let path = format!("queues.{name}.fair_weights.{key}");
            within(&path, f64::from(*weight), 1.0, WEIGHT_MAX.into())?;
        }
        Ok(())
    }
}

impl KindSettings {
    fn check(&self, name: &str) -> Result<(), InvalidSetting> {
        check_key("kinds", name, KIND_LEN_MAX)?;
        let mut probe = crate::TaskSpec::new(crate::TaskId(0), name);
        probe.timeout_ms = self.timeout_ms;
        probe.retry = self.retry.clone().unwrap_or_default();
        probe.limits.clone_from(&self.limits);
        probe.needs.clone_from(&self.needs);
        probe.validate().map_err(|error| InvalidSetting {
            path: format!("kinds.{name}"),
            problem: format!("is not valid: {error}"),
        })?;
        if let Some(budget) = self.retry_budget {
            within(&format!("kinds.{name}.retry_budget.share"), budget.share, 0.0, 1.0)?;
            within(&format!("kinds.{name}.retry_budget.per_second"), budget.per_second, 0.0, 1e6)?;
        }
        Ok(())
    }
}

fn check_key(path: &'static str, name: &str, len_max: usize) -> Result<(), InvalidSetting> {
    check_name(path, name, len_max).map_err(|error| InvalidSetting {
        path: path.into(),
        problem: format!("has a name that is not valid: {error}"),
    })
}

fn within(path: &str, value: f64, least: f64, most: f64) -> Result<(), InvalidSetting> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(InvalidSetting {
        path: path.to_owned(),
        problem: format!("is {value}, expected {least} to {most}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    type Spoil = fn(&mut Settings);

    #[test]
    fn each_bad_setting_is_named_with_its_path() {
        let cases: Vec<(&str, Spoil)> = vec![
            ("load_balancing.thresholds.idle_threshold is 9, more than busy_threshold (5)", |s| {
                s.load_balancing.thresholds.idle_threshold = 9
            }),
            ("load_balancing.thresholds.severe_imbalance_ratio is 0.5", |s| {
                s.load_balancing.thresholds.severe_imbalance_ratio = 0.5
            }),
            ("load_balancing.thresholds.rebalance_interval_sec is NaN", |s| {
                s.load_balancing.thresholds.rebalance_interval_sec = f64::NAN
            }),
            ("load_balancing.capabilities.history_weight is 2", |s| {
                s.load_balancing.capabilities.history_weight = 2.0
            }),
            ("poison_after is 0", |s| s.poison_after = PoisonAfter(0)),
            ("limits.api limits nothing", |s| {
                s.limits.insert("api".into(), Limit::default());
            }),
            ("limits.a/b has `/`", |s| {
                s.limits.insert("a/b".into(), Limit::default());
            }),
            ("limits.api.burst needs a rate", |s| {
                let limit = Limit { burst: Some(1), concurrency: Some(1), ..Limit::default() };
                s.limits.insert("api".into(), limit);
            }),
            ("queues.q.weight is 0", |s| {
                s.queues
                    .insert("q".into(), QueueSettings { weight: Some(0), ..Default::default() });
            }),
            ("kinds.k is not valid: timeout_ms is 0", |s| {
                s.kinds
                    .insert("k".into(), KindSettings { timeout_ms: Some(0), ..Default::default() });
            }),
        ];
        for (expected, spoil) in cases {
            let mut settings = Settings::default();
            spoil(&mut settings);
            let problem = settings.check().unwrap_err().to_string();
            assert!(problem.starts_with(expected), "{problem}");
        }
        assert_eq!(Settings::default().check(), Ok(()));
    }

    #[test]
    fn a_kind_names_only_limits_that_are_defined() {
        let kind = KindSettings { limits: vec!["api/{tenant}".into()], ..Default::default() };
        let mut settings = Settings { kinds: [("k".into(), kind)].into(), ..Settings::default() };
        let problem = settings.check_names().unwrap_err().to_string();
        assert!(problem.starts_with("kinds.k.limits names `api`"), "{problem}");
        settings.limits.insert("api".into(), Limit { concurrency: Some(1), ..Limit::default() });
        assert_eq!(settings.check_names(), Ok(()));
    }

    #[test]
    fn rates_are_written_as_people_say_them() {
        for text in ["10/s", "100/m", "5000/h", "3/d"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
        for text in ["10", "x/s", "10/y", "0/s", "-1/s"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }
}
