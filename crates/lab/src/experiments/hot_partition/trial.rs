//! Decides what is measured of one way under one traffic: answers, load, cost, and how well hot keys are found.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use divvy_placement::hashing::hot;

use super::traffic::{self, Profile, Times, Traffic};
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
    /// The share of all requests that were reads by a node that does not own the key.
    pub(super) away: f64,
    /// Copies that were made, and copies that were brought up to date, in the heat.
    pub(super) copies: f64,
    pub(super) refills: f64,
    pub(super) folds: f64,
    /// Each key above the limit, hottest first: its share, when it was found, and how far it was spread at most.
    pub(super) found: Vec<Found>,
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

/// A key above the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    /// Its share of all requests in the heat.
    pub(super) share: f64,
    /// From the beginning of the heat; none if it was never found.
    pub(super) after_s: Option<f64>,
    /// The most nodes over which it was spread.
    pub(super) spread: usize,
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
    /// When a key above the limit was first called hot, and how far it was spread at most.
    found: BTreeMap<usize, (Duration, usize)>,
    alarms: BTreeSet<usize>,
    /// What was paid before the heat, and until its end.
    cost_before: Cost,
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
            cost_before: Cost::default(),
            cost_at_end: Cost::default(),
            longest_at_end: None,
            cooled_at: None,
        }
    }

    /// Looks at the state before a request.
    fn look(&mut self, service: &Service, now: Duration) {
        if now < self.times.heat_from {
            self.cost_before = service.cost;
        }
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
        let spread = service.spread(key);
        if spread < 2 {
            return;
        }
        let limit = hot::Settings::default().share;
        if self.shares.get(key).is_some_and(|share| *share > limit) {
            let most = &mut self.found.entry(key).or_insert((now, spread)).1;
            *most = spread.max(*most);
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
        let (before, paid) = (self.cost_before, self.cost_at_end);
        let work: Vec<f64> = self.work.iter().map(Duration::as_secs_f64).collect();
        let mean_work = work.iter().sum::<f64>() / NODES as f64;
        let hot_keys = self.shares.iter().enumerate().filter(|(_, share)| **share > limit);
        let found = hot_keys.filter(|_| self.detects).map(|(key, share)| {
            let seen = self.found.get(&key);
            let after_s = seen.map(|(at, _)| at.saturating_sub(heat_from).as_secs_f64());
            Found { share: *share, after_s, spread: seen.map_or(1, |(_, spread)| *spread) }
        });
        let found: Vec<Found> = found.collect();
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
            away: (paid.away - before.away) as f64 / requests,
            copies: (paid.copies - before.copies) as f64,
            refills: (paid.refills - before.refills) as f64,
            folds: service.cost.folds as f64,
            missed: found.iter().filter(|key| key.after_s.is_none()).count() as f64,
            found,
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
            refills: mean(&|trial| trial.refills),
            folds: mean(&|trial| trial.folds),
            found: trials.first().map_or_else(Vec::new, |first| {
                let keys = first.found.iter().enumerate();
                keys.map(|(at, key)| Found::mean_of(*key, trials.iter().map(|t| t.found[at])))
                    .collect()
            }),
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

impl Found {
    /// The means of one key in several runs; not found in one is not found.
    fn mean_of(first: Self, all: impl Iterator<Item = Self> + Clone) -> Self {
        let times: Option<Vec<f64>> = all.clone().map(|key| key.after_s).collect();
        let mean = |times: Vec<f64>| times.iter().sum::<f64>() / times.len().max(1) as f64;
        let spread = all.map(|key| key.spread).max().unwrap_or(first.spread);
        Self { share: first.share, after_s: times.map(mean), spread }
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
    traffic::shares(profile).iter().filter(|share| **share > limit).count()
}
