//! Pools of workers and what is wanted of them: how many at least and at most, of which types, at what price, towards
//! which goal. A section of [`crate::Settings`]; `divvy-autoscale` decides with it, a driver carries it out.
//!
//! Data and its checks only.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Name;
use crate::limits::{CAPABILITY_LEN_MAX, KIND_LEN_MAX, QUEUE_LEN_MAX};
use crate::settings::InvalidSetting;
use crate::spec::check_name;

/// Workers of one pool.
pub const WORKERS_MAX: u32 = 10_000;
/// Types of workers of one pool.
pub const WORKER_TYPES_MAX: usize = 16;
/// Slots of a worker process that the server's side starts, so that what follows from them (64 tasks that mostly wait for
/// each) stays within what a worker may take.
pub const LOCAL_SLOTS_MAX: u32 = 512;
/// Kinds, queues or capabilities that one pool lists.
const POOL_NAMES_MAX: usize = 1_000;
/// Arguments of a command.
const COMMAND_WORDS_MAX: usize = 256;
/// The longest time in the settings of a pool: a day.
const POOL_SEC_MAX: f64 = 86_400.0;
/// The highest price, speed or power; far above anything real, so that sums stay exact.
const POOL_NUMBER_MAX: f64 = 1e9;

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
    /// What use of the workers is right; for the policies that look at it.
    pub thresholds: UseThresholds,
    /// The share of the workers that is not spot, where there are types of both sorts, from 0 to 1.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.0, max = 1.0)))]
    pub on_demand: f64,
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
            thresholds: UseThresholds::default(),
            on_demand: 0.3,
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

/// What use of the workers is right, in percent: of their processors where that is known, else of their slots.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct UseThresholds {
    /// What is aimed at.
    pub target_cpu: f64,
    /// Above it there are too few workers; for `reactive`.
    pub scale_up: f64,
    /// Below it there are too many; for `reactive`.
    pub scale_down: f64,
    /// The time after a change in which `reactive` makes no other.
    pub cool_down_sec: f64,
    /// Over how long `reactive` takes the mean.
    pub metrics_sec: f64,
}

impl Default for UseThresholds {
    fn default() -> Self {
        Self {
            target_cpu: 70.0,
            scale_up: 80.0,
            scale_down: 40.0,
            cool_down_sec: 180.0,
            metrics_sec: 300.0,
        }
    }
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

impl Pool {
    /// Its types of workers; where none is given, the one that this means.
    pub fn worker_types(&self) -> Vec<WorkerType> {
        if self.types.is_empty() { vec![WorkerType::default()] } else { self.types.clone() }
    }

    /// Checks every field; `name` is what the pool is called, for the paths in errors.
    pub fn check(&self, name: &str) -> Result<(), InvalidSetting> {
        let path = |field: &str| format!("pools.{name}.{field}");
        if let Err(error) = check_name("pools", name, QUEUE_LEN_MAX) {
            return refuse("pools", format!("has a name that is not valid: {error}"));
        }
        self.driver.check(&path("driver"))?;
        check_names(&path("kinds"), &self.kinds, KIND_LEN_MAX)?;
        check_names(&path("queues"), &self.queues, QUEUE_LEN_MAX)?;
        check_names(&path("capabilities"), &self.capabilities, CAPABILITY_LEN_MAX)?;
        within(&path("max"), self.max.into(), 1.0, WORKERS_MAX.into())?;
        if self.min > self.max {
            let problem =
                format!("is {}, more than max ({}); lower min or raise max", self.min, self.max);
            return refuse(path("min"), problem);
        }
        self.check_types(&path("types"))?;
        self.goal.check(&path("goal"))?;
        self.thresholds.check(&path("thresholds"))?;
        within(&path("on_demand"), self.on_demand, 0.0, 1.0)?;
        self.up.check(&path("up"))?;
        self.down.check(&path("down"))?;
        self.check_budget(&path("budget"))
    }

    fn check_types(&self, path: &str) -> Result<(), InvalidSetting> {
        within(path, self.types.len() as f64, 0.0, WORKER_TYPES_MAX as f64)?;
        for (place, one) in self.types.iter().enumerate() {
            let path = format!("{path}[{place}]");
            one.check(&path)?;
            if self.driver == Driver::Local && one.slots > LOCAL_SLOTS_MAX {
                let problem = format!(
                    "is {}, and a worker process of the driver `local` has at most {LOCAL_SLOTS_MAX}; lower it and raise max",
                    one.slots
                );
                return refuse(format!("{path}.slots"), problem);
            }
            if self.types.iter().take(place).any(|earlier| earlier.name == one.name) {
                let problem = format!("is `{}` again; give each type its own name", one.name);
                return refuse(format!("{path}.name"), problem);
            }
        }
        Ok(())
    }

    fn check_budget(&self, path: &str) -> Result<(), InvalidSetting> {
        let cheapest =
            self.types.iter().map(|one| one.price_hour).fold(f64::INFINITY, f64::min).min(1e18);
        let least = if self.types.is_empty() { 0.0 } else { cheapest * f64::from(self.min) };
        for (field, amount, hours) in
            [("hour", self.budget.hour, 1.0), ("month", self.budget.month, 720.0)]
        {
            let Some(amount) = amount else { continue };
            let path = format!("{path}.{field}");
            money(&path, amount)?;
            if least * hours > amount {
                let problem = format!(
                    "is {amount}, but the minimum of {} workers alone costs {}; raise it or lower min",
                    self.min,
                    least * hours
                );
                return refuse(path, problem);
            }
        }
        self.budget.late_task.map_or(Ok(()), |late| money(&format!("{path}.late_task"), late))
    }
}

impl Driver {
    fn check(&self, path: &str) -> Result<(), InvalidSetting> {
        match self {
            Self::Local | Self::Print => Ok(()),
            Self::Exec { command } => {
                let path = format!("{path}.exec.command");
                if command.first().is_none_or(|program| program.trim().is_empty()) {
                    return refuse(path, "is empty; name the program first, then its arguments");
                }
                within(&path, command.len() as f64, 1.0, COMMAND_WORDS_MAX as f64)
            }
            Self::Kubernetes { url, namespace, resource, name } => {
                let path = |field: &str| format!("{path}.kubernetes.{field}");
                for (field, text) in [("namespace", namespace), ("name", name)] {
                    let sound = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
                    if text.is_empty()
                        || text.len() > 253
                        || !text.chars().all(|c| sound(c) || c == '.')
                    {
                        let problem = format!(
                            "is `{text}`, which Kubernetes cannot have; use a-z, 0-9, `-` and `.`"
                        );
                        return refuse(path(field), problem);
                    }
                }
                if !["deployments", "statefulsets", "replicasets"].contains(&resource.as_str()) {
                    let problem = format!(
                        "is `{resource}`, expected deployments, statefulsets or replicasets"
                    );
                    return refuse(path("resource"), problem);
                }
                match url {
                    Some(url) if !url.starts_with("https://") && !url.starts_with("http://") => {
                        refuse(path("url"), format!("is `{url}`; begin it with https://"))
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

impl WorkerType {
    fn check(&self, path: &str) -> Result<(), InvalidSetting> {
        let field = |field: &str| format!("{path}.{field}");
        if let Err(error) = check_name("name", &self.name, QUEUE_LEN_MAX) {
            return refuse(path, format!("is not valid: {error}"));
        }
        within(&field("slots"), self.slots.into(), 1.0, 10_000.0)?;
        within(&field("speed"), self.speed, 0.001, 1_000.0)?;
        money(&field("price_hour"), self.price_hour)?;
        within(&field("boot_sec"), self.boot_sec, 0.0, POOL_SEC_MAX)?;
        within(&field("billing_sec"), self.billing_sec, 0.0, POOL_SEC_MAX)?;
        for (name, watts) in [("watts_idle", self.watts_idle), ("watts_busy", self.watts_busy)] {
            watts.map_or(Ok(()), |watts| within(&field(name), watts, 0.0, POOL_NUMBER_MAX))?;
        }
        match (self.watts_idle, self.watts_busy) {
            (Some(idle), Some(busy)) if idle > busy => {
                let problem = format!("is {idle}, more than watts_busy ({busy}); exchange them");
                refuse(field("watts_idle"), problem)
            }
            _ => Ok(()),
        }
    }
}

impl Goal {
    fn check(&self, path: &str) -> Result<(), InvalidSetting> {
        let share = match self {
            Self::Start { share, within: time } => {
                within(path, time.as_secs_f64(), 0.001, POOL_SEC_MAX * 30.0)?;
                share
            }
            Self::Misses { under } => under,
        };
        if *share > 0.0 && *share < 1.0 {
            return Ok(());
        }
        refuse(path, format!("has a share of {share}; write one between 0 and 100 %"))
    }
}

impl UseThresholds {
    fn check(&self, path: &str) -> Result<(), InvalidSetting> {
        let field = |field: &str| format!("{path}.{field}");
        within(&field("target_cpu"), self.target_cpu, 1.0, 100.0)?;
        within(&field("scale_up"), self.scale_up, 1.0, 100.0)?;
        within(&field("scale_down"), self.scale_down, 0.0, 100.0)?;
        if self.scale_down >= self.scale_up {
            let problem = format!(
                "is {}, not under scale_up ({}); the workers would go up and down for ever",
                self.scale_down, self.scale_up
            );
            return refuse(field("scale_down"), problem);
        }
        within(&field("cool_down_sec"), self.cool_down_sec, 0.0, POOL_SEC_MAX)?;
        within(&field("metrics_sec"), self.metrics_sec, 1.0, 3_600.0)
    }
}

impl Pace {
    fn check(&self, path: &str) -> Result<(), InvalidSetting> {
        if self.step == Some(0) {
            let problem = "is 0, which lets nothing change; pause the scaling instead";
            return refuse(format!("{path}.step"), problem);
        }
        within(&format!("{path}.cool_down_sec"), self.cool_down_sec, 0.0, POOL_SEC_MAX)?;
        within(&format!("{path}.window_sec"), self.window_sec, 0.0, 3_600.0)
    }
}

fn check_names(path: &str, names: &[Name], len_max: usize) -> Result<(), InvalidSetting> {
    within(path, names.len() as f64, 0.0, POOL_NAMES_MAX as f64)?;
    for name in names {
        if let Err(error) = check_name("name", name, len_max) {
            return refuse(path, format!("lists `{name}`, which is not valid: {error}"));
        }
    }
    Ok(())
}

fn money(path: &str, amount: f64) -> Result<(), InvalidSetting> {
    if amount < 0.0 {
        return refuse(path, format!("is {amount}; what it costs cannot be below 0"));
    }
    within(path, amount, 0.0, POOL_NUMBER_MAX)
}

fn within(path: &str, value: f64, least: f64, most: f64) -> Result<(), InvalidSetting> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    refuse(path, format!("is {value}, expected {least} to {most}"))
}

fn refuse(path: impl Into<String>, problem: impl Into<String>) -> Result<(), InvalidSetting> {
    Err(InvalidSetting { path: path.into(), problem: problem.into() })
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

    type Spoil = fn(&mut Pool);

    fn sound() -> Pool {
        Pool {
            types: vec![WorkerType { price_hour: 0.1, ..WorkerType::default() }],
            ..Pool::default()
        }
    }

    #[test]
    fn each_bad_field_is_named_with_its_path_and_the_cure() {
        let cases: Vec<(&str, Spoil)> = vec![
            ("pools.p.min is 11, more than max (10); lower min", |p| p.min = 11),
            ("pools.p.max is 0, expected 1 to 10000", |p| p.max = 0),
            ("pools.p.types[0].price_hour is -1; what it costs cannot be below 0", |p| {
                p.types[0].price_hour = -1.0
            }),
            ("pools.p.types[0].price_hour is NaN", |p| p.types[0].price_hour = f64::NAN),
            ("pools.p.types[0].slots is 0", |p| p.types[0].slots = 0),
            ("pools.p.types[0].slots is 513, and a worker process of the driver `local`", |p| {
                (p.driver, p.types[0].slots) = (Driver::Local, 513)
            }),
            ("pools.p.types[0].speed is 0", |p| p.types[0].speed = 0.0),
            ("pools.p.types[0].boot_sec is -5", |p| p.types[0].boot_sec = -5.0),
            ("pools.p.types[0].watts_idle is 9, more than watts_busy (5)", |p| {
                (p.types[0].watts_idle, p.types[0].watts_busy) = (Some(9.0), Some(5.0))
            }),
            ("pools.p.types[1].name is `worker` again", |p| p.types.push(p.types[0].clone())),
            ("pools.p.driver.exec.command is empty; name the program", |p| {
                p.driver = Driver::Exec { command: vec![] }
            }),
            ("pools.p.driver.kubernetes.resource is `pods`", |p| {
                p.driver = Driver::Kubernetes {
                    url: None,
                    namespace: "n".into(),
                    resource: "pods".into(),
                    name: "w".into(),
                }
            }),
            ("pools.p.kinds lists ``", |p| p.kinds.push("".into())),
            ("pools.p.goal has a share of 1", |p| p.goal = Goal::Misses { under: 1.0 }),
            ("pools.p.thresholds.scale_down is 90, not under scale_up (80)", |p| {
                p.thresholds.scale_down = 90.0
            }),
            ("pools.p.on_demand is 2", |p| p.on_demand = 2.0),
            ("pools.p.up.step is 0", |p| p.up.step = Some(0)),
            ("pools.p.down.window_sec is inf", |p| p.down.window_sec = f64::INFINITY),
            ("pools.p.budget.hour is 0.5, but the minimum of 9 workers alone costs 0.9", |p| {
                (p.min, p.budget.hour) = (9, Some(0.5))
            }),
            ("pools.p.budget.late_task is -1", |p| p.budget.late_task = Some(-1.0)),
        ];
        for (expected, spoil) in cases {
            let mut pool = sound();
            spoil(&mut pool);
            let problem = pool.check("p").unwrap_err().to_string();
            assert!(problem.starts_with(expected), "{problem}");
        }
        assert_eq!((sound().check("p"), Pool::default().check("p")), (Ok(()), Ok(())));
        assert!(sound().check("").is_err());
    }
}
