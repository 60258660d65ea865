//! Decides what a plan asks: what comes, how much work it is, what is wanted, what workers cost.
//!
//! Data and its checks; read from a file by the command line. Units stand in the names: seconds, gigabytes of 10⁹
//! bytes, percent from 0 to 100, money per hour or per month of 30 days. [`Plan::check`] refuses what makes no sense,
//! with the path of the field and what to write instead.

use std::collections::BTreeMap;

use divvy_types::Name;
use divvy_types::limits::{AFTER_MAX, CREDIT_MAX};
use divvy_types::pools::WorkerType;
use serde::{Deserialize, Serialize};

/// Tasks in one simulation at most: more would take longer than anyone waits.
const TASKS_MAX: f64 = 3_000_000.0;
/// Days that are simulated at most.
const DAYS_MAX: f64 = 31.0;
/// Seeds at most.
const SEEDS_MAX: u32 = 100;
/// Entries of each list at most.
const ENTRIES_MAX: usize = 100;
/// Hours of a day.
pub(super) const HOURS: usize = 24;

/// What a plan asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What it is about, in a few words.
    #[serde(default)]
    pub title: String,
    /// What one arrival is called, such as `video`.
    #[serde(default = "item")]
    pub item: String,
    /// When items come.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// How large they are; where nothing is said, all are of one gigabyte.
    #[serde(default = "one_size")]
    pub sizes: Vec<SizeClass>,
    /// What is done with each, and how long that takes.
    #[serde(default)]
    pub stages: Vec<Stage>,
    /// What is to be reached.
    pub goal: Goal,
    /// The share of items of priority users, in percent.
    #[serde(default)]
    pub priority: f64,
    /// What workers there can be.
    pub workers: Vec<Worker>,
    /// What the workers may cost in a month of 30 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_month: Option<f64>,
    /// A fixed fleet to judge beside the cheapest one: how many of which type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fleet: BTreeMap<Name, u32>,
    /// Days that are simulated.
    #[serde(default = "days")]
    pub days: f64,
    /// How many seeds the answer is tried with.
    #[serde(default = "seeds")]
    pub seeds: u32,
    /// What else is assumed, in the words of whoever wrote it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<String>,
}

/// When items come: so many per hour, or as a trace says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Arrivals {
    /// In every hour, or in each of the 24 hours of a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_hour: Option<PerHour>,
    /// The file of a trace, beside the plan: in each line a second and how many came from then until the next line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// At equal distances rather than at random.
    pub evenly: bool,
    /// What the trace says.
    #[serde(skip)]
    pub counts: Vec<Count>,
}

/// How many come in an hour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PerHour {
    /// Always the same.
    Same(f64),
    /// By the hour of the day.
    OfDay(Vec<f64>),
}

/// A line of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    /// From when, in seconds.
    pub from_sec: f64,
    /// Until when.
    pub to_sec: f64,
    /// How many come.
    pub items: f64,
}

/// Items of alike sizes: between two, spread evenly over orders of magnitude, or around a mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SizeClass {
    /// Their share, in percent.
    pub share: f64,
    /// The smallest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_gb: Option<f64>,
    /// The largest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_gb: Option<f64>,
    /// The mean, where nothing more is known: small ones are many, large ones few (exponential).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_gb: Option<f64>,
}

/// Work that every item needs: the seconds that a slot of speed 1 takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stage {
    /// What it is called: the kind of its tasks.
    pub name: Name,
    /// Seconds that a task takes whatever the size.
    pub sec: f64,
    /// Seconds for each gigabyte of the item.
    pub sec_per_gb: f64,
    /// Items are cut into pieces of at most this size, which run side by side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub piece_gb: Option<f64>,
    /// So many tasks side by side, each over the whole item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u32>,
    /// How far times vary around this: the standard deviation in percent.
    pub spread: f64,
    /// The share of items that have it, in percent; all of them if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Whether its tasks take no slot, because they mostly wait.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub light: bool,
    /// Stages that must be done before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Name>,
}

/// What is to be reached: this share of items is done within this time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// The share, in percent.
    pub percentile: f64,
    /// From arrival to done.
    pub within_sec: f64,
    /// Whether items carry this time as their deadline, so that those that came first go first. Without, whatever became
    /// ready first does: the tasks of all items that are there take turns.
    #[serde(default = "yes")]
    pub deadline: bool,
}

/// A type of worker that can be had: what [`WorkerType`] says of it, and what a plan has to know besides. Not one inside
/// the other, because then a field that nobody knows would not be refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Worker {
    /// What it is called.
    pub name: Name,
    /// Tasks that it runs at once.
    pub slots: u32,
    /// How fast it is; 1 takes the seconds of the stages.
    pub speed: f64,
    /// What it costs, in money per hour.
    pub price_hour: f64,
    /// From asking for it until it takes tasks.
    pub boot_sec: f64,
    /// What is paid for at least, once it was started.
    pub billing_sec: f64,
    /// Whether its owner may take it away.
    pub spot: bool,
    /// How often each is taken away, in an hour.
    pub interruptions_hour: f64,
    /// How long before it is told.
    pub notice_sec: f64,
    /// How many there are always.
    pub min: u32,
    /// How many there can be.
    pub max: u32,
}

impl Default for Worker {
    fn default() -> Self {
        let usual = WorkerType::default();
        Self {
            name: Name::default(),
            slots: usual.slots,
            speed: usual.speed,
            price_hour: usual.price_hour,
            boot_sec: usual.boot_sec,
            billing_sec: usual.billing_sec,
            spot: usual.spot,
            interruptions_hour: 0.0,
            notice_sec: 120.0,
            min: 0,
            max: 1_000,
        }
    }
}

/// A field that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}; {cure}")]
pub struct Wrong {
    /// The path of the field, with dots.
    pub path: String,
    /// What is wrong.
    pub problem: String,
    /// What to write instead.
    pub cure: String,
}

fn item() -> String {
    "item".into()
}

fn one_size() -> Vec<SizeClass> {
    vec![SizeClass { share: 100.0, from_gb: Some(1.0), to_gb: Some(1.0), mean_gb: None }]
}

fn yes() -> bool {
    true
}

fn days() -> f64 {
    2.0
}

fn seeds() -> u32 {
    3
}

type Checked = Result<(), Wrong>;

fn wrong<T>(path: impl Into<String>, problem: impl Into<String>, cure: &str) -> Result<T, Wrong> {
    Err(Wrong { path: path.into(), problem: problem.into(), cure: cure.into() })
}

/// Refuses a number below zero, or none at all.
fn amount(path: &str, value: f64) -> Checked {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    wrong(path, format!("{value} is not an amount"), "write a number from 0 on")
}

fn percent(path: &str, value: f64) -> Checked {
    if (0.0..=100.0).contains(&value) {
        return Ok(());
    }
    wrong(path, format!("{value} is not a share in percent"), "write a number from 0 to 100")
}

impl Plan {
    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn check(&self) -> Checked {
        if !(0.02..=DAYS_MAX).contains(&self.days) {
            let problem = format!("{} days cannot be simulated", self.days);
            return wrong("days", problem, "write 0.02 to 31");
        }
        if !(1..=SEEDS_MAX).contains(&self.seeds) {
            return wrong("seeds", format!("{} is out of range", self.seeds), "write 1 to 100");
        }
        self.arrivals.check()?;
        self.check_sizes()?;
        self.check_stages()?;
        self.check_goal()?;
        percent("priority", self.priority)?;
        self.check_workers()?;
        if let Some(budget) = self.budget_month {
            amount("budget_month", budget)?;
        }
        self.check_fleet()?;
        let tasks = self.items() * self.tasks_per_item();
        if tasks > TASKS_MAX {
            let problem =
                format!("{tasks:.0} tasks in {} days are too many to simulate", self.days);
            return wrong("days", problem, "plan fewer days, or cut items into larger pieces");
        }
        Ok(())
    }

    fn check_sizes(&self) -> Checked {
        entries("sizes", self.sizes.len())?;
        for (place, class) in self.sizes.iter().enumerate() {
            let path = format!("sizes.{place}");
            percent(&format!("{path}.share"), class.share)?;
            let sizes = [class.from_gb, class.to_gb, class.mean_gb];
            for size in sizes.into_iter().flatten() {
                if !(size.is_finite() && (1e-9..=1e6).contains(&size)) {
                    let problem = format!("{size} GB is not a size of an item");
                    return wrong(path, problem, "write gigabytes above 0");
                }
            }
            match sizes {
                [Some(from), Some(to), None] if from > to => {
                    let problem = format!("from_gb {from} is above to_gb {to}");
                    return wrong(path, problem, "write the smaller size first");
                }
                [Some(_), Some(_), None] | [None, None, Some(_)] => {}
                _ => {
                    let cure = "write from_gb and to_gb, or mean_gb alone";
                    return wrong(path, "the sizes are not said, or twice", cure);
                }
            }
        }
        let sum: f64 = self.sizes.iter().map(|class| class.share).sum();
        if (sum - 100.0).abs() > 0.01 {
            let problem = format!("the shares add up to {sum} %");
            return wrong("sizes", problem, "let them add up to 100");
        }
        Ok(())
    }

    fn check_stages(&self) -> Checked {
        if self.stages.is_empty() {
            let cure = "write stages, or measure them with --calibrate FILE, or take them with --from-history";
            return wrong("stages", "what is done with an item is not said", cure);
        }
        entries("stages", self.stages.len())?;
        for (place, stage) in self.stages.iter().enumerate() {
            let path = format!("stages.{place}");
            stage.check(&path, &self.stages[..place])?;
            let pieces = stage.piece_gb.map_or(0.0, |piece| self.largest_gb() / piece);
            if pieces > AFTER_MAX as f64 {
                let problem = format!(
                    "{} cuts the largest item into {pieces:.0} pieces, at most {AFTER_MAX}",
                    stage.name
                );
                return wrong(path, problem, "write a larger piece_gb");
            }
        }
        let work = |stage: &Stage| stage.in_slots() * (stage.sec + stage.sec_per_gb);
        if self.stages.iter().map(work).sum::<f64>() <= 0.0 {
            let cure = "give a stage that is not light sec or sec_per_gb, or measure them with --calibrate FILE";
            return wrong("stages", "there is no work for slots in them", cure);
        }
        Ok(())
    }

    fn check_goal(&self) -> Checked {
        let Goal { percentile, within_sec, .. } = self.goal;
        percent("goal.percentile", percentile)?;
        if percentile <= 0.0 || percentile >= 100.0 {
            let problem = format!("{percentile} cannot be planned for");
            let cure = "write a number between 0 and 100, such as 95; nothing holds for all items";
            return wrong("goal.percentile", problem, cure);
        }
        if !(within_sec > 0.0 && within_sec <= 30.0 * 86_400.0) {
            let problem = format!("{within_sec} seconds is no time to be done within");
            return wrong("goal.within_sec", problem, "write seconds above 0, at most 30 days");
        }
        Ok(())
    }

    fn check_workers(&self) -> Checked {
        entries("workers", self.workers.len())?;
        for (place, worker) in self.workers.iter().enumerate() {
            let path = format!("workers.{place}");
            if self.workers[..place].iter().any(|other| other.name == worker.name) {
                let problem = format!("{} is there twice", worker.name);
                return wrong(path, problem, "give each type a name of its own");
            }
            worker.check(&path)?;
        }
        Ok(())
    }

    fn check_fleet(&self) -> Checked {
        for (name, count) in &self.fleet {
            if self.worker(name).is_none() {
                let known: Vec<&str> = self.workers.iter().map(|w| w.name.as_str()).collect();
                let problem = format!("there is no worker type `{name}`");
                let cure = format!("the types are: {}", known.join(", "));
                return wrong(format!("fleet.{name}"), problem, &cure);
            }
            if *count == 0 || *count > 100_000 {
                let problem = format!("{count} workers are no fleet");
                return wrong(format!("fleet.{name}"), problem, "write 1 to 100000");
            }
        }
        Ok(())
    }

    /// The type of this name.
    pub fn worker(&self, name: &str) -> Option<&Worker> {
        self.workers.iter().find(|worker| worker.name == name)
    }

    /// The size of the largest item; of an exponential class, one that hardly ever comes.
    pub(super) fn largest_gb(&self) -> f64 {
        let most =
            |class: &SizeClass| class.to_gb.or_else(|| class.mean_gb.map(|mean| mean * 15.0));
        self.sizes.iter().filter_map(most).fold(0.0, f64::max)
    }

    /// The mean size.
    pub fn mean_gb(&self) -> f64 {
        self.sizes.iter().map(|class| class.share / 100.0 * class.mean()).sum()
    }

    /// The work of an average item, in seconds of a slot of speed 1.
    pub fn work_sec(&self) -> f64 {
        let size = self.mean_gb();
        let one = |stage: &Stage| {
            let tasks = f64::from(stage.tasks.unwrap_or(1));
            let pieces = stage.piece_gb.map_or(1.0, |piece| self.mean_pieces(piece));
            stage.in_slots() * tasks * (stage.sec * pieces + stage.sec_per_gb * size)
        };
        self.stages.iter().map(one).sum()
    }

    /// Tasks of an average item.
    pub fn tasks_per_item(&self) -> f64 {
        let one = |stage: &Stage| {
            let pieces = stage.piece_gb.map_or(1.0, |piece| self.mean_pieces(piece));
            stage.share() * pieces * f64::from(stage.tasks.unwrap_or(1))
        };
        self.stages.iter().map(one).sum()
    }

    /// Items that are expected in the time that is simulated.
    pub fn items(&self) -> f64 {
        self.rates().iter().map(|rate| rate.items()).sum()
    }

    /// The time in which items come, in seconds.
    pub fn horizon_sec(&self) -> f64 {
        match self.arrivals.counts.last() {
            Some(last) => last.to_sec,
            None => self.days * 86_400.0,
        }
    }

    /// How many come when.
    pub(super) fn rates(&self) -> Vec<Count> {
        let Some(per_hour) = &self.arrivals.per_hour else { return self.arrivals.counts.clone() };
        let end = self.horizon_sec();
        let hours = (end / 3_600.0).ceil() as usize;
        let one = |hour: usize| {
            let from_sec = hour as f64 * 3_600.0;
            let to_sec = (from_sec + 3_600.0).min(end);
            let items = per_hour.of(hour % HOURS) * (to_sec - from_sec) / 3_600.0;
            Count { from_sec, to_sec, items }
        };
        (0..hours).map(one).collect()
    }

    /// Pieces of an average item, from quantiles of the sizes.
    fn mean_pieces(&self, piece_gb: f64) -> f64 {
        const STEPS: u32 = 200;
        let of_class = |class: &SizeClass| {
            let at = |step: u32| class.quantile((f64::from(step) + 0.5) / f64::from(STEPS));
            let pieces = (0..STEPS).map(|step| (at(step) / piece_gb).ceil().max(1.0));
            class.share / 100.0 * pieces.sum::<f64>() / f64::from(STEPS)
        };
        self.sizes.iter().map(of_class).sum()
    }
}

impl Arrivals {
    fn check(&self) -> Checked {
        let given = (&self.per_hour, &self.trace, self.counts.is_empty());
        match given {
            (Some(PerHour::OfDay(hours)), None, true) if hours.len() != HOURS => {
                let problem = format!("the list has {} hours", hours.len());
                let cure = "write one number, or 24 of them, from midnight on";
                wrong("arrivals.per_hour", problem, cure)
            }
            (Some(per_hour), None, true) => {
                let rates = (0..HOURS).map(|hour| per_hour.of(hour));
                rates.clone().try_for_each(|rate| amount("arrivals.per_hour", rate))?;
                let cure = "write how many come in an hour, above 0";
                match rates.sum::<f64>() > 0.0 {
                    true => Ok(()),
                    false => wrong("arrivals.per_hour", "nothing ever comes", cure),
                }
            }
            (None, Some(_), false) | (None, None, false) => {
                match self.counts.iter().map(|count| count.items).sum::<f64>() > 0.0 {
                    true => Ok(()),
                    false => {
                        let cure = "give a trace with a count above 0";
                        wrong("arrivals.trace", "nothing ever comes in it", cure)
                    }
                }
            }
            _ => {
                let cure = "write per_hour or trace, or take them with --from-history";
                wrong("arrivals", "how many come is not said, or twice", cure)
            }
        }
    }
}

impl PerHour {
    /// How many come in this hour of the day.
    pub fn of(&self, hour: usize) -> f64 {
        match self {
            Self::Same(count) => *count,
            Self::OfDay(counts) => counts.get(hour).copied().unwrap_or(0.0),
        }
    }
}

impl Count {
    pub(super) fn items(&self) -> f64 {
        self.items
    }

    /// Items in a second.
    pub(super) fn per_sec(&self) -> f64 {
        self.items / (self.to_sec - self.from_sec)
    }
}

impl SizeClass {
    /// The size that this share of the class stays below.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        match (self.from_gb, self.to_gb, self.mean_gb) {
            (Some(from), Some(to), _) => from * (to / from).powf(share),
            (_, _, Some(mean)) => -mean * (1.0 - share).max(1e-12).ln(),
            _ => 0.0,
        }
    }

    fn mean(&self) -> f64 {
        match (self.from_gb, self.to_gb, self.mean_gb) {
            (Some(from), Some(to), _) if to > from => (to - from) / (to / from).ln(),
            (Some(from), ..) => from,
            (_, _, mean) => mean.unwrap_or(0.0),
        }
    }
}

impl Stage {
    /// The share of items that have it, from 0 to 1.
    pub(super) fn share(&self) -> f64 {
        self.share.unwrap_or(100.0) / 100.0
    }

    /// The part of an item's tasks that takes slots: its share, or nothing.
    fn in_slots(&self) -> f64 {
        if self.light { 0.0 } else { self.share() }
    }

    fn check(&self, path: &str, before: &[Self]) -> Checked {
        if self.name.is_empty() {
            return wrong(path, "a stage has no name", "write name: and a word");
        }
        if before.iter().any(|other| other.name == self.name) {
            let problem = format!("{} is there twice", self.name);
            return wrong(path, problem, "give each stage a name of its own");
        }
        for (field, value) in [("sec", self.sec), ("sec_per_gb", self.sec_per_gb)] {
            amount(&format!("{path}.{field}"), value)?;
        }
        if let Some(share) = self.share {
            percent(&format!("{path}.share"), share)?;
        }
        if !(0.0..=300.0).contains(&self.spread) {
            let problem = format!("a spread of {} % cannot be drawn", self.spread);
            return wrong(format!("{path}.spread"), problem, "write 0 to 300");
        }
        if self.piece_gb.is_some_and(|piece| !(piece.is_finite() && piece > 0.0)) {
            let cure = "write gigabytes above 0, or leave it away";
            return wrong(format!("{path}.piece_gb"), "items cannot be cut so", cure);
        }
        if self.tasks.is_some_and(|tasks| tasks == 0 || tasks > 100) {
            return wrong(format!("{path}.tasks"), "so many cannot run", "write 1 to 100");
        }
        for name in &self.after {
            if !before.iter().any(|other| other.name == *name) {
                let problem =
                    format!("{} waits for `{name}`, which is no stage above it", self.name);
                return wrong(format!("{path}.after"), problem, "name stages that stand above it");
            }
        }
        Ok(())
    }
}

impl Worker {
    fn check(&self, path: &str) -> Checked {
        if self.name.is_empty() {
            return wrong(path, "a type of worker has no name", "write name: and a word");
        }
        let name = &self.name;
        for (field, value) in [
            ("price_hour", self.price_hour),
            ("boot_sec", self.boot_sec),
            ("billing_sec", self.billing_sec),
            ("interruptions_hour", self.interruptions_hour),
            ("notice_sec", self.notice_sec),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                let problem = format!("{name} has {value}");
                return wrong(format!("{path}.{field}"), problem, "write a number from 0 on");
            }
        }
        if !(0.01..=100.0).contains(&self.speed) {
            let problem = format!("{name} has {}", self.speed);
            return wrong(
                format!("{path}.speed"),
                problem,
                "write 0.01 to 100; 1 is the usual one",
            );
        }
        if self.slots == 0 || self.slots > CREDIT_MAX {
            let problem = format!("{name} has {}", self.slots);
            return wrong(format!("{path}.slots"), problem, "write 1 to 65536");
        }
        if self.max == 0 || self.max > 100_000 {
            let problem = format!("{name} has {}", self.max);
            return wrong(format!("{path}.max"), problem, "write 1 to 100000");
        }
        if self.min > self.max {
            let problem = format!("{name} has a min of {} above its max of {}", self.min, self.max);
            return wrong(format!("{path}.min"), problem, "write a min that is at most the max");
        }
        if self.interruptions_hour > 0.0 && !self.spot {
            let problem = format!("{name} is taken away but is no spot worker");
            return wrong(format!("{path}.interruptions_hour"), problem, "write spot: true too");
        }
        Ok(())
    }

    /// The same for the autoscaler.
    pub(super) fn as_type(&self) -> WorkerType {
        WorkerType {
            name: self.name.clone(),
            slots: self.slots,
            speed: self.speed,
            price_hour: self.price_hour,
            boot_sec: self.boot_sec,
            billing_sec: self.billing_sec,
            spot: self.spot,
            ..WorkerType::default()
        }
    }

    /// Work that it does in a second.
    pub(super) fn power(&self) -> f64 {
        f64::from(self.slots) * self.speed
    }
}

fn entries(path: &str, count: usize) -> Checked {
    match count {
        0 => wrong(path, "the list is empty", "write at least one entry"),
        1..=ENTRIES_MAX => Ok(()),
        _ => wrong(path, format!("{count} entries are too many"), "write at most 100"),
    }
}
