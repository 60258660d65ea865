//! Decides what a plan would have said of items that came at known times: to compare with what really happened.

use std::collections::BTreeMap;
use std::time::Duration;

use super::answer::Fleet;
use super::demand;
use super::input::{Plan, Worker};
use super::play::{play, quantile};
use crate::experiment::Error;

/// What is predicted, in seconds from arrival to done.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Predicted {
    /// Half are shorter.
    pub p50: f64,
    /// 95 % are shorter.
    pub p95: f64,
}

/// Predicts for items of these arrivals in seconds and sizes in gigabytes, with a fixed number of workers of one type.
/// The middle of what several seeds say, because run times vary.
///
/// # Errors
/// If the simulation refuses something.
pub fn predict(
    plan: &Plan,
    items: &[(f64, f64)],
    worker: &Worker,
    seeds: u32,
) -> Result<Predicted, Error> {
    let fleet = Fleet::Fixed(BTreeMap::from([(worker.name.clone(), 1)]));
    let items: Vec<(Duration, f64)> =
        items.iter().map(|(at, size)| (Duration::from_secs_f64(at.max(0.0)), *size)).collect();
    let (mut middles, mut tails) = (Vec::new(), Vec::new());
    for seed in 0..u64::from(seeds.max(1)) {
        let demand = demand::of_items(plan, &items, seed);
        let played = play(plan, &fleet, &demand, seed, true)?;
        middles.push(quantile(&played.ends, 0.5));
        tails.push(quantile(&played.ends, 0.95));
    }
    let middle = |mut values: Vec<f64>| {
        values.sort_unstable_by(f64::total_cmp);
        quantile(&values, 0.5)
    };
    Ok(Predicted { p50: middle(middles), p95: middle(tails) })
}

/// The same percentiles of times that were measured, in seconds.
pub fn measured(mut times: Vec<f64>) -> Predicted {
    times.sort_unstable_by(f64::total_cmp);
    Predicted { p50: quantile(&times, 0.5), p95: quantile(&times, 0.95) }
}
