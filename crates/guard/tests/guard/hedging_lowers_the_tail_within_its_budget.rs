//! Thousands of calls to a part with a slow tail, with and without hedges, on a paused clock.

#![cfg(feature = "async")]

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use divvy_guard::hedge::{Settings, Statistics};
use divvy_guard::shell::hedge::Hedger;
use divvy_guard::timeout::{self, SharedTracker};
use tokio::time::{Instant, sleep};

const CALLS: u64 = 4000;

/// Runs the calls one after another; `hedges_per_100` is what the budget pays for. Gives the latencies in order.
async fn run(hedges_per_100: u64, slow_per_100: u64) -> (Vec<Duration>, Statistics) {
    let rng = RefCell::new(fastrand::Rng::with_seed(3));
    let settings = timeout::Settings { window: 200, minimum: 50, ..timeout::Settings::default() };
    let tracker = Arc::new(SharedTracker::new(settings).unwrap());
    let (begun, spent) = (Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
    let calls = Arc::clone(&begun);
    let may_spend = move || {
        let may = (spent.load(Ordering::Relaxed) + 1) * 100
            <= calls.load(Ordering::Relaxed) * hedges_per_100;
        spent.fetch_add(u64::from(may), Ordering::Relaxed);
        may
    };
    let hedger = Hedger::new(Settings::default(), tracker, may_spend).unwrap();
    let mut latencies = Vec::new();
    for _ in 0..CALLS {
        begun.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        let ask = |_attempt| {
            let mut rng = rng.borrow_mut();
            let slow = rng.u64(0..100) < slow_per_100;
            let wait = if slow { rng.u64(300..500) } else { rng.u64(10..30) };
            async move {
                sleep(Duration::from_millis(wait)).await;
                Ok::<_, ()>(())
            }
        };
        hedger.call(ask).await.unwrap();
        latencies.push(began.elapsed());
    }
    latencies.sort_unstable();
    (latencies, hedger.statistics())
}

fn percentile(latencies: &[Duration], percent: usize) -> Duration {
    latencies[latencies.len() * percent / 100 - 1]
}

#[tokio::test(start_paused = true)]
async fn the_ninety_ninth_percentile_falls() {
    let (without, nothing) = run(0, 3).await;
    let (with, statistics) = run(10, 3).await;
    assert_eq!(nothing.sent, 0);
    let (before, after) = (percentile(&without, 99), percentile(&with, 99));
    assert!(before >= Duration::from_millis(300), "{before:?}");
    assert!(after <= before / 3, "p99 went from {before:?} to {after:?}");
    assert!(percentile(&with, 50) <= percentile(&without, 50) + Duration::from_millis(1));
    assert!(statistics.sent * 100 <= CALLS * 10, "{statistics:?}");
    assert!(statistics.won > 0 && statistics.won <= statistics.sent, "{statistics:?}");
}

#[tokio::test(start_paused = true)]
async fn a_part_that_is_slow_throughout_gets_no_more_than_the_budget() {
    let (_, statistics) = run(2, 60).await;
    assert!(statistics.sent * 100 <= CALLS * 2, "{statistics:?}");
    assert!(statistics.over_budget > 0, "{statistics:?}");
}
