//! Layers of tower: readiness, refusals, cancelled calls, clones.
#![cfg(feature = "tower")]

use std::future::{Pending, pending};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use divvy_guard::backoff::Backoff;
use divvy_guard::breaker::{self, Breaker, Outcome, State};
use divvy_guard::rate::{Limiter, Quota, Refused};
use divvy_guard::retry::{self, Policy, Verdict};
use divvy_guard::shell::breaker::{CallError, Circuit, blame_errors};
use divvy_guard::shell::layers;
use divvy_guard::shell::retry::Retrier;
use tokio::time::{Instant, sleep, timeout};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn breaker() -> Arc<Breaker> {
    Arc::new(Breaker::new(breaker::Settings::for_quick_recovery()).expect("sane settings"))
}

/// Answers with the request, or fails if it is 0, or hangs if it is 1.
async fn answer(request: u32) -> Result<u32, &'static str> {
    match request {
        0 => Err("down"),
        1 => pending().await,
        other => Ok(other),
    }
}

/// Never ready.
#[derive(Clone)]
struct Stuck;

impl Service<u32> for Stuck {
    type Response = u32;
    type Error = &'static str;
    type Future = Pending<Result<u32, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Pending
    }

    fn call(&mut self, _: u32) -> Self::Future {
        panic!("it was never ready")
    }
}

#[tokio::test(start_paused = true)]
async fn a_breaker_opens_refuses_probes_and_closes() {
    let breaker = breaker();
    let mut service = layers::breaker::Layer::new(Arc::clone(&breaker)).layer(service_fn(answer));
    for _ in 0..3 {
        let result = service.ready().await.unwrap().call(0).await;
        assert_eq!(result, Err(CallError::Inner("down")));
    }
    let mut clone = service.clone();
    let refused = clone.ready().await.unwrap().call(5).await;
    assert_eq!(refused, Err(CallError::Open { retry_after: Some(ms(2_000)) }));
    sleep(ms(2_000)).await;
    assert_eq!(service.ready().await.unwrap().call(1).await, Err(CallError::ProbeTimeout));
    assert_eq!(breaker.state(), State::Open);
    sleep(ms(2_000)).await;
    assert_eq!(clone.ready().await.unwrap().call(5).await, Ok(5));
    assert_eq!(breaker.state(), State::Closed);
    assert_eq!(breaker.metrics(ms(0)).rejected, 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_gives_its_probe_back() {
    let breaker = breaker();
    let mut service = layers::breaker::Layer::new(Arc::clone(&breaker)).layer(service_fn(answer));
    for _ in 0..3 {
        let _ = service.ready().await.unwrap().call(0).await;
    }
    sleep(ms(2_000)).await;
    let hanging = service.ready().await.unwrap().call(1);
    assert_eq!(breaker.state(), State::HalfOpen);
    assert!(timeout(ms(10), hanging).await.is_err());
    assert_eq!(service.ready().await.unwrap().call(5).await, Ok(5));
    assert_eq!(breaker.metrics(ms(0)).cancelled, 1);
}

#[tokio::test(start_paused = true)]
async fn readiness_takes_no_permit() {
    let breaker = breaker();
    let layer = layers::breaker::Layer::new(Arc::clone(&breaker));
    let mut first = layer.layer(service_fn(answer));
    for _ in 0..3 {
        let _ = first.ready().await.unwrap().call(0).await;
    }
    sleep(ms(2_000)).await;
    let mut second = layer.layer(service_fn(answer));
    first.ready().await.unwrap();
    assert_eq!(second.ready().await.unwrap().call(7).await, Ok(7));
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_refuses_without_waiting_for_a_stuck_service() {
    let breaker = breaker();
    let mut service = layers::breaker::Layer::new(Arc::clone(&breaker)).layer(Stuck);
    assert!(timeout(ms(10), service.ready()).await.is_err(), "closed: as ready as the service");
    breaker.force_open(ms(0));
    let refused = service.ready().await.unwrap().call(5).await;
    assert_eq!(refused, Err(CallError::Open { retry_after: None }));
    // Ready because refused; closed again before the call: the stuck service must not be called.
    service.ready().await.unwrap();
    breaker.reset(ms(1));
    let refused = service.call(5).await;
    assert_eq!(refused, Err(CallError::Open { retry_after: Some(Duration::ZERO) }));
}

#[tokio::test(start_paused = true)]
async fn responses_can_be_failures() {
    let circuit = Circuit::new(breaker());
    let classify = |result: &Result<u32, &str>| match result {
        Ok(503) | Err(_) => Outcome::Failure,
        Ok(_) => Outcome::Success,
    };
    let layer = layers::breaker::Layer::with_circuit(circuit.clone(), classify);
    let mut service = layer.layer(service_fn(answer));
    for _ in 0..3 {
        assert_eq!(service.ready().await.unwrap().call(503).await, Ok(503));
    }
    assert_eq!(circuit.breaker().state(), State::Open);
}

fn limiter(burst: u32) -> Limiter {
    let quota = Quota::per_second(10).and_then(|quota| quota.burst(burst));
    Limiter::new(quota.expect("a sane quota"))
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_makes_callers_wait() {
    let mut service = layers::rate::Layer::new(limiter(2)).layer(service_fn(answer));
    let mut clone = service.clone();
    let started = Instant::now();
    for request in 2..6 {
        assert_eq!(service.ready().await.unwrap().call(request).await, Ok(request));
        assert_eq!(clone.ready().await.unwrap().call(request).await, Ok(request));
    }
    let elapsed = started.elapsed();
    assert!(elapsed >= ms(600) && elapsed < ms(610), "two of eight are free: {elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_refuses_who_would_wait_too_long() {
    let layer = layers::rate::Layer::new(limiter(1)).wait_at_most(ms(50));
    let mut service = layer.layer(service_fn(answer));
    assert_eq!(service.ready().await.unwrap().call(5).await, Ok(5));
    let refused = service.ready().await.unwrap().call(5).await;
    assert_eq!(refused, Err(layers::rate::Error::Refused(Refused::Wait(ms(100)))));
    sleep(ms(60)).await;
    assert_eq!(service.ready().await.unwrap().call(5).await, Ok(5), "40 ms are short enough");
    let refused = service.ready().await.unwrap().call(5).await.unwrap_err();
    assert_eq!(refused.to_string(), "the rate limit is reached; try again in 100ms");
}

fn policy() -> Policy {
    let backoff = Backoff::constant(ms(100)).expect("a sane wait");
    Policy::new(retry::Settings { backoff, ..retry::Settings::default() }).expect("sane settings")
}

fn retry_errors<T, E>(result: &Result<T, E>) -> Verdict {
    if result.is_ok() { Verdict::Stop } else { Verdict::Retry }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_tried_again_with_the_same_request() {
    let tries = AtomicU32::new(0);
    let flaky = service_fn(|request: u32| {
        let number = tries.fetch_add(1, Ordering::Relaxed);
        answer(if number < 2 { 0 } else { request })
    });
    let mut service = layers::retry::Layer::new(policy(), retry_errors).layer(flaky);
    let started = Instant::now();
    assert_eq!(service.ready().await.unwrap().call(9).await, Ok(9));
    assert_eq!((tries.load(Ordering::Relaxed), started.elapsed()), (3, ms(200)));
    tries.store(0, Ordering::Relaxed);
    assert_eq!(service.ready().await.unwrap().call(0).await, Err("down"));
    assert_eq!(tries.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn retries_around_a_breaker_stop_when_it_opens() {
    let circuit = Circuit::new(breaker());
    let gate = Arc::clone(circuit.breaker());
    let retrier = Retrier::with_clock(policy().with_gate(gate), *circuit.clock());
    let classify = |result: &Result<u32, CallError<&str>>| match result {
        Ok(_) => Verdict::Stop,
        Err(error) => error.verdict(|_| Verdict::Retry),
    };
    let mut service = ServiceBuilder::new()
        .layer(layers::retry::Layer::with_retrier(retrier, classify))
        .layer(layers::breaker::Layer::with_circuit(circuit.clone(), blame_errors))
        .service(service_fn(answer));
    let started = Instant::now();
    for _ in 0..3 {
        assert!(service.ready().await.unwrap().call(0).await.is_err());
    }
    assert_eq!(started.elapsed(), ms(200), "after the third failure nobody waits");
    let metrics = circuit.breaker().metrics(circuit.now());
    assert_eq!((metrics.failures, metrics.rejected), (3, 2));
}
