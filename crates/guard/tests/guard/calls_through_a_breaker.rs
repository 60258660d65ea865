//! Functions and futures under a breaker: what they return, what they count as, and what a cancelled one gives back.
#![cfg(feature = "async")]

use std::cell::Cell;
use std::future::Future as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use divvy_guard::breaker::{Breaker, Outcome, Settings, State};
use divvy_guard::shell::breaker::{CallError, Circuit};
use divvy_guard::shell::clock::Clock;
use tokio::time::{Instant, sleep, timeout};

fn breaker() -> Breaker {
    Breaker::new(Settings::for_quick_recovery()).expect("sane settings")
}

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
struct StillClock(AtomicU64);

impl Clock for StillClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

async fn half_open(circuit: &Circuit) {
    for _ in 0..3 {
        let failed: Result<(), _> = circuit.call_async(async { Err("down") }).await;
        assert_eq!(failed, Err(CallError::Inner("down")));
    }
    sleep(Duration::from_secs(2)).await;
}

#[test]
fn a_function_without_a_runtime_goes_the_whole_way_round() {
    let clock = Arc::new(StillClock::default());
    let circuit = Circuit::with_clock(breaker(), Arc::clone(&clock));
    for _ in 0..3 {
        assert_eq!(circuit.call(|| Err::<(), _>("down")), Err(CallError::Inner("down")));
    }
    let called = Cell::new(false);
    let refused = circuit.call(|| {
        called.set(true);
        Ok::<_, &str>(())
    });
    let retry_after = Some(Duration::from_secs(2));
    assert_eq!(refused, Err(CallError::Open { retry_after }));
    assert!(!called.get());
    clock.0.store(2_000, Ordering::Relaxed);
    assert_eq!(circuit.call(|| Ok::<_, &str>(5)), Ok(5));
    assert_eq!(circuit.breaker().state(), State::Closed);
}

#[test]
fn the_system_clock_needs_no_runtime() {
    let circuit = Circuit::without_runtime(breaker());
    assert_eq!(circuit.call(|| Ok::<_, &str>(5)), Ok(5));
    assert_eq!(circuit.breaker().metrics(circuit.now()).successes, 1);
}

#[test]
fn a_probe_without_a_runtime_needs_no_timer() {
    let circuit = Circuit::without_runtime(breaker());
    // The clock of the process is well past the open time of a breaker that opened when it began.
    for _ in 0..3 {
        circuit.breaker().admit(Duration::ZERO).expect("closed").failure(Duration::ZERO);
    }
    assert_eq!(circuit.breaker().state(), State::Open);
    let mut probe = std::pin::pin!(circuit.call_async(async { Ok::<_, &str>(5) }));
    let ended = probe.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(ended, Poll::Ready(Ok(5)));
    assert_eq!(circuit.breaker().state(), State::Closed);
}

#[test]
fn a_panic_is_a_failure() {
    let circuit = Circuit::without_runtime(breaker());
    for _ in 0..3 {
        let call = || circuit.call(|| -> Result<(), &str> { panic!("broken") });
        assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
    }
    assert_eq!(circuit.breaker().state(), State::Open);
}

#[test]
fn the_caller_says_which_results_are_to_blame_on_the_service() {
    let circuit = Circuit::without_runtime(breaker());
    let classify = |result: &Result<u16, u16>| match result {
        Ok(503) => Outcome::Failure,
        Ok(_) => Outcome::Success,
        Err(_) => Outcome::Ignored,
    };
    for _ in 0..5 {
        assert_eq!(circuit.call_with(|| Err(400), classify), Err(CallError::Inner(400)));
    }
    assert_eq!(circuit.breaker().state(), State::Closed);
    for _ in 0..3 {
        assert_eq!(circuit.call_with(|| Ok(503), classify), Ok(503));
    }
    assert_eq!(circuit.breaker().state(), State::Open);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_dropped_gives_its_place_back() {
    let circuit = Circuit::new(breaker());
    half_open(&circuit).await;
    let hanging = circuit.call_async(std::future::pending::<Result<(), &str>>());
    assert!(timeout(Duration::from_millis(100), hanging).await.is_err());
    assert_eq!(circuit.breaker().state(), State::HalfOpen);
    assert_eq!(circuit.call_async(async { Ok::<_, &str>(1) }).await, Ok(1));
    assert_eq!(circuit.breaker().state(), State::Closed);
    assert_eq!(circuit.breaker().metrics(circuit.now()).cancelled, 1);
}

#[tokio::test(start_paused = true)]
async fn while_a_probe_is_under_way_others_are_refused() {
    let circuit = Circuit::new(breaker());
    half_open(&circuit).await;
    let probe = circuit.call_async(async {
        sleep(Duration::from_millis(300)).await;
        Ok::<_, &str>("probe")
    });
    let other = async {
        sleep(Duration::from_millis(100)).await;
        circuit.call_async(async { Ok::<_, &str>("other") }).await
    };
    let (probe, other) = tokio::join!(probe, other);
    assert_eq!((probe, other), (Ok("probe"), Err(CallError::Open { retry_after: None })));
}

#[tokio::test(start_paused = true)]
async fn a_probe_is_cut_off_at_the_probe_timeout_and_opens_the_breaker() {
    let circuit = Circuit::new(breaker());
    half_open(&circuit).await;
    let started = Instant::now();
    let hanging = circuit.call_async(std::future::pending::<Result<(), &str>>());
    assert_eq!(hanging.await, Err(CallError::ProbeTimeout));
    assert_eq!(started.elapsed(), Duration::from_millis(500));
    assert_eq!(circuit.breaker().state(), State::Open);
}

#[tokio::test(start_paused = true)]
async fn an_ordinary_call_is_not_cut_off() {
    let circuit = Circuit::new(breaker());
    let call = circuit.call_async(async {
        sleep(Duration::from_secs(10)).await;
        Ok::<_, &str>(1)
    });
    assert_eq!(call.await, Ok(1));
}

#[test]
fn errors_say_what_to_do() {
    let open: CallError<&str> = CallError::Open { retry_after: Some(Duration::from_secs(2)) };
    assert_eq!(open.to_string(), "the breaker refuses the call; try again in 2s");
    let forced: CallError<&str> = CallError::Open { retry_after: None };
    assert_eq!(forced.to_string(), "the breaker refuses the call");
}
