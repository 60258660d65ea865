//! Thirty calls to a service that works, fails or hangs: once the breaker is open, nobody waits for it any more.
#![cfg(feature = "async")]

use std::time::Duration;

use divvy_guard::breaker::{Breaker, Settings, State};
use divvy_guard::shell::breaker::{CallError, Circuit};
use tokio::time::{Instant, sleep, timeout};

const CALLS: u32 = 30;
const OUTER_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug, PartialEq)]
enum Answer {
    Degraded,
    HungUp,
}

/// Works six times in ten, fails three times, and else hangs for three seconds.
async fn fetch(chance: f64) -> Result<u32, Answer> {
    sleep(Duration::from_millis(20)).await;
    if chance < 0.6 {
        return Ok(1);
    }
    if chance < 0.9 {
        return Err(Answer::Degraded);
    }
    sleep(Duration::from_secs(3)).await;
    Err(Answer::HungUp)
}

#[derive(Debug, Default, PartialEq)]
struct Tally {
    successes: u32,
    errors: u32,
    refused: u32,
    timeouts: u32,
    opened: u64,
}

async fn thirty_calls(settings: Settings, seed: u64) -> Tally {
    let circuit = Circuit::new(Breaker::new(settings).expect("sane settings"));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut tally = Tally::default();
    for _ in 0..CALLS {
        let (before, started) = (circuit.breaker().state(), Instant::now());
        match timeout(OUTER_TIMEOUT, circuit.call_async(fetch(random.f64()))).await {
            Ok(Ok(_)) => tally.successes += 1,
            Ok(Err(CallError::Inner(Answer::Degraded))) => tally.errors += 1,
            Ok(Err(CallError::Open { .. })) => {
                tally.refused += 1;
                assert_eq!(started.elapsed(), Duration::ZERO, "a refusal takes no time");
            }
            Ok(Err(CallError::ProbeTimeout)) | Err(_) => {
                tally.timeouts += 1;
                let limit = if before == State::Closed { 1_000 } else { 500 };
                assert_eq!(started.elapsed(), Duration::from_millis(limit), "from {before}");
            }
            Ok(Err(CallError::Inner(Answer::HungUp))) => panic!("nobody waits three seconds"),
        }
        sleep(Duration::from_millis(100)).await;
    }
    let metrics = circuit.breaker().metrics(circuit.now());
    tally.opened = metrics.opened;
    assert_eq!(metrics.rejected, u64::from(tally.refused));
    assert_eq!(metrics.calls + metrics.cancelled, u64::from(CALLS - tally.refused));
    tally
}

#[tokio::test(start_paused = true)]
async fn outcomes_add_up_and_nobody_hangs_once_it_is_open() {
    let mut opened = 0;
    for seed in 0..50 {
        let settings = Settings {
            cancelled_fails_after: Some(OUTER_TIMEOUT),
            ..Settings::for_quick_recovery()
        };
        let tally = thirty_calls(settings, seed).await;
        assert_eq!(tally.successes + tally.errors + tally.refused + tally.timeouts, CALLS);
        assert_eq!(tally.opened > 0, tally.refused > 0, "{tally:?}");
        opened += tally.opened;
    }
    assert!(opened > 25, "three in a row out of four in ten happens in most runs, not {opened}");
}

#[tokio::test(start_paused = true)]
async fn a_run_repeats() {
    let settings = Settings { open_jitter: 0.5, ..Settings::for_quick_recovery() };
    let first = thirty_calls(settings.clone(), 7).await;
    assert_eq!(thirty_calls(settings, 7).await, first);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_only_hangs_opens_the_breaker_of_callers_that_give_up() {
    for (fails_after, refused) in [(None, 0), (Some(OUTER_TIMEOUT), 7)] {
        let settings =
            Settings { cancelled_fails_after: fails_after, ..Settings::for_quick_recovery() };
        let circuit = Circuit::new(Breaker::new(settings).unwrap());
        let mut count = 0;
        for _ in 0..10 {
            let call = timeout(OUTER_TIMEOUT, circuit.call_async(fetch(0.95))).await;
            count += u32::from(matches!(call, Ok(Err(CallError::Open { .. }))));
        }
        assert_eq!(count, refused, "{fails_after:?}");
    }
}
