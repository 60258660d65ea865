//! Calls that are tried again: how often, when, and when not.
#![cfg(feature = "async")]

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use divvy_guard::backoff::{Backoff, Jitter};
use divvy_guard::breaker::{self, Breaker};
use divvy_guard::budget::{self, Budget};
use divvy_guard::retry::{Policy, Reason, Settings, Verdict};
use divvy_guard::shell::breaker::Circuit;
use divvy_guard::shell::clock::{Clock, RuntimeClock};
use divvy_guard::shell::retry::Retrier;
use tokio::time::Instant;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn settings() -> Settings {
    let backoff = Backoff::new(ms(100), 2.0, ms(1_000), Jitter::None).expect("sane waits");
    Settings { attempts_max: 5, backoff, ..Settings::default() }
}

fn policy() -> Policy {
    Policy::new(settings()).expect("sane settings")
}

#[tokio::test(start_paused = true)]
async fn it_is_tried_until_it_works_with_growing_waits() {
    let (tries, started) = (Cell::new(0), Instant::now());
    let result = Retrier::new(policy())
        .run(
            || async {
                tries.set(tries.get() + 1);
                if tries.get() == 4 { Ok("done") } else { Err("not yet") }
            },
            |_| Verdict::Retry,
        )
        .await;
    assert_eq!((result, tries.get()), (Ok("done"), 4));
    assert_eq!(started.elapsed(), ms(100 + 200 + 400));
}

#[tokio::test(start_paused = true)]
async fn the_last_error_is_kept_with_the_reason() {
    let retrier = Retrier::new(policy());
    let gave_up = retrier.run(|| async { Err::<(), _>("down") }, |_| Verdict::Retry).await;
    let gave_up = gave_up.unwrap_err();
    assert_eq!((gave_up.attempts, gave_up.reason), (5, Reason::AttemptsSpent));
    assert_eq!(gave_up.to_string(), "down (after 5 tries: all tries are used up)");
    let gave_up = retrier.run(|| async { Err::<(), _>("no such thing") }, |_| Verdict::Stop).await;
    assert_eq!(gave_up.unwrap_err().attempts, 1);
}

#[tokio::test(start_paused = true)]
async fn it_does_not_wait_when_the_deadline_comes_first() {
    let retrier = Retrier::new(policy());
    let started = Instant::now();
    let deadline = Some(retrier.clock().now() + ms(250));
    let call = || async { Err::<(), _>("down") };
    let gave_up = retrier.run_until(deadline, call, |_| Verdict::Retry).await.unwrap_err();
    assert_eq!((gave_up.attempts, gave_up.reason), (2, Reason::DeadlineTooNear));
    assert_eq!(started.elapsed(), ms(100));
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_opens_ends_the_retries() {
    let clock = RuntimeClock::default();
    let breaker = Arc::new(Breaker::new(breaker::Settings::for_quick_recovery()).unwrap());
    let circuit = Circuit::with_clock(Arc::clone(&breaker), clock);
    let retrier = Retrier::with_clock(policy().with_gate(breaker), clock);
    let gave_up = retrier
        .run(
            || circuit.call_async(async { Err::<(), _>("down") }),
            |error| error.verdict(|_| Verdict::Retry),
        )
        .await
        .unwrap_err();
    assert_eq!((gave_up.attempts, gave_up.reason), (3, Reason::GateClosed));
    assert_eq!(circuit.breaker().metrics(circuit.now()).rejected, 0, "nothing ran into it");
    let gave_up = retrier
        .run(
            || circuit.call_async(async { Err::<(), _>("down") }),
            |error| error.verdict(|_| Verdict::Retry),
        )
        .await
        .unwrap_err();
    assert_eq!((gave_up.attempts, gave_up.reason), (1, Reason::Stopped));
}

#[tokio::test(start_paused = true)]
async fn when_everything_fails_the_budget_keeps_the_load_down() {
    let settings = budget::Settings { floor_per_second: 1.0, ..budget::Settings::default() };
    let budget = Arc::new(Budget::new(settings).unwrap());
    let retrier = Retrier::new(policy().with_budget(budget));
    let tries = Cell::new(0);
    for _ in 0..100 {
        let call = || async {
            tries.set(tries.get() + 1);
            Err::<(), _>("down")
        };
        assert!(retrier.run(call, |_| Verdict::Retry).await.is_err());
    }
    assert!(
        (110..=130).contains(&tries.get()),
        "100 calls and some 10 retries, not {}",
        tries.get()
    );
}
