//! Decides what comes: when each item arrives, how large it is, whose it is, and which tasks it means.
//!
//! Arrivals, sizes, users and run times are drawn from sources of their own, so that a plan that differs in one of them
//! faces the same others. Arrivals are random (Poisson, with the rate of their hour) unless the plan wants them evenly.

use std::sync::Arc;
use std::time::Duration;

use divvy_types::{TaskId, TaskSpec};

use super::fit::Sample;
use super::input::{Plan, SizeClass, Stage};
use crate::sim::cluster::{Given, GivenTask};

/// The priority of most items, and of those of priority users.
const USUAL: u8 = 3;
const URGENT: u8 = 5;

/// What comes in one run.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    /// The items, by rising time.
    pub(super) items: Vec<Item>,
    /// Their tasks.
    pub(super) given: Arc<Given>,
    /// The time in which they come.
    pub(super) horizon: Duration,
}

/// One arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) at: Duration,
    pub(super) size_gb: f64,
    pub(super) urgent: bool,
    /// The places of its tasks: from the first, before the other.
    pub(super) tasks: (usize, usize),
}

impl Demand {
    /// The time that each item needs on slots of speed 1 if none of its tasks ever waits for a slot, in seconds.
    pub(super) fn chains(&self) -> Vec<f64> {
        let tasks = &self.given.tasks;
        let mut ends = vec![0.0_f64; tasks.len()];
        for (place, task) in tasks.iter().enumerate() {
            let begins = task.parents.iter().map(|parent| ends[*parent]).fold(0.0, f64::max);
            ends[place] = begins + task.run.as_secs_f64();
        }
        let longest =
            |item: &Item| ends[item.tasks.0..item.tasks.1].iter().copied().fold(0.0, f64::max);
        self.items.iter().map(longest).collect()
    }
}

/// Draws what comes.
pub(super) fn draw(plan: &Plan, seed: u64) -> Demand {
    let mut seeds = fastrand::Rng::with_seed(seed);
    let (coming, sizes) = (&mut source(&mut seeds), &mut source(&mut seeds));
    let items: Vec<(Duration, f64)> =
        arrivals(plan, coming).into_iter().map(|at| (at, size(&plan.sizes, sizes))).collect();
    of_items(plan, &items, seeds.u64(..))
}

/// What items mean that come at known times with known sizes, by rising time.
pub(super) fn of_items(plan: &Plan, known: &[(Duration, f64)], seed: u64) -> Demand {
    of_runs(plan, known, seed, |item, stage, random| drawn_runs(stage, known[item].1, random))
}

/// What items mean that come at known times and of which it is known what their tasks take.
pub(super) fn of_samples(plan: &Plan, known: &[(Duration, &Sample)]) -> Demand {
    let sizes: Vec<(Duration, f64)> =
        known.iter().map(|(at, sample)| (*at, sample.size_gb)).collect();
    of_runs(plan, &sizes, 0, |item, stage, _| {
        let seen = known[item].1.stages.get(&stage.name);
        seen.map(|seen| seen.seconds.clone()).unwrap_or_default()
    })
}

/// The same where someone says what the tasks of a stage take for the item of this number; none if it lacks the stage.
fn of_runs(
    plan: &Plan,
    known: &[(Duration, f64)],
    seed: u64,
    mut runs: impl FnMut(usize, &Stage, &mut fastrand::Rng) -> Vec<f64>,
) -> Demand {
    let mut seeds = fastrand::Rng::with_seed(seed);
    let (mut users, mut times) = (source(&mut seeds), source(&mut seeds));
    let within = Duration::from_secs_f64(plan.goal.within_sec);
    let mut given = Given::new(sorts(plan), Vec::new());
    given.told = plan.goal.deadline;
    let mut items = Vec::with_capacity(known.len());
    for (number, (at, size_gb)) in known.iter().copied().enumerate() {
        let urgent = users.f64() * 100.0 < plan.priority;
        let first = given.tasks.len();
        let all = plan.stages.iter().map(|stage| runs(number, stage, &mut times)).collect();
        add_tasks(plan, &mut given.tasks, (at, at + within), urgent, all);
        let tasks = (first, given.tasks.len());
        given.groups.push(tasks);
        items.push(Item { at, size_gb, urgent, tasks });
    }
    let last = known.last().map_or(Duration::ZERO, |(at, _)| *at);
    let horizon = Duration::from_secs_f64(plan.horizon_sec()).max(last);
    Demand { items, given: Arc::new(given), horizon }
}

fn source(seeds: &mut fastrand::Rng) -> fastrand::Rng {
    fastrand::Rng::with_seed(seeds.u64(..))
}

/// What the tasks of each stage are like: for most users, then for priority users.
fn sorts(plan: &Plan) -> Vec<TaskSpec> {
    let of = |priority: u8| {
        plan.stages.iter().map(move |stage| {
            let mut task = TaskSpec::new(TaskId(0), stage.name.clone());
            task.priority = priority;
            task
        })
    };
    of(USUAL).chain(of(URGENT)).collect()
}

/// When items come, by rising time.
fn arrivals(plan: &Plan, random: &mut fastrand::Rng) -> Vec<Duration> {
    let (mut times, mut gap) = (Vec::new(), next_gap(plan, random));
    for rate in plan.rates() {
        let mut at = rate.from_sec;
        // The gap is in expected arrivals, so that it goes on where the rate changes.
        while gap <= (rate.to_sec - at) * rate.per_sec() {
            at += gap / rate.per_sec();
            times.push(Duration::from_secs_f64(at));
            gap = next_gap(plan, random);
        }
        gap -= (rate.to_sec - at) * rate.per_sec();
    }
    times
}

/// How many arrivals are expected until the next one comes.
fn next_gap(plan: &Plan, random: &mut fastrand::Rng) -> f64 {
    if plan.arrivals.evenly { 1.0 } else { -(1.0 - random.f64()).ln() }
}

fn size(classes: &[SizeClass], random: &mut fastrand::Rng) -> f64 {
    let (mut which, place) = (random.f64() * 100.0, random.f64());
    let class = classes.iter().find(|class| {
        which -= class.share;
        which < 0.0
    });
    class.or_else(|| classes.last()).map_or(0.0, |class| class.quantile(place))
}

/// Adds the tasks of an item that comes at one time and is due at another; `runs` are the seconds of each stage's.
fn add_tasks(
    plan: &Plan,
    tasks: &mut Vec<GivenTask>,
    (at, due): (Duration, Duration),
    urgent: bool,
    runs: Vec<Vec<f64>>,
) {
    // What waits for a stage waits for these; for one that the item lacks, for what that would have waited for.
    let mut places: Vec<Vec<usize>> = Vec::with_capacity(plan.stages.len());
    for (number, (stage, runs)) in plan.stages.iter().zip(runs).enumerate() {
        let waited = plan.stages[..number].iter().zip(&places);
        let waited = waited.filter(|(other, _)| stage.after.contains(&other.name));
        let mut parents: Vec<usize> = waited.flat_map(|(_, places)| places.clone()).collect();
        parents.sort_unstable();
        parents.dedup();
        let sort = if urgent { plan.stages.len() + number } else { number };
        let first = tasks.len();
        tasks.extend(runs.iter().map(|seconds| {
            let run = Duration::from_secs_f64(*seconds);
            GivenTask { at, sort, run, due: Some(due), parents: parents.clone() }
        }));
        places.push(if runs.is_empty() { parents } else { (first..tasks.len()).collect() });
    }
}

/// What the tasks of a stage take for an item of this size, by chance; none if chance says that it lacks the stage.
fn drawn_runs(stage: &Stage, size_gb: f64, random: &mut fastrand::Rng) -> Vec<f64> {
    let is_there = stage.share.is_none() || random.f64() < stage.share();
    let (count, usual_sec) = stage.cut(size_gb);
    let count = if is_there { count } else { 0 };
    (0..count).map(|_| usual_sec * varied(stage, random)).collect()
}

impl Stage {
    /// Into how many tasks an item is cut, and how long each usually takes.
    pub(super) fn cut(&self, size_gb: f64) -> (u32, f64) {
        let pieces = self.piece_gb.map_or(1.0, |piece| (size_gb / piece).ceil().max(1.0));
        let tasks = self.tasks.unwrap_or(1);
        (pieces as u32 * tasks, self.sec + self.sec_per_gb * size_gb / pieces)
    }
}

/// A factor with mean 1 that is never negative (lognormal).
fn varied(stage: &Stage, random: &mut fastrand::Rng) -> f64 {
    if stage.spread == 0.0 {
        return 1.0;
    }
    let variance = (1.0 + (stage.spread / 100.0).powi(2)).ln();
    // Box and Muller, 1958.
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    let normal = radius * (std::f64::consts::TAU * random.f64()).cos();
    (variance.sqrt() * normal - variance / 2.0).exp()
}

#[cfg(test)]
mod tests {
    use super::super::input::{Arrivals, PerHour};
    use super::super::tests::one_stage;
    use super::*;

    #[test]
    fn sizes_are_the_mixture_that_was_asked_for() {
        let class = |share, from, to| SizeClass {
            share,
            from_gb: Some(from),
            to_gb: Some(to),
            mean_gb: None,
        };
        let mut plan = one_stage(1_000.0, 1.0);
        plan.sizes = vec![class(95.0, 0.1, 1.0), class(5.0, 1.0, 10.0)];
        let items = draw(&plan, 7).items;
        let count = items.len() as f64;
        let below = items.iter().filter(|item| item.size_gb < 1.0).count() as f64 / count;
        assert!((below - 0.95).abs() < 0.005, "{below} of {count} are below 1 GB");
        assert!(items.iter().all(|item| (0.1..=10.0).contains(&item.size_gb)));
        let mean = items.iter().map(|item| item.size_gb).sum::<f64>() / count;
        assert!((mean / plan.mean_gb() - 1.0).abs() < 0.03, "{mean} {}", plan.mean_gb());
    }

    #[test]
    fn arrivals_follow_the_hours_and_are_the_same_for_a_seed() {
        let mut plan = one_stage(0.0, 1.0);
        let mut hours = vec![0.0; 24];
        (hours[3], hours[20]) = (300.0, 900.0);
        plan.arrivals = Arrivals { per_hour: Some(PerHour::OfDay(hours)), ..Arrivals::default() };
        let (items, again) = (draw(&plan, 1).items, draw(&plan, 1).items);
        assert_eq!(items, again);
        let hour = |item: &&Item| item.at.as_secs() / 3_600 % 24;
        let early = items.iter().filter(|item| hour(item) == 3).count();
        let late = items.iter().filter(|item| hour(item) == 20).count();
        assert_eq!(early + late, items.len());
        assert!((500..700).contains(&early) && (1_650..1_950).contains(&late), "{early} {late}");
    }

    #[test]
    fn a_stage_is_cut_into_pieces_that_together_are_the_whole() {
        let stage = Stage { sec: 2.0, sec_per_gb: 100.0, piece_gb: Some(0.25), ..Stage::default() };
        assert_eq!(stage.cut(1.0), (4, 27.0));
        assert_eq!(stage.cut(0.25), (1, 27.0));
        let copies = Stage { tasks: Some(3), sec: 4.0, ..Stage::default() };
        assert_eq!(copies.cut(9.0), (3, 4.0));
    }
}
