//! Decides what a plan is answered with: the first guess, the cheapest fleet, what it does, what it costs, what could
//! change that.

use std::collections::BTreeMap;

use divvy_types::Name;
use divvy_types::pools::Policy;
use serde::Serialize;

use super::input::{Plan, Wrong};
use super::play::{MONTH_HOURS, Played, quantile};
use super::search::{Search, finite};
use crate::experiment::Progress;

/// The 97.5th percentile of Student's distribution (1908) with 1 degree of freedom and more, as in published tables.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// A fleet.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fleet {
    /// So many of each type, always.
    Fixed(BTreeMap<Name, u32>),
    /// As many as the autoscaler wants.
    Scaled(Scaled),
}

/// A fleet that the autoscaler starts and stops.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scaled {
    /// Of which types.
    pub types: Vec<Name>,
    /// How many at least: the base.
    pub min: u32,
    /// How many at most.
    pub max: u32,
    /// How their number is found.
    pub policy: Policy,
    /// The share of workers that is not spot, from 0 to 1.
    pub on_demand: f64,
}

/// What is found.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// What was asked.
    pub plan: Plan,
    /// What comes, in numbers.
    pub load: Load,
    /// The first guess by Erlang's formula.
    pub guess: Guess,
    /// The cheapest fleet that meets the goal on every seed; the nearest one if none does.
    pub best: Judged,
    /// Whether it meets the goal.
    pub met: bool,
    /// Whether it stays within the budget, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within_budget: Option<bool>,
    /// What would do, where nothing meets the goal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relaxed: Option<Relaxed>,
    /// Other fleets that were tried, for comparison: the cheapest fixed one, and the one that the plan names.
    pub others: Vec<Judged>,
    /// What a fifth more or less of each input does to the best fleet.
    pub sensitivity: Vec<Sensitivity>,
    /// How many times the arrivals can be before the best fleet misses the goal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_load: Option<LargestLoad>,
    /// The time that the share of the goal needs at least, in seconds, whatever the fleet: nobody waits, every piece
    /// has a slot.
    pub fastest_sec: f64,
    /// What the search, the largest load and the table of inputs were simulated with.
    pub searched: Searched,
    /// Simulations that were run.
    pub runs: u32,
}

/// What a search was simulated with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Searched {
    /// Days of each run.
    pub days: f64,
    /// Seeds, none of which fleets are judged by; the largest load and the table of inputs use the hardest of them.
    pub seeds: u32,
}

/// What comes, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Load {
    /// Items in a day, on average.
    pub items_day: f64,
    /// Items in the busiest hour.
    pub peak_items_hour: f64,
    /// The mean size.
    pub mean_gb: f64,
    /// The work of an average item, in seconds of a slot of speed 1.
    pub work_sec: f64,
    /// Tasks of an average item.
    pub tasks_per_item: f64,
    /// Slots that are busy on average, by Little's law: arrivals × work.
    pub busy_slots: f64,
    /// The same in the busiest hour.
    pub peak_busy_slots: f64,
}

/// The first guess.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Guess {
    /// Slots for the average hour; nothing if none are enough.
    pub slots: Option<u32>,
    /// Slots for the busiest hour.
    pub peak_slots: Option<u32>,
    /// Workers of the type that does most for its price, for the busiest hour.
    pub peak_workers: Option<u32>,
    /// That type.
    pub worker: Name,
}

/// A fleet and what it does, over all seeds that it was tried with.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// What it is called here.
    pub name: String,
    /// The fleet.
    pub fleet: Fleet,
    /// Whether it meets the goal on every seed.
    pub met: bool,
    /// The share of items that were late, over all seeds.
    pub missed: f64,
    /// The same on the worst seed.
    pub missed_worst: f64,
    /// Between which shares the true one lies with 95 % confidence, by how far the simulated days differ; nothing for
    /// a single day with late items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed_between: Option<(f64, f64)>,
    /// From arrival to the first task that begins, in seconds.
    pub start: Times,
    /// From arrival to done.
    pub end: Times,
    /// The same for priority users, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub urgent_end: Option<Times>,
    /// The share of the paid slot time that went into tasks.
    pub utilisation: f64,
    /// Money in a month of 30 days.
    pub month: f64,
    /// The same by type: what is always there, and what comes on top.
    pub split: BTreeMap<Name, Split>,
    /// Workers that are started in a day.
    pub started_day: f64,
    /// Spot workers that were taken away, in a day.
    pub interrupted_day: f64,
    /// Attempts that were lost with them, in a day.
    pub lost_day: f64,
    /// Hours and workers of the first seed.
    #[serde(skip)]
    pub workers: Vec<(f64, f64)>,
    /// Completion times of all seeds, sorted.
    #[serde(skip)]
    pub ends: Vec<f64>,
}

impl Judged {
    pub(super) fn new(name: &str, fleet: Fleet, plan: &Plan, played: &[Played]) -> Self {
        let goal = plan.goal.percentile / 100.0;
        let all = |times: fn(&Played) -> &Vec<f64>| {
            let mut all: Vec<f64> = played.iter().flat_map(times).copied().collect();
            all.sort_unstable_by(f64::total_cmp);
            all
        };
        let (starts, ends) = (all(|played| &played.starts), all(|played| &played.ends));
        let urgent = all(|played| &played.urgent_ends);
        let sum = |of: fn(&Played) -> f64| played.iter().map(of).sum::<f64>();
        let hours = sum(|played| played.hours);
        let a_day = |count: f64| count / hours * 24.0;
        let misses = sum(|played| played.misses as f64);
        let meets = |played: &Played| quantile(&played.ends, goal) <= plan.goal.within_sec;
        let mut split: BTreeMap<Name, Split> = BTreeMap::new();
        for (name, (base, burst)) in played.iter().flat_map(|played| &played.paid) {
            let sums = split.entry(name.clone()).or_default();
            sums.base += base / hours * MONTH_HOURS;
            sums.burst += burst / hours * MONTH_HOURS;
        }
        Self {
            name: name.to_owned(),
            fleet,
            met: played.iter().all(meets),
            missed: misses / (ends.len() as f64).max(1.0),
            missed_worst: played.iter().map(Played::missed_share).fold(0.0, f64::max),
            missed_between: between(played),
            start: Times::of(&starts, goal),
            end: Times::of(&ends, goal),
            urgent_end: (!urgent.is_empty()).then(|| Times::of(&urgent, goal)),
            utilisation: (sum(|played| played.busy_sec)
                / sum(|played| played.paid_slot_sec).max(1.0))
            .min(1.0),
            month: split.values().map(|split| split.base + split.burst).sum(),
            split,
            started_day: a_day(sum(|played| played.started as f64)),
            interrupted_day: a_day(sum(|played| played.interrupted as f64)),
            lost_day: a_day(sum(|played| played.lost as f64)),
            workers: played.first().map(|played| played.workers.clone()).unwrap_or_default(),
            ends,
        }
    }
}

/// Student's interval of the late share over simulated days. Days are alike and drawn apart, which items of one rush
/// are not. Where none was ever late, three in all items could have been (the rule of three).
fn between(played: &[Played]) -> Option<(f64, f64)> {
    let items: usize = played.iter().map(|played| played.ends.len()).sum();
    if items > 0 && played.iter().all(|played| played.misses == 0) {
        return Some((0.0, (3.0 / items as f64).min(1.0)));
    }
    let days = played.iter().flat_map(|played| &played.days).filter(|(_, items)| *items > 0);
    let shares: Vec<f64> = days.map(|(missed, items)| *missed as f64 / *items as f64).collect();
    let count = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / count;
    let squares: f64 = shares.iter().map(|share| (share - mean).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    let times = *STUDENT.get(shares.len().checked_sub(2)?).unwrap_or(&1.96);
    Some(((mean - times * error).max(0.0), (mean + times * error).min(1.0)))
}

impl Times {
    fn of(sorted: &[f64], goal: f64) -> Self {
        let at = |share| finite(quantile(sorted, share));
        Self { p50: at(0.5), p95: at(0.95), p99: at(0.99), goal: at(goal) }
    }
}

/// Times in seconds; nothing where that many were never done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// Half are shorter.
    pub p50: Option<f64>,
    /// 95 % are shorter.
    pub p95: Option<f64>,
    /// 99 % are shorter.
    pub p99: Option<f64>,
    /// The share of the goal is shorter.
    pub goal: Option<f64>,
}

/// Money in a month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Split {
    /// For as many as there are at the quietest time.
    pub base: f64,
    /// For those that come on top.
    pub burst: f64,
}

/// What a change of one input does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sensitivity {
    /// The input.
    pub input: String,
    /// What a fifth less does.
    pub less: Effect,
    /// What a fifth more does.
    pub more: Effect,
}

/// What the best fleet does then, on one seed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// Whether it meets the goal.
    pub met: bool,
    /// The share of items that are late.
    pub missed: f64,
    /// The completion time at the share of the goal; nothing if that many are never done.
    pub goal_sec: Option<f64>,
    /// Money in a month.
    pub month: f64,
}

/// The largest load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LargestLoad {
    /// How many times the arrivals.
    pub factor: f64,
    /// Items in a day.
    pub items_day: f64,
    /// Whether the search ended here although more would do.
    pub at_least: bool,
    /// Money in a month then.
    pub month: f64,
}

/// What would do where nothing meets the goal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Relaxed {
    /// Whether the goal can be met by any number of workers.
    pub possible: bool,
    /// The time that this is for, in seconds: that of the goal, or the nearest that can be met.
    pub within_sec: f64,
    /// The cheapest fixed fleet that would do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fleet: Option<Fleet>,
    /// Its money in a month.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub month: Option<f64>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The plan makes no sense.
    #[error(transparent)]
    Wrong(#[from] Wrong),
    /// The simulation was stopped, or refused something.
    #[error(transparent)]
    Run(#[from] crate::experiment::Error),
}

/// Answers a plan, on up to `threads` threads; the answer does not depend on how many.
///
/// # Errors
/// If the plan makes no sense, or the run was stopped.
pub fn answer(plan: &Plan, threads: usize, progress: &mut Progress<'_>) -> Result<Answer, Error> {
    plan.check()?;
    Ok(Search::new(plan, threads, progress).answer()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_the_late_share_is_that_of_the_days() {
        let of = |days: &[(usize, usize)]| {
            between(&[Played { days: days.to_vec(), misses: 1, ..Played::default() }])
        };
        assert_eq!(of(&[(1, 10)]), None);
        assert_eq!(of(&[(1, 10), (1, 10)]), Some((0.1, 0.1)));
        // Shares 0.1, 0.2 and 0.3: mean 0.2, standard error 0.1 / √3, and 4.303 of them.
        let (low, high) = of(&[(1, 10), (20, 100), (3, 10)]).unwrap();
        assert!(low == 0.0 && (high - (0.2 + 4.303 * 0.1 / 3.0_f64.sqrt())).abs() < 1e-9);
        let none = Played { ends: vec![1.0; 600], days: vec![(0, 600)], ..Played::default() };
        assert_eq!(between(&[none]), Some((0.0, 0.005)));
    }
}
