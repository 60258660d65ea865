//! The four stages of the pipeline, and the two ways to put them together.
//!
//! Naive: every sensor is one future that fetches, then computes and blocks in place. The futures share one thread, so
//! only the fetching overlaps. Correct: each stage is done for all sensors at once, on the tier that it belongs to.

use std::hint::black_box;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use divvy_guard::shell::breaker::{CallError, Circuit};
use divvy_guard::shell::clock::SystemClock;
use divvy_pool::tiers::Tier;

use crate::experiment::Error;
use crate::experiments::measured::{Stage, broken};

/// Rounds of sine and cosine that normalise a reading.
pub(super) const ROUNDS: u32 = 5_000;
/// How long storing takes.
pub(super) const STORE: Duration = Duration::from_millis(20);
const VALUE_MEAN: f64 = 50.0;
const VALUE_SPREAD: f64 = 15.0;

/// What a sensor will say, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sensor {
    fetch: Duration,
    raw: f64,
    /// Whether storing its reading fails.
    pub(super) store_fails: bool,
}

/// The sensors of a seed.
pub(super) fn sensors(count: usize, store_failing: f64, seed: u64) -> Vec<Sensor> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut sensor = || {
        let fetch = Duration::from_secs_f64(0.08 + random.f64() * 0.04);
        // Two even draws make one of a bell curve (Box and Muller, 1958).
        let (radius, angle) = (1.0 - random.f64(), random.f64() * std::f64::consts::TAU);
        let raw = VALUE_MEAN + VALUE_SPREAD * (-2.0 * radius.ln()).sqrt() * angle.cos();
        Sensor { fetch, raw, store_fails: random.f64() < store_failing }
    };
    (0..count).map(|_| sensor()).collect()
}

/// Asks a sensor.
async fn fetch(sensor: Sensor) -> f64 {
    tokio::time::sleep(sensor.fetch).await;
    sensor.raw
}

/// Computes: how far a value is from the usual, with a ripple that takes many rounds of sine and cosine.
fn normalise(raw: f64) -> f64 {
    let waves = (0..ROUNDS).map(|round| {
        let at = black_box(raw + f64::from(round));
        at.sin() * at.cos()
    });
    (raw - VALUE_MEAN) / VALUE_SPREAD + waves.sum::<f64>() / f64::from(ROUNDS)
}

/// Blocks, as a client of a database does.
fn store(fails: bool) -> Result<(), &'static str> {
    thread::sleep(STORE);
    if fails { Err("the store failed") } else { Ok(()) }
}

/// What all readings come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Aggregate {
    pub(super) count: usize,
    pub(super) mean: f64,
    pub(super) deviation: f64,
}

fn aggregate(normalised: &[f64]) -> Aggregate {
    let count = normalised.len();
    let mean = normalised.iter().sum::<f64>() / count as f64;
    let variance =
        normalised.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count as f64;
    Aggregate { count, mean, deviation: variance.sqrt() }
}

/// How long one way took. For the naive way, stages are added up over the sensors; for the correct one they are told by
/// the clock on the wall.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    /// Until the last reading was there.
    pub(super) fetch: Duration,
    pub(super) normalise: Duration,
    pub(super) store: Duration,
    pub(super) total: Duration,
    pub(super) aggregate: Aggregate,
}

/// All in place, on the one thread of the async tier.
pub(super) fn naive(stage: &Stage, sensors: &[Sensor]) -> Result<Timed, Error> {
    let start = Instant::now();
    let one = |sensor: Sensor| async move {
        let raw = fetch(sensor).await;
        let began = Instant::now();
        let normalised = normalise(raw);
        let computed = Instant::now();
        // Nothing fails here: the breaker has its own runs.
        let _stored = store(false);
        (normalised, computed - began, computed.elapsed(), sensor.fetch)
    };
    let running: Vec<_> =
        sensors.iter().map(|sensor| stage.tiers.run_on_async(one(*sensor))).collect();
    let mut timed = Timed {
        fetch: Duration::ZERO,
        normalise: Duration::ZERO,
        store: Duration::ZERO,
        total: Duration::ZERO,
        aggregate: aggregate(&[]),
    };
    let mut values = Vec::with_capacity(sensors.len());
    for one in running {
        let ended = stage.runtime.block_on(one).map_err(|error| broken(error.to_string()))?;
        values.push(ended.0);
        timed.normalise += ended.1;
        timed.store += ended.2;
        timed.fetch = timed.fetch.max(ended.3);
    }
    timed.aggregate = aggregate(&values);
    timed.total = start.elapsed();
    Ok(timed)
}

/// Whether readings were stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) successes: usize,
    pub(super) failures: usize,
    pub(super) fast_fails: usize,
}

/// Each stage for all sensors at once, on its tier; storing through a breaker if there is one.
pub(super) fn correct(
    stage: &Stage,
    sensors: &[Sensor],
    circuit: Option<&Circuit<SystemClock>>,
) -> Result<(Timed, Stored), Error> {
    let start = Instant::now();
    stage.runtime.block_on(async {
        let fetching: Vec<_> =
            sensors.iter().map(|sensor| stage.tiers.run_on_async(fetch(*sensor))).collect();
        let mut readings = Vec::with_capacity(sensors.len());
        for one in fetching {
            readings.push(one.await.map_err(|error| broken(error.to_string()))?);
        }
        let fetched = start.elapsed();
        let computing = readings.iter().map(|raw| {
            let raw = *raw;
            stage.tiers.run_on(Tier::Cpu, move || normalise(raw)).map_err(broken)
        });
        let computing = computing.collect::<Result<Vec<_>, _>>()?;
        let mut values = Vec::with_capacity(sensors.len());
        for one in computing {
            values.push(one.await.map_err(|error| broken(error.to_string()))?);
        }
        let normalised = start.elapsed();
        let stored = store_all(stage, sensors, circuit).await?;
        let aggregate = aggregate(&values);
        let total = start.elapsed();
        let timed = Timed {
            fetch: fetched,
            normalise: normalised - fetched,
            store: total - normalised,
            total,
            aggregate,
        };
        Ok((timed, stored))
    })
}

async fn store_all(
    stage: &Stage,
    sensors: &[Sensor],
    circuit: Option<&Circuit<SystemClock>>,
) -> Result<Stored, Error> {
    let circuit = circuit.cloned().map(Arc::new);
    let storing = sensors.iter().map(|sensor| {
        let (fails, circuit) = (sensor.store_fails, circuit.clone());
        let run = move || match circuit {
            None => store(fails).map_err(CallError::Inner),
            Some(circuit) => circuit.call(|| store(fails)),
        };
        stage.tiers.run_on(Tier::Blocking, run).map_err(broken)
    });
    let storing = storing.collect::<Result<Vec<_>, _>>()?;
    let mut stored = Stored::default();
    for one in storing {
        match one.await.map_err(|error| broken(error.to_string()))? {
            Ok(()) => stored.successes += 1,
            Err(CallError::Open { .. }) => stored.fast_fails += 1,
            Err(CallError::Inner(_) | CallError::ProbeTimeout) => stored.failures += 1,
        }
    }
    Ok(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sensors_repeat_and_follow_their_distribution() {
        let all = sensors(4_000, 0.15, 2);
        assert_eq!(all, sensors(4_000, 0.15, 2));
        let mean = all.iter().map(|sensor| sensor.raw).sum::<f64>() / 4_000.0;
        assert!((mean - VALUE_MEAN).abs() < 1.0, "{mean}");
        let failing = all.iter().filter(|sensor| sensor.store_fails).count() as f64 / 4_000.0;
        assert!((failing - 0.15).abs() < 0.02, "{failing}");
        let range = Duration::from_millis(80)..=Duration::from_millis(120);
        assert!(all.iter().all(|sensor| range.contains(&sensor.fetch)));
    }

    #[test]
    fn normalised_values_keep_what_tells_sensors_apart() {
        let values: Vec<f64> =
            sensors(500, 0.0, 6).iter().map(|sensor| normalise(sensor.raw)).collect();
        let found = aggregate(&values);
        assert!(found.mean.abs() < 0.2 && (found.deviation - 1.0).abs() < 0.2, "{found:?}");
    }

    #[test]
    fn the_aggregate_is_mean_and_deviation() {
        let found = aggregate(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!(found, Aggregate { count: 8, mean: 5.0, deviation: 2.0 });
    }
}
