//! What the samples mean: how much work arrives, waits and runs, and how much the workers can do.
//!
//! Work is in seconds on one slot of speed 1. The rate of arrival is the mean over the longest recent time that chance
//! alone can explain (in the manner of ADWIN, Bifet and Gavaldà 2007): steady arrivals are measured over minutes, and a
//! step is believed with the first sample after it. What chance can do is measured too: where tasks come in heaps, such
//! as the pieces of a file, a heap is not a step. Tasks that run for long are measured for as long as some of them run,
//! because that many slots are taken by what arrived in that time.
//!
//! Knows nothing of policies. Before anything has arrived there is no work; a kind of which nothing has ended yet is
//! taken to run as long as the goal lets tasks wait.

use std::collections::{BTreeMap, VecDeque};

use divvy_types::pools::{Goal, Pool};
use divvy_types::{Name, Timestamp};
use serde::{Deserialize, Serialize};

use crate::explain::{Inputs, KindInputs};
use crate::sample::{KindLoad, Sample};

/// Over how long arrivals of short tasks are measured at most.
const WINDOW_SEC: f64 = 300.0;
/// Over how many run times arrivals of long ones are, and over how long at most.
const WINDOW_RUNS: f64 = 2.0;
const WINDOW_SEC_MAX: f64 = 3_600.0;
/// Over how long it is measured how much arrivals vary, at least.
const VARIED_SEC: f64 = 900.0;
/// Over how long at least; less is chance.
const WINDOW_SEC_MIN: f64 = 10.0;
/// Samples that are kept.
const SEEN_MAX: usize = 4_000;
/// By how many standard deviations two rates differ that are not the same.
const UNLIKE: f64 = 3.0;
/// How long tasks may wait where the goal speaks of deadlines only.
const PATIENCE_SEC: f64 = 300.0;
/// The longest run time, waiting time or rate that is believed; what is longer is a broken clock.
const SOUND_MAX: f64 = 1e9;
/// The name under which requests are shown.
const REQUESTS: Name = Name::const_new("requests");

/// One sample as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Seen {
    at: Timestamp,
    /// The time since the sample before, in seconds.
    sec: f64,
    arrived: BTreeMap<Name, f64>,
    used: f64,
}

/// The recent samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Recent {
    seen: VecDeque<Seen>,
    /// Work of one request, for pools that serve requests.
    request_sec: Option<f64>,
    /// Arrivals that belong to no time yet.
    early: BTreeMap<Name, f64>,
    /// Over how long arrivals are measured at most, in seconds.
    window: f64,
    /// The mean run time of what arrived or waited last, for what is forecast while nothing does.
    run: f64,
}

/// What the latest sample means.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Load {
    pub(crate) at: Timestamp,
    /// The time since the sample before, in seconds.
    pub(crate) step: f64,
    /// Work that arrives per second.
    pub(crate) rate: f64,
    /// Over how many seconds that was measured.
    pub(crate) measured: f64,
    /// Variance of the work that arrives in one second.
    pub(crate) noise: f64,
    /// The mean run time of what arrives or waits, or did last.
    pub(crate) run: f64,
    /// Work that waits.
    pub(crate) backlog: f64,
    /// Slots that what waits needs to start in time: no task uses more than one.
    pub(crate) backlog_slots: f64,
    /// Slots that are taken by tasks too long to be waited for.
    pub(crate) taken: f64,
    /// Tasks that wait or run.
    pub(crate) open: u64,
    /// How long the oldest has waited.
    pub(crate) oldest: f64,
    /// Waiting work with a deadline: seconds left, work due until then, and tasks.
    pub(crate) due: Vec<(f64, f64, f64)>,
    /// How much of the workers is used, now and in the mean of the time that `reactive` looks at.
    pub(crate) used: f64,
    pub(crate) used_mean: f64,
    /// The 95th percentile of answer times over what the goal allows, where known.
    pub(crate) slowness: f64,
    /// How long tasks may wait.
    pub(crate) within: f64,
    pub(crate) kinds: BTreeMap<Name, KindInputs>,
}

impl Recent {
    /// Takes a sample; `capacity` is what the workers that take tasks can do per second, with `slots` slots.
    pub(crate) fn take(&mut self, pool: &Pool, sample: &Sample, capacity: f64, slots: f64) -> Load {
        let within = patience(&pool.goal);
        let step = self.seen.back().map_or(0.0, |last| sample.at.since(last.at).as_secs_f64());
        let used = used(sample, slots);
        self.learn_requests(sample, step, capacity * worked(sample, slots));
        self.keep(pool, sample, step, used);
        let mut load = Load { at: sample.at, step, used, within, ..Load::default() };
        let runs = self.runs(sample, within);
        (load.rate, load.noise, load.measured) = self.rate(&runs);
        load.used_mean = self.used_mean(sample.at, pool.thresholds.metrics_sec);
        load.slowness = sample.p95_sec.map_or(0.0, |p95| sound(p95) / within);
        let arrived = self.arrived(load.measured);
        let mut tasks = 0.0;
        for (name, (run, run_known)) in &runs {
            let kind = sample.kinds.get(name);
            let waits = kind.map_or(0, |kind| kind.waiting);
            let running = kind.map_or(0, |kind| kind.running);
            let count = arrived.get(name).copied().unwrap_or(0.0);
            let per_second = if load.measured > 0.0 { count / load.measured } else { 0.0 };
            load.backlog += waits as f64 * run;
            load.backlog_slots += waits as f64 * (run / within).min(1.0);
            if *run >= within {
                load.taken += running as f64;
            }
            load.open += waits + running;
            load.oldest = load.oldest.max(kind.map_or(0.0, |kind| sound(kind.oldest_sec)));
            load.run += run * (count + waits as f64);
            tasks += count + waits as f64;
            load.kinds.insert(
                name.clone(),
                KindInputs {
                    per_second,
                    run_sec: *run,
                    run_known: *run_known,
                    waiting: waits,
                    running,
                },
            );
            load.due.extend(kind.into_iter().flat_map(|kind| due(kind, sample.at, *run)));
        }
        if tasks > 0.0 {
            self.run = load.run / tasks;
        }
        load.run = self.run;
        accumulate(&mut load.due);
        load
    }

    /// Counts requests as arrivals, each as its part of the work that was done meanwhile.
    fn learn_requests(&mut self, sample: &Sample, step: f64, work: f64) {
        let Some(requests) = requests(sample).filter(|rate| *rate > 0.0) else { return };
        *self.early.entry(REQUESTS).or_default() += requests * step;
        let each = work / requests;
        let known = self.request_sec.unwrap_or(each);
        self.request_sec = Some(known + (each - known) * 0.1);
    }

    fn keep(&mut self, pool: &Pool, sample: &Sample, step: f64, used: f64) {
        for (name, kind) in &sample.kinds {
            if kind.arrived > 0 {
                *self.early.entry(name.clone()).or_default() += kind.arrived as f64;
            }
        }
        // Arrivals between two samples of the same time, or before the first, have no rate: they count as backlog.
        if step <= 0.0 && !self.seen.is_empty() {
            return;
        }
        let arrived = std::mem::take(&mut self.early);
        let arrived = if self.seen.is_empty() { BTreeMap::new() } else { arrived };
        self.seen.push_back(Seen { at: sample.at, sec: step, arrived, used });
        let keep = self.window.max(VARIED_SEC).max(pool.thresholds.metrics_sec) + step;
        while self.seen.len() > SEEN_MAX
            || self.seen.front().is_some_and(|old| sample.at.since(old.at).as_secs_f64() > keep)
        {
            self.seen.pop_front();
        }
    }

    /// The run time of each kind, and whether it was measured.
    fn runs(&self, sample: &Sample, within: f64) -> BTreeMap<Name, (f64, bool)> {
        let guess = within.min(PATIENCE_SEC);
        let mut runs: BTreeMap<Name, (f64, bool)> = sample
            .kinds
            .iter()
            .map(|(name, kind)| {
                let known = kind.run_sec.map(sound).filter(|run| *run > 0.0);
                (name.clone(), (known.unwrap_or(guess), known.is_some()))
            })
            .collect();
        // Requests that cost nothing are no work, and say nothing of how long tasks run.
        let each = requests(sample).and(self.request_sec).filter(|sec| *sec > 0.0);
        runs.extend(each.map(|sec| (REQUESTS, (sec, true))));
        runs
    }

    /// Work per second, its variance, and over how many seconds they were measured.
    fn rate(&mut self, runs: &BTreeMap<Name, (f64, bool)>) -> (f64, f64, f64) {
        let run = |name: &Name| runs.get(name).map_or(0.0, |(run, _)| *run);
        let longest = runs.values().map(|(run, _)| *run).fold(0.0, f64::max);
        let seen: Vec<Arrived> = self
            .seen
            .iter()
            .rev()
            .filter(|one| one.sec > 0.0)
            .map(|one| Arrived::of(one, &run))
            .collect();
        self.window = window(&seen);
        let heaps = heaps(&seen);
        let (mut sec, mut work, mut squares) = (0.0, 0.0, 0.0);
        for one in seen {
            if sec >= WINDOW_SEC_MIN {
                // One task more or less is always chance.
                let least = longest * longest;
                let spread =
                    (squares + least) / (sec * sec) + (one.squares + least) / (one.sec * one.sec);
                let apart = (work / sec - one.work / one.sec).abs();
                if sec + one.sec > self.window || apart > UNLIKE * (heaps * spread).sqrt() {
                    break;
                }
            }
            sec += one.sec;
            work += one.work;
            squares += one.squares;
        }
        if sec > 0.0 { (work / sec, squares / sec, sec) } else { (0.0, 0.0, 0.0) }
    }

    /// Tasks of each kind that arrived in the last so many seconds.
    fn arrived(&self, sec: f64) -> BTreeMap<Name, f64> {
        let mut sum: BTreeMap<Name, f64> = BTreeMap::new();
        let mut left = sec;
        for one in self.seen.iter().rev().filter(|one| one.sec > 0.0) {
            if left < one.sec * 0.5 {
                break;
            }
            left -= one.sec;
            for (name, count) in &one.arrived {
                *sum.entry(name.clone()).or_default() += count;
            }
        }
        sum
    }

    /// The work that arrived since the sample before, by the run times of `load`.
    pub(crate) fn latest_work(&self, load: &Load) -> f64 {
        let run = |name: &Name| load.kinds.get(name).map_or(0.0, |kind| kind.run_sec);
        let latest = self.seen.back().filter(|latest| latest.at == load.at);
        latest.map_or(0.0, |latest| {
            latest.arrived.iter().map(|(name, count)| count * run(name)).sum()
        })
    }

    fn used_mean(&self, now: Timestamp, sec: f64) -> f64 {
        let young = self.seen.iter().rev().take_while(|one| now.since(one.at).as_secs_f64() < sec);
        let (sum, count) =
            young.fold((0.0, 0.0), |(sum, count), one| (sum + one.used, count + 1.0));
        if count > 0.0 { sum / count } else { 0.0 }
    }
}

/// What arrived between two samples: the time, the work, and the sum of its squares, task by task.
struct Arrived {
    sec: f64,
    work: f64,
    squares: f64,
}

impl Arrived {
    fn of(seen: &Seen, run: &impl Fn(&Name) -> f64) -> Self {
        let mut sum = Self { sec: seen.sec, work: 0.0, squares: 0.0 };
        for (name, count) in &seen.arrived {
            let run = run(name);
            sum.work += count * run;
            // Run times spread as in an exponential distribution: their square has twice the square of the mean.
            sum.squares += count * run * run;
        }
        sum
    }
}

/// Over how long arrivals are measured at most: the longer, the longer an average second of work belongs to a task.
fn window(seen: &[Arrived]) -> f64 {
    let (work, squares) =
        seen.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.work, sum.1 + one.squares));
    let run = if work > 0.0 { squares / work } else { 0.0 };
    (run * WINDOW_RUNS).clamp(WINDOW_SEC, WINDOW_SEC_MAX)
}

/// How many times as much arrivals vary as tasks would that come one by one; latest first. The latest sample does not
/// count, because it is what is judged. Only neighbours are compared (von Neumann 1941), so a load that rises and falls
/// over minutes is not taken for chance.
fn heaps(seen: &[Arrived]) -> f64 {
    let (mut varied, mut single) = (0.0, 0.0);
    for pair in seen.get(1..).unwrap_or_default().windows(2) {
        let apart = pair[0].work / pair[0].sec - pair[1].work / pair[1].sec;
        varied += apart * apart;
        single += pair.iter().map(|one| one.squares / (one.sec * one.sec)).sum::<f64>();
    }
    if single > 0.0 { (varied / single).max(1.0) } else { 1.0 }
}

impl Load {
    /// What is shown of it; capacities are of the workers that stay, and of those that start.
    pub(crate) fn inputs(&self, capacity: f64, starting: f64, boot_sec: f64) -> Inputs {
        Inputs {
            kinds: self.kinds.clone(),
            work_rate: self.rate,
            measured_sec: self.measured,
            backlog_sec: self.backlog,
            capacity,
            starting,
            used: self.used,
            boot_sec,
        }
    }

    /// The capacity with which this share of tasks starts in time although arrivals come by chance, for a mean `rate`.
    ///
    /// The lesser of two known approximations of the spare capacity: that of heavy traffic (Kingman 1961), which is close
    /// where tasks are short against the time they may wait, and the square-root rule (Halfin and Whitt 1981), which is
    /// close where they are long.
    pub(crate) fn staffed(&self, rate: f64, share: f64) -> f64 {
        if rate <= 0.0 || self.rate <= 0.0 {
            return rate.max(0.0);
        }
        let noise = self.noise * rate / self.rate;
        let chance = (1.0 / (1.0 - share)).ln();
        let pull = noise * chance / (2.0 * self.within);
        let heavy = ((rate * rate + 4.0 * pull).sqrt() - rate) / 2.0;
        let root = (2.0 * chance * noise / self.run.max(1e-9)).sqrt() * 0.7;
        rate + heavy.min(root)
    }
}

/// How long tasks may wait under a goal, in seconds.
pub(crate) fn patience(goal: &Goal) -> f64 {
    match goal {
        Goal::Start { within, .. } => within.as_secs_f64().max(0.001),
        Goal::Misses { .. } => PATIENCE_SEC,
    }
}

/// The share of tasks that is to be in time.
pub(crate) fn share(goal: &Goal) -> f64 {
    match goal {
        Goal::Start { share, .. } => share.clamp(0.01, 0.9999),
        Goal::Misses { under } => (1.0 - under).clamp(0.01, 0.9999),
    }
}

/// How much of the workers is used: the fullest of processors and memory where they are known, else slots.
fn used(sample: &Sample, slots: f64) -> f64 {
    let known = [sample.cpu, sample.memory].into_iter().flatten().map(sound).reduce(f64::max);
    known.unwrap_or_else(|| worked(sample, slots)).clamp(0.0, 1.0)
}

/// How much of them works: memory is held, and not by what arrives.
fn worked(sample: &Sample, slots: f64) -> f64 {
    let by_slots = || if slots > 0.0 { f64::from(sample.busy_slots) / slots } else { 0.0 };
    sample.cpu.map(sound).unwrap_or_else(by_slots).clamp(0.0, 1.0)
}

/// Requests per second that are work. Where tasks are known, what workers do is their work, and would count twice.
fn requests(sample: &Sample) -> Option<f64> {
    sample.requests_per_second.filter(|_| sample.kinds.is_empty()).map(sound)
}

fn due(kind: &KindLoad, now: Timestamp, run: f64) -> impl Iterator<Item = (f64, f64, f64)> + '_ {
    kind.due.iter().map(move |due| {
        let left = due.at.since(now).as_secs_f64();
        (left, due.tasks as f64 * run, due.tasks as f64)
    })
}

/// Turns work that is due at a time into work that is due until a time.
fn accumulate(due: &mut [(f64, f64, f64)]) {
    due.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut work, mut tasks) = (0.0, 0.0);
    for one in due {
        work += one.1;
        tasks += one.2;
        (one.1, one.2) = (work, tasks);
    }
}

/// A number from outside that is surely finite and not below zero.
pub(crate) fn sound(value: f64) -> f64 {
    if value.is_finite() { value.clamp(0.0, SOUND_MAX) } else { 0.0 }
}
