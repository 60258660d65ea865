//! Decides which fleet is the cheapest that meets the goal.
//!
//! Everything is tried out, nothing derived. First the smallest fixed fleet, because more workers never make anything
//! later; the search begins where it would do if work were water. Then fleets that the autoscaler starts and stops, with
//! and without spot workers, and the cheapest of these with a base that is always there and by other policies.
//!
//! The search plays one day. A run ends as soon as so many are late that the goal is missed whatever follows. The number
//! of a fixed fleet is looked for on the hardest seed and must hold on the others, where it grows if need be; of the fleets
//! that come and go the cheapest on the hardest seed must hold there too, or the next one is taken. What is found is judged with all days and seeds of the plan, cheapest first, until one meets the goal
//! on each. Those seeds are others than the ones that it was found with.
//!
//! Rounds have as many runs whatever the number of threads, so that the answer is the same everywhere.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use divvy_types::Name;
use divvy_types::pools::Policy;

use super::answer::{Answer, Fleet, Guess, Judged, Load, Relaxed, Scaled, Searched};
use super::demand::{self, Demand};
use super::erlang;
use super::fluid::Flow;
use super::input::{Plan, Worker};
use super::play::{Played, quantile};
use super::runs::{Run, Runs, SEARCH_SEEDS, judging_seed, search_seed};
use crate::experiment::{Error, Progress};

/// Days that the search plays, of as many as the plan has.
const SEARCH_DAYS: f64 = 1.0;
/// Fixed fleets are searched for these many types, the cheapest for their work first.
const TYPES_MAX: usize = 2;
/// A fixed fleet is found when the next smaller one that fails is this near.
const NEAR: f64 = 0.02;
/// How many times as many workers are tried than would do if work were water: that finds its way, tasks wait at every
/// stage.
const OPTIMISM: f64 = 1.04;
/// Shares of the fixed fleet that are tried as a minimum.
const BASES: [f64; 2] = [0.2, 0.4];
/// Shares of workers that are not spot, where there are both.
const ON_DEMAND: [f64; 2] = [0.0, 0.4];
/// A fleet that comes and goes may become so much larger than the fixed one.
const ROOM: f64 = 1.5;
/// Fleets that come and go and are tried with all seeds of the search.
const FINALISTS_MAX: usize = 4;
/// Candidates that are judged.
const JUDGED_MAX: usize = 4;
/// How many times as many of a fixed fleet are tried where what was just enough in the search is not when it is judged.
const MORE: [f64; 4] = [1.02, 1.05, 1.1, 1.2];
/// Seeds that fleets are judged by whose arrivals are kept for the next fleet; the others are drawn anew.
const JUDGING_KEPT: usize = 4;
/// What is tried instead where a goal cannot be met: a little above what is possible at all.
const RELAXED: f64 = 1.1;

/// A search that goes on.
pub(super) struct Search<'a, 'p> {
    pub(super) course: Course,
    /// The days that what was found is judged with.
    days: f64,
    pub(super) runs: Runs<'a, 'p>,
    /// What comes on the days and seeds that fleets are judged by, as far as it was needed.
    judging: Vec<Arc<Demand>>,
}

/// What is searched with: a plan, and what comes on each seed of the search.
pub(super) struct Course {
    pub(super) plan: Arc<Plan>,
    /// The hardest first: what meets the goal there will mostly meet it on the others.
    pub(super) demands: Vec<(u64, Arc<Demand>)>,
    /// How many times as many slots a fixed fleet was found to need on the first of them as if work were water.
    pub(super) optimism: f64,
}

impl Course {
    fn new(plan: Plan) -> Self {
        let draw = |number| {
            let seed = search_seed(number);
            let demand = Arc::new(demand::draw(&plan, seed));
            (Flow::new(&plan, &demand, 1.0).least_slots(), seed, demand)
        };
        let mut drawn: Vec<(f64, u64, Arc<Demand>)> = (0..SEARCH_SEEDS).map(draw).collect();
        drawn.sort_by(|a, b| b.0.total_cmp(&a.0));
        let demands = drawn.into_iter().map(|(_, seed, demand)| (seed, demand)).collect();
        Self { plan: Arc::new(plan), demands, optimism: OPTIMISM }
    }
}

pub(super) type Found<T> = Result<T, Error>;

/// A plan and a fleet that are tried together.
pub(super) type Tried = (Arc<Plan>, Fleet);

impl<'a, 'p> Search<'a, 'p> {
    pub(super) fn new(plan: &Plan, threads: usize, progress: &'a mut Progress<'p>) -> Self {
        let days = plan.days;
        let course = Course::new(Plan { days: days.min(SEARCH_DAYS), ..plan.clone() });
        Self { course, days, runs: Runs::new(threads, progress), judging: Vec::new() }
    }

    pub(super) fn answer(mut self) -> Found<Answer> {
        let plan = Arc::clone(&self.course.plan);
        let fastest_sec = self.fastest(plan.goal.percentile / 100.0);
        let possible = fastest_sec <= plan.goal.within_sec;
        let guess = self.guess(fastest_sec);
        let fixed = if possible { self.fixed()? } else { Vec::new() };
        let best = self.cheapest(&fixed)?;
        let met = best.as_ref().is_some_and(|best| best.met);
        let relaxed = if met { None } else { Some(self.relaxed(fastest_sec)?) };
        let best = match best {
            Some(best) => best,
            None => self.nearest()?,
        };
        let mut others = Vec::new();
        for (fleet, _) in fixed.into_iter().take(1).filter(|(fleet, _)| *fleet != best.fleet) {
            others.push(self.judged_fixed(fleet)?);
        }
        if !plan.fleet.is_empty() {
            let fleet = Fleet::Fixed(plan.fleet.clone());
            others.push(self.judged("the plan's own", fleet)?);
        }
        self.judging.clear();
        let sensitivity = self.sensitivity(&best)?;
        let largest_load = if met { self.largest_load(&best)? } else { None };
        let within_budget = plan.budget_month.map(|budget| best.month <= budget);
        Ok(Answer {
            load: load(&plan),
            guess,
            met,
            within_budget,
            best,
            others,
            relaxed,
            sensitivity,
            largest_load,
            fastest_sec,
            searched: Searched { days: plan.days, seeds: SEARCH_SEEDS },
            runs: self.runs.count,
            plan: Plan { days: self.days, ..Plan::clone(&plan) },
        })
    }

    /// Types that can be relied on, the cheapest for their work first; spot types only if there are no others.
    fn reliable(&self) -> Vec<Worker> {
        let mut types: Vec<&Worker> = self.course.plan.workers.iter().collect();
        types.sort_by(|a, b| {
            let price = |worker: &Worker| worker.price_hour / worker.power();
            a.spot.cmp(&b.spot).then(price(a).total_cmp(&price(b)))
        });
        let spot = types[0].spot;
        types.into_iter().filter(|worker| worker.spot == spot).take(TYPES_MAX).cloned().collect()
    }

    /// The cheapest spot type for its work.
    fn spot(&self) -> Option<Worker> {
        let price = |worker: &Worker| worker.price_hour / worker.power();
        let spot = self.course.plan.workers.iter().filter(|worker| worker.spot);
        spot.min_by(|a, b| price(a).total_cmp(&price(b))).cloned()
    }

    fn guess(&self, fastest_sec: f64) -> Guess {
        let load = load(&self.course.plan);
        let worker = &self.reliable()[0];
        let task_sec = load.work_sec / load.tasks_per_item / worker.speed;
        let spare_sec = (self.course.plan.goal.within_sec - fastest_sec).max(0.0);
        // Every stage of a chain may wait once.
        let wait = spare_sec / self.longest_chain() as f64 / task_sec;
        let late = 1.0 - self.course.plan.goal.percentile / 100.0;
        let slots = |busy: f64| erlang::slots_for(busy / worker.speed, wait, late, 10_000_000);
        let peak_slots = slots(load.peak_busy_slots);
        Guess {
            slots: slots(load.busy_slots),
            peak_slots,
            peak_workers: peak_slots.map(|slots| slots.div_ceil(worker.slots)),
            worker: worker.name.clone(),
        }
    }

    /// The smallest fixed fleets that meet the goal on every seed of the search, cheapest first.
    fn fixed(&mut self) -> Found<Vec<(Fleet, f64)>> {
        let mut found = Vec::new();
        for worker in self.reliable() {
            let flow = Flow::new(&self.course.plan, &self.course.demands[0].1, worker.speed);
            let guess = flow.least_slots() / f64::from(worker.slots);
            if let Some((count, month)) = self.least(&worker, guess)? {
                found.push((alone(&worker.name, count), month));
            }
        }
        found.sort_by(|a, b| a.1.total_cmp(&b.1));
        Ok(found)
    }

    /// The fewest workers of one type that meet the goal on every seed of the search, and their cost.
    fn least(&mut self, worker: &Worker, guess: f64) -> Found<Option<(u32, f64)>> {
        let Some(mut count) = self.least_once(worker, guess)? else { return Ok(None) };
        self.course.optimism = f64::from(count) / guess.max(1e-9);
        loop {
            let tried = [self.with(alone(&worker.name, count))];
            if let Some(month) = self.on_seeds(&tried, 1..SEARCH_SEEDS, &worker.name)?[0] {
                return Ok(Some((count, month)));
            }
            if count >= worker.max {
                return Ok(None);
            }
            count = count.saturating_add(stride_at(count)).min(worker.max);
        }
    }

    /// The same on the first seed.
    fn least_once(&mut self, worker: &Worker, guess: f64) -> Found<Option<u32>> {
        let busy = load(&self.course.plan).busy_slots / worker.power();
        let floor = ((busy - 1e-9).ceil() as u32).saturating_sub(1);
        let floor = floor.max(worker.min.saturating_sub(1)).min(worker.max - 1);
        // The most that fail, and the fewest that are known to do.
        let (mut fails, mut enough, mut stride) = (floor, None::<u32>, stride_at(guess as u32));
        let mut tries = [OPTIMISM, OPTIMISM * OPTIMISM].map(|times| (guess * times).ceil() as u32);
        loop {
            let most = enough.map_or(worker.max, |count| count - 1).max(fails + 1);
            let mut counts = tries.map(|count| count.clamp(fails + 1, most)).to_vec();
            counts.dedup();
            let fleets: Vec<Tried> =
                counts.iter().map(|count| self.with(alone(&worker.name, *count))).collect();
            for (count, month) in
                counts.into_iter().zip(self.on_seeds(&fleets, 0..1, &worker.name)?)
            {
                match month {
                    None => fails = fails.max(count),
                    Some(_) => enough = Some(enough.map_or(count, |known| known.min(count))),
                }
            }
            let Some(count) = enough else {
                if fails >= worker.max {
                    return Ok(None);
                }
                // The further off the guess was, the larger the steps.
                stride = stride.saturating_mul(2);
                tries = [1, 2].map(|times| fails.saturating_add(stride.saturating_mul(times)));
                continue;
            };
            let gap = count.saturating_sub(fails);
            if gap <= 1 || f64::from(gap) <= NEAR * f64::from(count) {
                return Ok(enough);
            }
            tries = match fails == floor {
                // Nothing near has failed yet.
                true => {
                    stride = stride.saturating_mul(2);
                    [2, 1].map(|times| count.saturating_sub(stride.saturating_mul(times)))
                }
                false => [1, 2].map(|third| fails + gap * third / 3),
            };
        }
    }

    /// The cheapest fleet that meets the goal on every seed.
    fn cheapest(&mut self, fixed: &[(Fleet, f64)]) -> Found<Option<Judged>> {
        let Some((Fleet::Fixed(first), fixed_month)) = fixed.first().cloned() else {
            return Ok(None);
        };
        let mut candidates: Vec<(Fleet, f64)> = self.finalists(&first, fixed_month)?;
        candidates.extend(fixed.iter().cloned());
        candidates.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut nearest = None;
        for (fleet, _) in candidates.into_iter().take(JUDGED_MAX) {
            let judged = self.judged("cheapest", fleet)?;
            if judged.met {
                return Ok(Some(judged));
            }
            nearest.get_or_insert(judged);
        }
        for more in MORE {
            let judged = self.judged("cheapest", larger(&first, more))?;
            if judged.met {
                return Ok(Some(judged));
            }
        }
        Ok(nearest)
    }

    /// A fixed fleet, or the smallest larger one that meets the goal on every seed.
    fn judged_fixed(&mut self, fleet: Fleet) -> Found<Judged> {
        let name = "cheapest fixed";
        let found = self.judged(name, fleet.clone())?;
        if let (false, Fleet::Fixed(counts)) = (found.met, fleet) {
            for more in MORE {
                let judged = self.judged(name, larger(&counts, more))?;
                if judged.met {
                    return Ok(judged);
                }
            }
        }
        Ok(found)
    }

    /// Fleets that come and go, cost less than the fixed one, and meet the goal on every seed of the search.
    fn finalists(
        &mut self,
        fixed: &BTreeMap<Name, u32>,
        fixed_month: f64,
    ) -> Found<Vec<(Fleet, f64)>> {
        let cheaper = |fleets: &mut Vec<(Fleet, f64)>| {
            fleets.retain(|(_, month)| *month < fixed_month);
            fleets.sort_by(|a, b| a.1.total_cmp(&b.1));
        };
        let mut once = self.meeting_once(self.without_base(fixed), "fleets that come and go")?;
        cheaper(&mut once);
        if let Some((Fleet::Scaled(scaled), _)) = once.first() {
            let near = near(scaled, fixed.values().sum());
            once.extend(self.meeting_once(near, "around the best")?);
            cheaper(&mut once);
        }
        for (fleet, month) in once.into_iter().take(FINALISTS_MAX) {
            let tried = [self.with(fleet.clone())];
            if let Some(others) = self.on_seeds(&tried, 1..SEARCH_SEEDS, "the best again")?[0] {
                let seeds = f64::from(SEARCH_SEEDS);
                return Ok(vec![(fleet, (month + others * (seeds - 1.0)) / seeds)]);
            }
        }
        Ok(Vec::new())
    }

    /// Fleets that are there only when there is something to do, without and with spot workers.
    fn without_base(&self, fixed: &BTreeMap<Name, u32>) -> Vec<Fleet> {
        let Some((name, count)) = fixed.first_key_value() else { return Vec::new() };
        let firm = self.course.plan.worker(name);
        let most = |worker: Option<&Worker>| worker.map_or(0, |worker| worker.max);
        let min = firm.map_or(0, |firm| firm.min);
        let room = (f64::from(*count) * ROOM).ceil() as u32 + 1;
        let scaled = Scaled {
            types: vec![name.clone()],
            min,
            max: room.min(most(firm)).max(min),
            policy: Policy::Objective,
            on_demand: 1.0,
        };
        let mut fleets = vec![Fleet::Scaled(scaled.clone())];
        if let Some(spot) = self.spot().filter(|spot| spot.name != *name) {
            let ratio = firm.map_or(1.0, |firm| (firm.power() / spot.power()).max(1.0));
            let room = (f64::from(room) * ratio).ceil() as u32;
            let max = room.min(most(firm).saturating_add(spot.max)).max(min);
            for on_demand in ON_DEMAND {
                let types = vec![name.clone(), spot.name.clone()];
                fleets.push(Fleet::Scaled(Scaled { types, max, on_demand, ..scaled.clone() }));
            }
        }
        fleets
    }

    /// Those that meet the goal on the first seed of the search, with their cost.
    fn meeting_once(&mut self, fleets: Vec<Fleet>, what: &str) -> Found<Vec<(Fleet, f64)>> {
        let tries: Vec<Tried> = fleets.iter().map(|fleet| self.with(fleet.clone())).collect();
        let months = self.on_seeds(&tries, 0..1, what)?;
        Ok(fleets
            .into_iter()
            .zip(months)
            .filter_map(|(fleet, month)| Some((fleet, month?)))
            .collect())
    }

    /// What each costs in the mean that meets the goal on each of these seeds of the search; nothing for the others.
    pub(super) fn on_seeds(
        &mut self,
        tries: &[Tried],
        seeds: Range<u32>,
        what: &str,
    ) -> Found<Vec<Option<f64>>> {
        let mut runs = Vec::new();
        for (plan, fleet) in tries {
            runs.extend(seeds.clone().map(|number| {
                Run {
                    plan: Arc::clone(plan),
                    fleet: fleet.clone(),
                    seed: self.course.demands[number as usize].0,
                    demand: Arc::ptr_eq(plan, &self.course.plan)
                        .then(|| Arc::clone(&self.course.demands[number as usize].1)),
                    whole: false,
                }
            }));
        }
        let played = self.runs.play(runs, what)?;
        let judge = |((plan, _), played): (&Tried, &[Played])| {
            let met = played.iter().all(|played| meets(plan, played));
            met.then(|| played.iter().map(Played::month).sum::<f64>() / played.len() as f64)
        };
        Ok(tries.iter().zip(played.chunks(seeds.len().max(1))).map(judge).collect())
    }

    /// This fleet with the plan that is searched with.
    fn with(&self, fleet: Fleet) -> Tried {
        (Arc::clone(&self.course.plan), fleet)
    }

    /// What there can be at most, where nothing meets the goal.
    fn nearest(&mut self) -> Found<Judged> {
        let worker = &self.reliable()[0];
        let needed = load(&self.course.plan).peak_busy_slots / worker.power() * ROOM;
        let count = (needed.ceil() as u32).clamp(1, worker.max);
        let fleet = alone(&worker.name, count);
        self.judged("nearest", fleet)
    }

    /// The cheapest fixed fleet for the nearest goal that can be met, or with as many workers as it takes.
    fn relaxed(&mut self, fastest_sec: f64) -> Found<Relaxed> {
        let mut plan = Plan::clone(&self.course.plan);
        let possible = fastest_sec <= plan.goal.within_sec;
        if !possible {
            let within = fastest_sec * RELAXED;
            plan.goal.within_sec =
                if within < 60.0 { within.ceil() } else { (within / 60.0).ceil() * 60.0 };
        }
        for worker in &mut plan.workers {
            worker.max = 100_000;
        }
        let within_sec = plan.goal.within_sec;
        let kept = std::mem::replace(&mut self.course, Course::new(plan));
        let fixed = self.fixed();
        self.course = kept;
        let cheapest = fixed?.into_iter().next();
        let (fleet, month) = cheapest.map_or((None, None), |(f, m)| (Some(f), Some(m)));
        Ok(Relaxed { possible, within_sec, fleet, month })
    }

    /// A fleet over all days and seeds of the plan.
    fn judged(&mut self, name: &str, fleet: Fleet) -> Found<Judged> {
        let plan = Arc::new(Plan { days: self.days, ..Plan::clone(&self.course.plan) });
        let mut runs = Vec::new();
        for number in 0..plan.seeds {
            let seed = judging_seed(number);
            if self.judging.len() < JUDGING_KEPT && self.judging.len() <= number as usize {
                self.judging.push(Arc::new(demand::draw(&plan, seed)));
            }
            let demand = self.judging.get(number as usize).cloned();
            let (plan, fleet) = (Arc::clone(&plan), fleet.clone());
            runs.push(Run { plan, fleet, seed, demand, whole: true });
        }
        let played = self.runs.play(runs, name)?;
        Ok(Judged::new(name, fleet, &plan, &played))
    }

    /// The time that this share of items stays below if nobody ever waits.
    fn fastest(&self, share: f64) -> f64 {
        let speed = self.course.plan.workers.iter().map(|worker| worker.speed).fold(0.0, f64::max);
        let mut longest = self.course.demands[0].1.chains();
        longest.sort_unstable_by(f64::total_cmp);
        quantile(&longest, share) / speed
    }

    /// Stages of the longest chain.
    fn longest_chain(&self) -> usize {
        let (stages, mut depths) = (&self.course.plan.stages, Vec::<usize>::new());
        for stage in stages {
            let before = stages.iter().zip(&depths);
            let waited = before.filter(|(other, _)| stage.after.contains(&other.name));
            depths.push(1 + waited.map(|(_, depth)| *depth).max().unwrap_or(0));
        }
        depths.into_iter().max().unwrap_or(1)
    }
}

fn meets(plan: &Plan, played: &Played) -> bool {
    quantile(&played.ends, plan.goal.percentile / 100.0) <= plan.goal.within_sec
}

/// How far from a number of workers the next one is that is worth a try.
fn stride_at(count: u32) -> u32 {
    ((f64::from(count) * NEAR) as u32).max(1)
}

/// A fleet that never changes.
fn alone(name: &Name, count: u32) -> Fleet {
    Fleet::Fixed([(name.clone(), count)].into())
}

/// Fleets like this one: with a base that is always there, and other ways to find the number.
fn near(scaled: &Scaled, fixed: u32) -> Vec<Fleet> {
    let bases = BASES.map(|share| (f64::from(fixed) * share).round() as u32);
    let bases = bases.into_iter().filter(|base| *base > scaled.min);
    let based = bases.map(|base| Scaled { min: base.min(scaled.max), ..scaled.clone() });
    let policies = [Policy::Queue, Policy::Predictive];
    let by_policy = policies.map(|policy| Scaled { policy, ..scaled.clone() });
    based.chain(by_policy).map(Fleet::Scaled).collect()
}

fn larger(fleet: &BTreeMap<Name, u32>, times: f64) -> Fleet {
    let more =
        |(name, count): (&Name, &u32)| (name.clone(), (f64::from(*count) * times).ceil() as u32);
    Fleet::Fixed(fleet.iter().map(more).collect())
}

pub(super) fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

pub(super) fn load(plan: &Plan) -> Load {
    let (work_sec, horizon) = (plan.work_sec(), plan.horizon_sec());
    let items_day = plan.items() / horizon * 86_400.0;
    let peak = plan.rates().iter().map(|rate| rate.per_sec()).fold(0.0, f64::max);
    Load {
        items_day,
        peak_items_hour: peak * 3_600.0,
        mean_gb: plan.mean_gb(),
        work_sec,
        tasks_per_item: plan.tasks_per_item(),
        busy_slots: items_day / 86_400.0 * work_sec,
        peak_busy_slots: peak * work_sec,
    }
}
