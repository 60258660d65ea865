//! Decides how far the best fleet reaches: what a fifth more or less of each input does to it, and how much more load it
//! carries.

use std::sync::Arc;

use divvy_types::Name;

use super::answer::{Effect, Fleet, Judged, LargestLoad, Sensitivity};
use super::fluid::Flow;
use super::input::{Arrivals, PerHour, Plan, Worker};
use super::play::{Played, quantile};
use super::runs::Run;
use super::search::{Found, Search, finite, load};

/// A fifth more or less.
const FIFTH: f64 = 0.2;
/// The largest load is found when the next larger one that fails is this near.
const LOAD_NEAR: f64 = 0.05;
/// Loads are not tried beyond so many times the plan's.
const LOAD_MAX: f64 = 4.0;

impl Search<'_, '_> {
    /// All changes face the same chance: one day of the hardest seed of the search.
    pub(super) fn sensitivity(&mut self, best: &Judged) -> Found<Vec<Sensitivity>> {
        let inputs = inputs(&self.course.plan, &best.fleet);
        let mut runs = Vec::new();
        for (_, change) in &inputs {
            for factor in [1.0 - FIFTH, 1.0 + FIFTH] {
                let mut plan = Plan::clone(&self.course.plan);
                change(&mut plan, factor);
                let (plan, fleet) = (Arc::new(plan), best.fleet.clone());
                let seed = self.course.demands[0].0;
                runs.push(Run { plan, fleet, seed, demand: None, whole: true });
            }
        }
        let goals: Vec<f64> = runs.iter().map(|run| run.plan.goal.within_sec).collect();
        let played = self.runs.play(runs, "a fifth more and less of each input")?;
        let share = self.course.plan.goal.percentile / 100.0;
        let effect = |(played, within): (&Played, &f64)| Effect {
            met: quantile(&played.ends, share) <= *within,
            missed: played.missed_share(),
            goal_sec: finite(quantile(&played.ends, share)),
            month: played.month(),
        };
        let effects: Vec<Effect> = played.iter().zip(&goals).map(effect).collect();
        let pairs = inputs.into_iter().zip(effects.chunks(2));
        let one = |((input, _), pair): ((&str, _), &[Effect])| Sensitivity {
            input: input.to_owned(),
            less: pair[0],
            more: pair[1],
        };
        Ok(pairs.map(one).chain([prices(best)]).collect())
    }

    /// How far the arrivals can grow before this fleet misses the goal on the hardest seed of the search.
    pub(super) fn largest_load(&mut self, best: &Judged) -> Found<Option<LargestLoad>> {
        let (mut holds, mut fails, mut month) = (1.0, LOAD_MAX, best.month);
        let guess = self.load_guess(&best.fleet).clamp(1.03, LOAD_MAX / 1.03);
        let half = (1.0 + LOAD_NEAR * 0.98).sqrt();
        let mut tries = [guess / half, guess * half];
        while fails / holds > 1.0 + LOAD_NEAR {
            let loads = tries.iter().map(|factor| {
                let mut plan = Plan::clone(&self.course.plan);
                times_arrivals(&mut plan.arrivals, *factor);
                (Arc::new(plan), best.fleet.clone())
            });
            let loads: Vec<_> = loads.collect();
            for (factor, met) in
                tries.iter().zip(self.on_seeds(&loads, 0..1, "the largest load")?)
            {
                match met {
                    Some(paid) if *factor > holds => (holds, month) = (*factor, paid),
                    Some(_) => {}
                    None => fails = fails.min(*factor),
                }
            }
            let third = (fails / holds).powf(1.0 / 3.0);
            // What was guessed is near what is true.
            tries = match (holds > 1.0, fails < LOAD_MAX) {
                (false, true) => [half.powi(-6), half.powi(-3)].map(|by| fails * by),
                (true, false) => [half.powi(3), half.powi(6)].map(|by| holds * by),
                _ => [holds * third, holds * third * third],
            };
            tries.iter_mut().for_each(|factor| *factor = factor.clamp(1.01, LOAD_MAX));
        }
        let items_day = load(&self.course.plan).items_day * holds;
        let at_least = fails >= LOAD_MAX;
        Ok(Some(LargestLoad { factor: holds, items_day, at_least, month }))
    }

    /// How many times the load the largest number of workers could do, if work were water.
    fn load_guess(&self, fleet: &Fleet) -> f64 {
        let plan = &self.course.plan;
        let of = |name: &Name| plan.worker(name).map_or(0.0, Worker::power);
        let (power, speed) = match fleet {
            Fleet::Fixed(counts) => {
                let power = counts.iter().map(|(name, count)| f64::from(*count) * of(name)).sum();
                (power, counts.keys().next())
            }
            Fleet::Scaled(scaled) => {
                let each = scaled.types.iter().map(of).fold(f64::INFINITY, f64::min);
                (f64::from(scaled.max) * each, scaled.types.first())
            }
        };
        let speed = speed.and_then(|name| plan.worker(name)).map_or(1.0, |worker| worker.speed);
        let least = Flow::new(plan, &self.course.demands[0].1, speed).least_slots() * speed;
        if least > 0.0 { power / (least * self.course.optimism) } else { LOAD_MAX }
    }
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

type Change = fn(&mut Plan, f64);

/// The inputs of a plan that matter to a fleet, and how each is changed.
fn inputs(plan: &Plan, fleet: &Fleet) -> Vec<(&'static str, Change)> {
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
    // Workers that are always there neither boot nor are taken away.
    let coming = |worker: &&Worker| match fleet {
        Fleet::Fixed(_) => false,
        Fleet::Scaled(scaled) => scaled.types.contains(&worker.name),
    };
    let coming: Vec<&Worker> = plan.workers.iter().filter(coming).collect();
    if coming.iter().any(|worker| worker.boot_sec > 0.0) {
        inputs.push(("boot times", |plan, factor| {
            plan.workers.iter_mut().for_each(|worker| worker.boot_sec *= factor);
        }));
    }
    if coming.iter().any(|worker| worker.interruptions_hour > 0.0) {
        inputs.push(("interruptions", |plan, factor| {
            plan.workers.iter_mut().for_each(|worker| worker.interruptions_hour *= factor);
        }));
    }
    if plan.priority > 0.0 {
        inputs.push(("priority users", |plan, factor| {
            plan.priority = (plan.priority * factor).min(100.0);
        }));
    }
    inputs
}

fn times_arrivals(arrivals: &mut Arrivals, factor: f64) {
    match &mut arrivals.per_hour {
        Some(PerHour::Same(count)) => *count *= factor,
        Some(PerHour::OfDay(counts)) => counts.iter_mut().for_each(|count| *count *= factor),
        None => {}
    }
    arrivals.counts.iter_mut().for_each(|count| count.items *= factor);
}
