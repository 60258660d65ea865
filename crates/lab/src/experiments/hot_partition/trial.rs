//! Decides what is measured of one way under one traffic: answers, load, cost, and how well hot keys are found.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use divvy_placement::hashing::hot;

use super::traffic::{self, HOT_KEYS, Profile, Times, Traffic};
use super::ways::{Cost, Operations, Service, Way};
use crate::sim::QUEUE_OVERLOADED;

/// Nodes of the service.
pub(super) const NODES: usize = 20;
/// The mean time of an operation.
pub(super) const SERVICE: Duration = Duration::from_millis(20);
/// The share of what all nodes can do that the requests alone ask for.
pub(super) const LOAD: f64 = 0.4;
/// The width of a part of the run for which times are kept apart.
pub(super) const SLICE: Duration = Duration::from_millis(2_500);

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) way: Way,
    pub(super) profile: Profile,
    pub(super) read_share: f64,
}

/// What came out; means over seeds where there are several. Times of answers are in mean operation times.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Trial {
    /// Of requests in the calm before the heat.
    pub(super) p99_calm: f64,
    /// Of requests in the heat.
    pub(super) p50: f64,
    pub(super) p99: f64,
    /// Of requests in the second half of the heat, when hot keys are known.
    pub(super) p99_settled: f64,
    /// Whether a queue had grown beyond measure at the end of the heat.
    pub(super) is_overloaded: bool,
    /// The work of the busiest node in the heat, over the mean.
    pub(super) peak: f64,
    /// Operations per request in the heat.
    pub(super) operations: f64,
    /// The share of all requests that were served by a node that does not own the key.
    pub(super) away: f64,
    pub(super) copies: f64,
    pub(super) folds: f64,
    /// Until a hot key was found, on average and at worst; the keys are those above the limit.
    pub(super) found_mean_s: f64,
    pub(super) found_worst_s: f64,
    /// Keys above the limit that were never found.
    pub(super) missed: f64,
    /// Keys below the limit that were called hot, and those of them below half of it.
    pub(super) false_alarms: f64,
    pub(super) gross_alarms: f64,
    /// From the end of the heat until no key was called hot; none if some still was when all ended.
    pub(super) cooled_s: Option<f64>,
    /// Reads that did not find all that was written before, and writes that were lost at the end.
    pub(super) reads_short: u64,
    pub(super) is_complete: bool,
    /// Moments in seconds and the p99 of requests that came then.
    pub(super) slices: Vec<(f64, f64)>,
}

/// Runs a case.
pub(super) fn play(case: Case, times: Times, seed: u64) -> Trial {
    let gap = SERVICE.div_f64(NODES as f64 * LOAD);
    let mut service = Service::new(case.way, NODES, SERVICE, seed ^ 0x5eed);
    let mut watch = Watch::new(case, times);
    for ask in Traffic::new(case.profile, times, case.read_share, gap, seed) {
        service.nodes.advance(ask.at);
        watch.look(&service, ask.at);
        let folded = service.fold(ask.at);
        watch.give(&mut service, &folded, ask.at);
        let planned = service.plan(&ask);
        let answered = watch.give(&mut service, &planned, ask.at);
        watch.answer(ask.at, answered);
        watch.find(&service, ask.key, ask.at);
    }
    watch.trial(&service)
}

/// What is written down while a case runs.
struct Watch {
    times: Times,
    shares: Vec<f64>,
    detects: bool,
    /// When each request came and how long it took.
    answers: Vec<(Duration, Duration)>,
    /// Work given to each node in the heat.
    work: Vec<Duration>,
    operations_in_heat: u64,
    found: BTreeMap<usize, Duration>,
    alarms: BTreeSet<usize>,
    cost_at_end: Cost,
    longest_at_end: Option<u32>,
    cooled_at: Option<Duration>,
}

impl Watch {
    fn new(case: Case, times: Times) -> Self {
        Self {
            times,
            shares: traffic::shares(case.profile),
            detects: case.way.detects(),
            answers: Vec::new(),
            work: vec![Duration::ZERO; NODES],
            operations_in_heat: 0,
            found: BTreeMap::new(),
            alarms: BTreeSet::new(),
            cost_at_end: Cost::default(),
            longest_at_end: None,
            cooled_at: None,
        }
    }

    /// Looks at the state before a request.
    fn look(&mut self, service: &Service, now: Duration) {
        if now < self.times.heat_to {
            return;
        }
        if self.longest_at_end.is_none() {
            self.longest_at_end = Some(service.nodes.longest_queue());
            self.cost_at_end = service.cost;
        }
        if self.cooled_at.is_none() && service.hot().is_empty() && service.split_keys() == 0 {
            self.cooled_at = Some(now);
        }
    }

    /// Gives operations to their nodes; says when the last of those is done for which the answer waits.
    fn give(&mut self, service: &mut Service, operations: &Operations, now: Duration) -> Duration {
        let mut answered = now;
        for (node, is_waited_for) in &operations.0 {
            let (end, need) = service.nodes.give(*node, now);
            if *is_waited_for {
                answered = answered.max(end);
            }
            if self.times.is_hot(now) {
                self.work[*node] += need;
                self.operations_in_heat += 1;
            }
        }
        answered
    }

    fn answer(&mut self, at: Duration, answered: Duration) {
        self.answers.push((at, answered - at));
    }

    /// Notes whether the key that was just asked for is called hot, rightly or not.
    fn find(&mut self, service: &Service, key: usize, now: Duration) {
        if service.spread(key) < 2 {
            return;
        }
        let limit = hot::Settings::default().share;
        if self.shares.get(key).is_some_and(|share| *share > limit) {
            self.found.entry(key).or_insert(now);
        } else {
            self.alarms.insert(key);
        }
    }

    fn trial(&self, service: &Service) -> Trial {
        let Times { heat_from, heat_to, end } = self.times;
        let limit = hot::Settings::default().share;
        let settled = heat_from + (heat_to - heat_from) / 2;
        let in_heat = self.between(heat_from, heat_to);
        let requests = in_heat.len().max(1) as f64;
        let work: Vec<f64> = self.work.iter().map(Duration::as_secs_f64).collect();
        let mean_work = work.iter().sum::<f64>() / NODES as f64;
        let waits: Vec<f64> =
            self.found.values().map(|at| at.saturating_sub(heat_from).as_secs_f64()).collect();
        let hot_keys = self.shares.iter().filter(|share| **share > limit).count();
        let missed = if self.detects { hot_keys - self.found.len() } else { 0 };
        let share = |key: &usize| self.shares.get(*key).copied().unwrap_or_default();
        let gross = self.alarms.iter().filter(|key| share(key) < limit / 2.0).count();
        let slices = (0..end.as_nanos() / SLICE.as_nanos()).map(|slice| {
            let from = SLICE * slice as u32;
            let middle = (from + SLICE / 2).as_secs_f64();
            (middle, quantile(self.between(from, from + SLICE), 0.99))
        });
        Trial {
            p99_calm: quantile(self.between(Duration::ZERO, heat_from), 0.99),
            p50: quantile(in_heat.clone(), 0.5),
            p99: quantile(in_heat, 0.99),
            p99_settled: quantile(self.between(settled, heat_to), 0.99),
            is_overloaded: self.longest_at_end.is_some_and(|q| q as usize >= QUEUE_OVERLOADED),
            peak: work.iter().copied().fold(0.0, f64::max) / mean_work,
            operations: self.operations_in_heat as f64 / requests,
            away: self.cost_at_end.away as f64 / requests,
            copies: self.cost_at_end.copies as f64,
            folds: service.cost.folds as f64,
            found_mean_s: waits.iter().sum::<f64>() / waits.len().max(1) as f64,
            found_worst_s: waits.iter().copied().fold(0.0, f64::max),
            missed: missed as f64,
            false_alarms: self.alarms.len() as f64,
            gross_alarms: gross as f64,
            cooled_s: self.cooled_at.map(|at| (at - heat_to).as_secs_f64()),
            reads_short: service.reads_short,
            is_complete: service.is_complete(),
            slices: slices.collect(),
        }
    }

    /// How long the requests took that came in this time, in mean operation times.
    fn between(&self, from: Duration, to: Duration) -> Vec<f64> {
        let start = self.answers.partition_point(|answer| answer.0 < from);
        let stop = self.answers.partition_point(|answer| answer.0 < to);
        let times = self.answers[start..stop].iter();
        times.map(|(_, took)| took.as_secs_f64() / SERVICE.as_secs_f64()).collect()
    }
}

impl Trial {
    /// The means of several runs; what went wrong in one went wrong.
    pub(super) fn mean_of(trials: Vec<Self>) -> Self {
        let count = trials.len() as f64;
        let mean = |value: &dyn Fn(&Self) -> f64| trials.iter().map(value).sum::<f64>() / count;
        let cooled: Option<Vec<f64>> = trials.iter().map(|trial| trial.cooled_s).collect();
        Self {
            p99_calm: mean(&|trial| trial.p99_calm),
            p50: mean(&|trial| trial.p50),
            p99: mean(&|trial| trial.p99),
            p99_settled: mean(&|trial| trial.p99_settled),
            is_overloaded: trials.iter().any(|trial| trial.is_overloaded),
            peak: mean(&|trial| trial.peak),
            operations: mean(&|trial| trial.operations),
            away: mean(&|trial| trial.away),
            copies: mean(&|trial| trial.copies),
            folds: mean(&|trial| trial.folds),
            found_mean_s: mean(&|trial| trial.found_mean_s),
            found_worst_s: trials.iter().map(|trial| trial.found_worst_s).fold(0.0, f64::max),
            missed: mean(&|trial| trial.missed),
            false_alarms: mean(&|trial| trial.false_alarms),
            gross_alarms: mean(&|trial| trial.gross_alarms),
            cooled_s: cooled.map(|all| all.iter().sum::<f64>() / count),
            reads_short: trials.iter().map(|trial| trial.reads_short).sum(),
            is_complete: trials.iter().all(|trial| trial.is_complete),
            slices: trials.into_iter().next().map(|trial| trial.slices).unwrap_or_default(),
        }
    }
}

fn quantile(mut times: Vec<f64>, share: f64) -> f64 {
    if times.is_empty() {
        return 0.0;
    }
    let at = ((times.len() as f64 * share) as usize).min(times.len() - 1);
    *times.select_nth_unstable_by(at, f64::total_cmp).1
}

/// How many keys are hotter than the limit.
pub(super) fn keys_above_limit(profile: Profile) -> usize {
    let limit = hot::Settings::default().share;
    let above = traffic::shares(profile).iter().filter(|share| **share > limit).count();
    debug_assert!(above <= HOT_KEYS);
    above
}
