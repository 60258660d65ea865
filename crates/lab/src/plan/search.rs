//! Decides which fleet is the cheapest that meets the goal, how far it reaches, and what each input matters to it.
//!
//! Everything is tried out, nothing derived. First the smallest fixed fleet, because more workers never make anything
//! later; the range is cut into thirds, from Erlang's guess on. Then fleets with a minimum of some of these and the rest
//! started and stopped by the autoscaler, with and without spot workers. The search uses one day of one seed; what it
//! finds is tried with all days and seeds, cheapest first, until one meets the goal on each.
//!
//! Rounds have as many runs whatever the number of threads, so that the answer is the same everywhere.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use divvy_types::Name;
use divvy_types::pools::Policy;

use super::answer::{
    Answer, Effect, Fleet, Guess, Judged, LargestLoad, Load, Relaxed, Scaled, Sensitivity,
};
use super::demand::{self, Demand};
use super::erlang;
use super::input::{Arrivals, PerHour, Plan, Worker};
use super::play::{Played, play, quantile};
use crate::experiment::{Error, Progress};

/// Days that the search plays, of as many as the plan has.
const SEARCH_DAYS: f64 = 1.0;
/// Fixed fleets are searched for these many types, the cheapest for their work first.
const TYPES_MAX: usize = 2;
/// A fixed fleet is found when the next smaller one that fails is this near.
const NEAR: f64 = 0.02;
/// The largest load is found when the next larger one that fails is this near.
const LOAD_NEAR: f64 = 0.05;
/// Loads are not tried beyond so many times the plan's.
const LOAD_MAX: f64 = 4.0;
/// Shares of the fixed fleet that are tried as a minimum.
const BASES: [f64; 2] = [0.0, 0.4];
/// Shares of workers that are not spot, where there are both.
const ON_DEMAND: [f64; 2] = [0.0, 0.4];
/// A fleet that comes and goes may become so much larger than the fixed one.
const ROOM: f64 = 1.5;
/// A fifth more or less.
const FIFTH: f64 = 0.2;
/// Candidates that are tried with all seeds.
const CONFIRMED_MAX: usize = 4;
/// What is tried instead where a goal cannot be met: a little above what is possible at all.
const RELAXED: f64 = 1.1;
/// Runs that a search usually takes, for its progress.
const RUNS_USUAL: u64 = 60;

/// A search that goes on.
pub(super) struct Search<'a, 'p> {
    /// The plan, for as many days as are searched with.
    plan: Plan,
    /// The days that what was found is tried with.
    days: f64,
    threads: usize,
    progress: &'a mut Progress<'p>,
    demand: Arc<Demand>,
    runs: u32,
}

/// A run that is wanted: this plan, with this fleet, from this seed.
struct Run {
    plan: Arc<Plan>,
    fleet: Fleet,
    seed: u64,
    /// What comes, where it was drawn already.
    demand: Option<Arc<Demand>>,
}

type Found<T> = Result<T, Error>;

impl<'a, 'p> Search<'a, 'p> {
    pub(super) fn new(plan: &Plan, threads: usize, progress: &'a mut Progress<'p>) -> Self {
        let days = plan.days;
        let plan = Plan { days: days.min(SEARCH_DAYS), ..plan.clone() };
        let demand = Arc::new(demand::draw(&plan, seed_of(0)));
        Self { plan, days, threads: threads.max(1), progress, demand, runs: 0 }
    }

    pub(super) fn answer(mut self) -> Found<Answer> {
        let fastest_sec = self.fastest(self.plan.goal.percentile / 100.0);
        let possible = fastest_sec <= self.plan.goal.within_sec;
        let guess = self.guess(fastest_sec);
        let fixed = if possible { self.fixed(&guess)? } else { Vec::new() };
        let best = self.cheapest(&fixed)?;
        let met = best.as_ref().is_some_and(|best| best.met);
        let relaxed = if met { None } else { Some(self.relaxed(fastest_sec)?) };
        let best = match best {
            Some(best) => best,
            None => self.nearest()?,
        };
        let mut others = Vec::new();
        for (fleet, _) in fixed.into_iter().take(1).filter(|(fleet, _)| *fleet != best.fleet) {
            others.push(self.judged("cheapest fixed", fleet)?);
        }
        if !self.plan.fleet.is_empty() {
            let fleet = Fleet::Fixed(self.plan.fleet.clone());
            others.push(self.judged("the plan's own", fleet)?);
        }
        let sensitivity = self.sensitivity(&best)?;
        let largest_load = if met { self.largest_load(&best)? } else { None };
        let within_budget = self.plan.budget_month.map(|budget| best.month <= budget);
        Ok(Answer {
            load: load(&self.plan),
            guess,
            met,
            within_budget,
            best,
            others,
            relaxed,
            sensitivity,
            largest_load,
            fastest_sec,
            runs: self.runs,
            plan: Plan { days: self.days, ..self.plan },
        })
    }

    /// Types that can be relied on, the cheapest for their work first; spot types only if there are no others.
    fn reliable(&self) -> Vec<Worker> {
        let mut types: Vec<&Worker> = self.plan.workers.iter().collect();
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
        let spot = self.plan.workers.iter().filter(|worker| worker.spot);
        spot.min_by(|a, b| price(a).total_cmp(&price(b))).cloned()
    }

    fn guess(&self, fastest_sec: f64) -> Guess {
        let load = load(&self.plan);
        let worker = &self.reliable()[0];
        let task_sec = load.work_sec / load.tasks_per_item / worker.speed;
        let spare_sec = (self.plan.goal.within_sec - fastest_sec).max(0.0);
        // Every stage of a chain may wait once.
        let wait = spare_sec / self.longest_chain() as f64 / task_sec;
        let late = 1.0 - self.plan.goal.percentile / 100.0;
        let slots = |busy: f64| erlang::slots_for(busy / worker.speed, wait, late, 10_000_000);
        let peak_slots = slots(load.peak_busy_slots);
        Guess {
            slots: slots(load.busy_slots),
            peak_slots,
            peak_workers: peak_slots.map(|slots| slots.div_ceil(worker.slots)),
            worker: worker.name.clone(),
        }
    }

    /// The smallest fixed fleets that meet the goal on the first seed, cheapest first.
    fn fixed(&mut self, guess: &Guess) -> Found<Vec<(Fleet, f64)>> {
        let mut found = Vec::new();
        for worker in self.reliable() {
            let ratio = self.plan.worker(&guess.worker).map_or(1.0, Worker::power) / worker.power();
            let first = f64::from(guess.peak_workers.unwrap_or(worker.max)) * ratio;
            if let Some((count, played)) = self.least(&worker, first.ceil() as u32)? {
                found.push((alone(&worker.name, count), played.month()));
            }
        }
        found.sort_by(|a, b| a.1.total_cmp(&b.1));
        Ok(found)
    }

    /// The fewest workers of one type that meet the goal.
    fn least(&mut self, worker: &Worker, guess: u32) -> Found<Option<(u32, Played)>> {
        let floor =
            ((load(&self.plan).busy_slots / worker.power() - 1e-9).ceil() as u32).saturating_sub(1);
        let floor = floor.max(worker.min.saturating_sub(1));
        let (mut fails, mut enough) = (floor.min(worker.max - 1), None);
        let mut tries =
            [guess, guess.saturating_mul(3) / 2].map(|count| count.clamp(fails + 1, worker.max));
        loop {
            let runs = tries.iter().map(|count| self.run(alone(&worker.name, *count))).collect();
            for (count, played) in tries.into_iter().zip(self.play(runs, &worker.name)?) {
                if !self.meets(&played) {
                    fails = fails.max(count);
                } else if enough.as_ref().is_none_or(|(known, _)| count < *known) {
                    enough = Some((count, played));
                }
            }
            let Some((most, _)) = &enough else {
                if fails >= worker.max {
                    return Ok(None);
                }
                tries = [2, 4].map(|times| fails.saturating_mul(times).min(worker.max));
                continue;
            };
            let gap = most.saturating_sub(fails);
            if gap <= 1 || f64::from(gap) <= NEAR * f64::from(*most) {
                return Ok(enough);
            }
            tries = [1, 2].map(|third| (fails + gap * third / 3).clamp(fails + 1, most - 1));
        }
    }

    /// The cheapest fleet that meets the goal on every seed.
    fn cheapest(&mut self, fixed: &[(Fleet, f64)]) -> Found<Option<Judged>> {
        let Some((Fleet::Fixed(first), _)) = fixed.first().cloned() else { return Ok(None) };
        let mut candidates: Vec<(Fleet, f64)> = fixed.to_vec();
        let tried = self.with_bases(&first);
        candidates.extend(self.meeting(tried, "fleets that come and go")?);
        candidates.sort_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((Fleet::Scaled(scaled), _)) = candidates.first().cloned() {
            let near = near(&scaled, first.values().sum());
            candidates.extend(self.meeting(near, "around the best")?);
            candidates.sort_by(|a, b| a.1.total_cmp(&b.1));
        }
        let mut nearest = None;
        for (fleet, _) in candidates.into_iter().take(CONFIRMED_MAX) {
            if nearest.is_some() && !self.holds_once_more(&fleet)? {
                continue;
            }
            let judged = self.judged("cheapest", fleet)?;
            if judged.met {
                return Ok(Some(judged));
            }
            nearest.get_or_insert(judged);
        }
        // What was just enough on one seed was not on another: some more of the same are.
        for more in [1.02, 1.05, 1.1, 1.2] {
            let judged = self.judged("cheapest", larger(&first, more))?;
            if judged.met {
                return Ok(Some(judged));
            }
        }
        Ok(nearest)
    }

    /// Whether a fleet meets the goal on the last seed too: whoever fails there need not be tried with all.
    fn holds_once_more(&mut self, fleet: &Fleet) -> Found<bool> {
        let plan = Arc::new(Plan { days: self.days, ..self.plan.clone() });
        let seed = seed_of(self.plan.seeds - 1);
        let run = Run { plan, fleet: fleet.clone(), seed, demand: None };
        let played = &self.play(vec![run], "cheapest")?[0];
        Ok(self.meets(played))
    }

    /// Fleets whose minimum is a part of the fixed fleet, without and with spot workers.
    fn with_bases(&self, fixed: &BTreeMap<Name, u32>) -> Vec<Fleet> {
        let Some((name, count)) = fixed.first_key_value() else { return Vec::new() };
        let firm = self.plan.worker(name);
        let spot = self.spot().filter(|spot| spot.name != *name);
        let most = |worker: Option<&Worker>| worker.map_or(0, |worker| worker.max);
        let mut fleets = Vec::new();
        for share in BASES {
            let least = firm.map_or(0, |firm| firm.min);
            let min = ((f64::from(*count) * share).round() as u32).max(least);
            let room = (f64::from(*count) * ROOM).ceil() as u32 + 1;
            let scaled = Scaled {
                types: vec![name.clone()],
                min,
                max: room.min(most(firm)).max(min),
                policy: Policy::Objective,
                on_demand: 1.0,
            };
            fleets.push(Fleet::Scaled(scaled.clone()));
            let Some(spot) = &spot else { continue };
            let ratio = firm.map_or(1.0, |firm| (firm.power() / spot.power()).max(1.0));
            let room = (f64::from(room) * ratio).ceil() as u32;
            let max = room.min(most(firm).saturating_add(spot.max)).max(min);
            let types = vec![name.clone(), spot.name.clone()];
            for on_demand in ON_DEMAND {
                let types = types.clone();
                fleets.push(Fleet::Scaled(Scaled { types, max, on_demand, ..scaled.clone() }));
            }
        }
        fleets.dedup();
        fleets
    }

    /// Those that meet the goal on the first seed, with their cost.
    fn meeting(&mut self, fleets: Vec<Fleet>, what: &str) -> Found<Vec<(Fleet, f64)>> {
        let runs = fleets.iter().map(|fleet| self.run(fleet.clone())).collect();
        let played = self.play(runs, what)?;
        let met = fleets.into_iter().zip(played).filter(|(_, played)| self.meets(played));
        Ok(met.map(|(fleet, played)| (fleet, played.month())).collect())
    }

    /// What there can be at most, where nothing meets the goal.
    fn nearest(&mut self) -> Found<Judged> {
        let worker = &self.reliable()[0];
        let needed = load(&self.plan).peak_busy_slots / worker.power() * ROOM;
        let count = (needed.ceil() as u32).clamp(1, worker.max);
        let fleet = alone(&worker.name, count);
        self.judged("nearest", fleet)
    }

    /// The cheapest fixed fleet for the nearest goal that can be met, or with as many workers as it takes.
    fn relaxed(&mut self, fastest_sec: f64) -> Found<Relaxed> {
        let (kept, demand) = (self.plan.clone(), Arc::clone(&self.demand));
        let possible = fastest_sec <= kept.goal.within_sec;
        if !possible {
            let within = fastest_sec * RELAXED;
            self.plan.goal.within_sec = (within / 60.0).ceil() * 60.0;
            if within < 60.0 {
                self.plan.goal.within_sec = within.ceil();
            }
            self.demand = Arc::new(demand::draw(&self.plan, seed_of(0)));
        }
        for worker in &mut self.plan.workers {
            worker.max = 100_000;
        }
        let guess = self.guess(fastest_sec);
        let fixed = self.fixed(&guess)?;
        let within_sec = self.plan.goal.within_sec;
        (self.plan, self.demand) = (kept, demand);
        let cheapest = fixed.into_iter().next();
        let (fleet, month) = cheapest.map_or((None, None), |(f, m)| (Some(f), Some(m)));
        Ok(Relaxed { possible, within_sec, fleet, month })
    }

    fn sensitivity(&mut self, best: &Judged) -> Found<Vec<Sensitivity>> {
        let inputs = inputs(&self.plan);
        let mut runs = Vec::new();
        for (_, change) in &inputs {
            for factor in [1.0 - FIFTH, 1.0 + FIFTH] {
                let mut plan = self.plan.clone();
                change(&mut plan, factor);
                let (plan, fleet) = (Arc::new(plan), best.fleet.clone());
                runs.push(Run { plan, fleet, seed: seed_of(0), demand: None });
            }
        }
        let goals: Vec<f64> = runs.iter().map(|run| run.plan.goal.within_sec).collect();
        let played = self.play(runs, "a fifth more and less of each input")?;
        let share = self.plan.goal.percentile / 100.0;
        let effect = |(played, within): (&Played, &f64)| Effect {
            met: quantile(&played.ends, share) <= *within,
            missed: played.missed_share(),
            goal_sec: finite(quantile(&played.ends, share)),
            month: played.month(),
        };
        let effects: Vec<Effect> = played.iter().zip(&goals).map(effect).collect();
        let pairs = inputs.into_iter().zip(effects.chunks(2));
        let one = |((input, _), pair): ((String, _), &[Effect])| Sensitivity {
            input,
            less: pair[0],
            more: pair[1],
        };
        Ok(pairs.map(one).chain([prices(best)]).collect())
    }

    /// How far the arrivals can grow before this fleet misses the goal on the first seed.
    fn largest_load(&mut self, best: &Judged) -> Found<Option<LargestLoad>> {
        let (mut holds, mut fails, mut month) = (1.0, LOAD_MAX, best.month);
        let mut tries = [1.1, 1.3];
        while fails / holds > 1.0 + LOAD_NEAR {
            let runs = tries.iter().map(|factor| {
                let mut plan = self.plan.clone();
                times_arrivals(&mut plan.arrivals, *factor);
                let (plan, fleet) = (Arc::new(plan), best.fleet.clone());
                Run { plan, fleet, seed: seed_of(0), demand: None }
            });
            let runs = runs.collect();
            for (factor, played) in tries.into_iter().zip(self.play(runs, "the largest load")?) {
                match self.meets(&played) {
                    true if factor > holds => (holds, month) = (factor, played.month()),
                    true => {}
                    false => fails = fails.min(factor),
                }
            }
            if holds >= fails {
                break;
            }
            let third = (fails / holds).powf(1.0 / 3.0);
            tries = [holds * third, holds * third * third];
        }
        let items_day = load(&self.plan).items_day * holds;
        let at_least = fails >= LOAD_MAX;
        Ok(Some(LargestLoad { factor: holds, items_day, at_least, month }))
    }

    /// A fleet over all seeds.
    fn judged(&mut self, name: &str, fleet: Fleet) -> Found<Judged> {
        let plan = Arc::new(Plan { days: self.days, ..self.plan.clone() });
        let run = |number: u32| Run {
            plan: Arc::clone(&plan),
            fleet: fleet.clone(),
            seed: seed_of(number),
            demand: None,
        };
        let runs = (0..self.plan.seeds).map(run).collect();
        let played = self.play(runs, name)?;
        Ok(Judged::new(name, fleet.clone(), &self.plan, &played))
    }

    fn meets(&self, played: &Played) -> bool {
        quantile(&played.ends, self.plan.goal.percentile / 100.0) <= self.plan.goal.within_sec
    }

    fn run(&self, fleet: Fleet) -> Run {
        let demand = Some(Arc::clone(&self.demand));
        Run { plan: Arc::new(self.plan.clone()), fleet, seed: seed_of(0), demand }
    }

    /// Plays all, as many at once as there are threads; the outcomes are in the order of the runs.
    fn play(&mut self, runs: Vec<Run>, what: &str) -> Found<Vec<Played>> {
        let done = u64::from(self.runs);
        let usual = RUNS_USUAL.max(done + runs.len() as u64);
        self.progress.step(what, done, usual)?;
        let (next, (send, played)) = (AtomicUsize::new(0), mpsc::channel());
        let mut all: Vec<Option<Played>> = vec![None; runs.len()];
        std::thread::scope(|scope| {
            for _ in 0..self.threads.min(runs.len()) {
                let (send, next, runs) = (send.clone(), &next, &runs);
                scope.spawn(move || {
                    while let Some((place, run)) = take(next, runs) {
                        // Whoever does not listen any more wants no more either.
                        if send.send((place, run.play())).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(send);
            for (place, one) in played {
                all[place] = Some(one?);
                self.runs += 1;
                self.progress.step(what, u64::from(self.runs), usual)?;
            }
            Ok(all.into_iter().map(|one| one.expect("every run is played")).collect())
        })
    }

    /// The time that this share of items stays below if nobody ever waits.
    fn fastest(&self, share: f64) -> f64 {
        let speed = self.plan.workers.iter().map(|worker| worker.speed).fold(0.0, f64::max);
        let tasks = &self.demand.given.tasks;
        let mut ends = vec![0.0_f64; tasks.len()];
        for (place, task) in tasks.iter().enumerate() {
            let begins = task.parents.iter().map(|parent| ends[*parent]).fold(0.0, f64::max);
            ends[place] = begins + task.run.as_secs_f64() / speed;
        }
        let longest = self
            .demand
            .items
            .iter()
            .map(|item| ends[item.tasks.0..item.tasks.1].iter().copied().fold(0.0, f64::max));
        let mut longest: Vec<f64> = longest.collect();
        longest.sort_unstable_by(f64::total_cmp);
        quantile(&longest, share)
    }

    /// Stages of the longest chain.
    fn longest_chain(&self) -> usize {
        let mut depths: Vec<usize> = Vec::new();
        for stage in &self.plan.stages {
            let before = self.plan.stages.iter().zip(&depths);
            let waited = before.filter(|(other, _)| stage.after.contains(&other.name));
            depths.push(1 + waited.map(|(_, depth)| *depth).max().unwrap_or(0));
        }
        depths.into_iter().max().unwrap_or(1)
    }
}

impl Run {
    fn play(&self) -> Found<Played> {
        match &self.demand {
            Some(demand) => play(&self.plan, &self.fleet, demand, self.seed),
            None => play(&self.plan, &self.fleet, &demand::draw(&self.plan, self.seed), self.seed),
        }
    }
}

/// The next run that nobody plays yet, with its place.
fn take<'a>(next: &AtomicUsize, runs: &'a [Run]) -> Option<(usize, &'a Run)> {
    let place = next.fetch_add(1, Ordering::Relaxed);
    Some((place, runs.get(place)?))
}

/// A fleet that never changes.
fn alone(name: &Name, count: u32) -> Fleet {
    Fleet::Fixed([(name.clone(), count)].into())
}

/// Fleets like this one: a little more or less of a base, and other ways to find the number.
fn near(scaled: &Scaled, fixed: u32) -> Vec<Fleet> {
    let step = (f64::from(fixed) * BASES[1] / 2.0).ceil() as u32;
    let min = |min: u32| Fleet::Scaled(Scaled { min: min.min(scaled.max), ..scaled.clone() });
    let policy = |policy| Fleet::Scaled(Scaled { policy, ..scaled.clone() });
    vec![
        min(scaled.min.saturating_sub(step)),
        min(scaled.min + step),
        policy(Policy::Queue),
        policy(Policy::Predictive),
    ]
}

fn larger(fleet: &BTreeMap<Name, u32>, times: f64) -> Fleet {
    let more =
        |(name, count): (&Name, &u32)| (name.clone(), (f64::from(*count) * times).ceil() as u32);
    Fleet::Fixed(fleet.iter().map(more).collect())
}

/// Prices that all change alike change nothing but the money.
fn prices(best: &Judged) -> Sensitivity {
    let times = |factor: f64| Effect {
        met: best.met,
        missed: best.missed,
        goal_sec: best.end.goal,
        month: best.month * factor,
    };
    Sensitivity { input: "prices".into(), less: times(1.0 - FIFTH), more: times(1.0 + FIFTH) }
}

/// Seeds of one plan, apart from each other.
fn seed_of(number: u32) -> u64 {
    fastrand::Rng::with_seed(u64::from(number) + 1).u64(..)
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

type Change = fn(&mut Plan, f64);

/// The inputs that a plan has, and how each is changed.
fn inputs(plan: &Plan) -> Vec<(String, Change)> {
    let mut inputs: Vec<(&str, Change)> = vec![
        ("arrivals", |plan, factor| times_arrivals(&mut plan.arrivals, factor)),
        ("sizes", |plan, factor| {
            for class in &mut plan.sizes {
                for size in [&mut class.from_gb, &mut class.to_gb, &mut class.mean_gb] {
                    *size = size.map(|size| size * factor);
                }
            }
        }),
        ("run times", |plan, factor| {
            for stage in &mut plan.stages {
                stage.sec *= factor;
                stage.sec_per_gb *= factor;
            }
        }),
        ("time of the goal", |plan, factor| plan.goal.within_sec *= factor),
    ];
    if plan.workers.iter().any(|worker| worker.boot_sec > 0.0) {
        inputs.push(("boot times", |plan, factor| {
            plan.workers.iter_mut().for_each(|worker| worker.boot_sec *= factor);
        }));
    }
    if plan.workers.iter().any(|worker| worker.interruptions_hour > 0.0) {
        inputs.push(("interruptions", |plan, factor| {
            plan.workers.iter_mut().for_each(|worker| worker.interruptions_hour *= factor);
        }));
    }
    if plan.priority > 0.0 {
        inputs.push(("priority users", |plan, factor| {
            plan.priority = (plan.priority * factor).min(100.0);
        }));
    }
    inputs.into_iter().map(|(name, change)| (name.to_owned(), change)).collect()
}

fn times_arrivals(arrivals: &mut Arrivals, factor: f64) {
    match &mut arrivals.per_hour {
        Some(PerHour::Same(count)) => *count *= factor,
        Some(PerHour::OfDay(counts)) => counts.iter_mut().for_each(|count| *count *= factor),
        None => {}
    }
    arrivals.counts.iter_mut().for_each(|count| count.items *= factor);
}
