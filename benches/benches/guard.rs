//! What a guard costs a call that is let through: our breaker and limiter beside other crates.
//!
//! The `core` rows take the time as an argument and so leave the clock out; all others read a clock, as in use.

use std::convert::Infallible;
use std::time::Duration;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use divvy_guard::breaker::{Breaker, Settings};
use divvy_guard::rate::{Limiter, Quota};
use divvy_guard::shell::breaker::Circuit;
use divvy_guard::shell::layers;
use failsafe::CircuitBreaker as _;
use tower::{Layer as _, Service, ServiceExt as _, service_fn};

/// Calls per round.
const ROUND: usize = 1_000;
/// Of so many calls one fails in the rows with failures, which is too few to trip.
const FAILURE_EVERY: usize = 100;
const THREADS: [usize; 2] = [1, 2];

fn main() {
    divan::main();
}

fn breaker() -> Breaker {
    Breaker::new(Settings::for_requests()).expect("the settings are right")
}

fn result_of(number: usize) -> Result<usize, ()> {
    if number.is_multiple_of(FAILURE_EVERY) { Err(()) } else { Ok(number) }
}

#[divan::bench(threads = THREADS)]
fn breaker_divvy_core(bencher: Bencher<'_, '_>) {
    let breaker = breaker();
    let now = Duration::from_secs(1);
    bencher.counter(ItemsCount::new(ROUND)).bench(|| {
        for _ in 0..ROUND {
            if let Ok(permit) = black_box(&breaker).admit(now) {
                permit.success(now);
            }
        }
    });
}

#[divan::bench(threads = THREADS)]
fn breaker_divvy(bencher: Bencher<'_, '_>) {
    let circuit = Circuit::without_runtime(breaker());
    bench_calls(bencher, |number| circuit.call(|| result_of(number)).is_ok());
}

#[divan::bench(threads = THREADS)]
fn breaker_failsafe(bencher: Bencher<'_, '_>) {
    let breaker = failsafe::Config::new().build();
    bench_calls(bencher, |number| breaker.call(|| result_of(number)).is_ok());
}

#[divan::bench(threads = THREADS)]
fn breaker_recloser(bencher: Bencher<'_, '_>) {
    let breaker = recloser::Recloser::default();
    bench_calls(bencher, |number| breaker.call(|| result_of(number)).is_ok());
}

fn bench_calls(bencher: Bencher<'_, '_>, call: impl Fn(usize) -> bool + Sync) {
    bencher.counter(ItemsCount::new(ROUND)).bench(|| {
        for number in 1..=ROUND {
            black_box(call(number));
        }
    });
}

#[divan::bench]
fn tower_divvy(bencher: Bencher<'_, '_>) {
    let service = service_fn(|number: usize| async move { Ok::<_, Infallible>(number) });
    bench_service(bencher, layers::breaker::Layer::new(breaker()).layer(service));
}

#[divan::bench]
fn tower_resilience(bencher: Bencher<'_, '_>) {
    let service = service_fn(|number: usize| async move { Ok::<_, Infallible>(number) });
    let layer = tower_resilience_circuitbreaker::CircuitBreakerLayer::builder().build();
    bench_service(bencher, layer.expect("the defaults are right").layer(service));
}

fn bench_service<S: Service<usize>>(bencher: Bencher<'_, '_>, mut service: S) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("the runtime starts");
    bencher.counter(ItemsCount::new(ROUND)).bench_local(|| {
        runtime.block_on(async {
            for number in 0..ROUND {
                if let Ok(ready) = service.ready().await {
                    black_box(ready.call(number).await.is_ok());
                }
            }
        });
    });
}

#[divan::bench(threads = THREADS)]
fn limiter_divvy_core(bencher: Bencher<'_, '_>) {
    let quota = Quota::per_second(1_000_000).and_then(|quota| quota.burst(1_000_000));
    let limiter = Limiter::new(quota.expect("the quota is right"));
    let now = Duration::from_secs(1);
    bencher.counter(ItemsCount::new(ROUND)).bench(|| {
        for _ in 0..ROUND {
            black_box(limiter.check(now)).ok();
        }
    });
}
