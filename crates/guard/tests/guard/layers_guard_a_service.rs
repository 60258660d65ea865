//! Each tower layer of waiting and of overload, around a small service, on a paused clock.

#![cfg(feature = "tower")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use divvy_guard::concurrency::{self, Limiter, Saturated};
use divvy_guard::deadline::DecodeError;
use divvy_guard::hedge::{self, Delay};
use divvy_guard::shed::{Priority, Shedder};
use divvy_guard::shell::bulkhead::Bulkhead;
use divvy_guard::shell::concurrency::judge_success;
use divvy_guard::shell::deadline::Expired;
use divvy_guard::shell::hedge::Hedger;
use divvy_guard::shell::shed::Entrance;
use divvy_guard::shell::{concurrency as limited, deadline, layers, timeout as waiting};
use divvy_guard::timeout::SharedTracker;
use divvy_guard::{bulkhead, shed};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};
use tower::{Layer as _, Service, ServiceExt as _, service_fn};

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Answers after as many milliseconds as it is asked for.
fn slow()
-> impl Service<u64, Response = u64, Error = &'static str, Future: Send> + Clone + Send + Sync {
    service_fn(|wait: u64| async move {
        sleep(millis(wait)).await;
        if wait == 13 { Err("unlucky") } else { Ok(wait) }
    })
}

#[tokio::test(start_paused = true)]
async fn a_learned_timeout_bounds_requests() {
    let tracker = Arc::new(SharedTracker::default());
    let service = layers::timeout::Layer::new(Arc::clone(&tracker)).layer(slow());
    for _ in 0..5 {
        assert_eq!(service.clone().oneshot(20).await, Ok(20));
    }
    let outcome = service.clone().oneshot(300).await;
    assert_eq!(outcome, Err(waiting::Error::TimedOut { after: millis(40) }));
    assert_eq!(service.oneshot(13).await, Err(waiting::Error::Inner("unlucky")));
    assert_eq!(tracker.snapshot().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_learned_limit_refuses_the_rest_and_forgets_the_cancelled() {
    let settings = concurrency::Settings { initial: 2, ..concurrency::Settings::default() };
    let limiter = Limiter::new(settings).unwrap();
    let service = layers::concurrency::Layer::new(limiter.clone(), judge_success).layer(slow());
    let answers = join_all((0..3).map(|_| service.clone().oneshot(10))).await;
    assert_eq!(answers[..2], [Ok(10), Ok(10)]);
    assert_eq!(answers[2], Err(limited::Error::Saturated(Saturated { limit: 2 })));
    let cancelled = tokio::time::timeout(millis(5), service.clone().oneshot(100)).await;
    assert!(cancelled.is_err());
    assert_eq!(limiter.statistics().in_flight, 0);
    assert_eq!(service.oneshot(13).await, Err(limited::Error::Inner("unlucky")));
}

#[tokio::test(start_paused = true)]
async fn a_bulkhead_lets_requests_wait_and_leaves_no_place_behind() {
    let settings = bulkhead::Settings { places: 1, waiting_max: 1, wait_max: millis(50) };
    let bulkhead = Bulkhead::new(settings).unwrap();
    let service = layers::bulkhead::Layer::new(bulkhead.clone()).layer(slow());
    let answers = join_all((0..3).map(|_| service.clone().oneshot(30))).await;
    assert_eq!(answers[..2], [Ok(30), Ok(30)]);
    let full = bulkhead::Full::Queue { places: 1, waiting: 1 };
    assert_eq!(answers[2], Err(layers::bulkhead::Error::Full(full)));
    let both = join_all((0..2).map(|_| service.clone().oneshot(900)));
    assert!(tokio::time::timeout(millis(20), both).await.is_err());
    let statistics = bulkhead.statistics();
    assert_eq!((statistics.inside, statistics.waiting), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn shedding_reads_the_priority_of_a_request() {
    let settings = bulkhead::Settings { places: 1, waiting_max: 100, wait_max: millis(5000) };
    let entrance = Entrance::new(
        Shedder::new(shed::Settings::default()).unwrap(),
        Bulkhead::new(settings).unwrap(),
    );
    let priority = |wait: &u64| if *wait == 25 { Priority::HIGHEST } else { Priority::LOWEST };
    let service = layers::shed::Layer::new(entrance.clone(), priority).layer(slow());
    // One place and sixty requests that wait for up to 1.5 s.
    let crowd = join_all((0..60).map(|_| service.clone().oneshot(25)));
    let late = async {
        sleep(millis(1000)).await;
        service.clone().oneshot(24).await
    };
    let (crowd, late) = futures_util::future::join(crowd, late).await;
    assert!(crowd.iter().all(Result::is_ok), "the highest priority is protected");
    assert!(matches!(late, Err(layers::shed::Error::Refused(_))), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hedge_goes_through_a_ready_clone() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let service = service_fn(move |(): ()| {
        let attempt = count.fetch_add(1, Ordering::Relaxed);
        async move {
            sleep(millis([500, 5][attempt % 2])).await;
            Ok::<_, &'static str>(attempt)
        }
    });
    let settings =
        hedge::Settings { delay: Delay::Fixed(millis(20)), ..hedge::Settings::default() };
    let hedger = Arc::new(Hedger::new(settings, Arc::default(), || true).unwrap());
    // A service that is checked for readiness by `ConcurrencyLimit`, which panics when it is called unready.
    let inner = tower::limit::ConcurrencyLimit::new(service, 2);
    let service = layers::hedge::Layer::new(Arc::clone(&hedger)).layer(inner);
    let began = Instant::now();
    assert_eq!(service.oneshot(()).await, Ok(1));
    assert_eq!(began.elapsed(), millis(25));
    assert_eq!(hedger.statistics().won, 1);
}

/// A request with a header and the milliseconds that it takes.
#[derive(Clone, Debug, Default)]
struct Request {
    timeout: Option<String>,
    takes: u64,
}

#[tokio::test(start_paused = true)]
async fn deadlines_are_read_kept_and_handed_on() {
    let last = service_fn(|request: Request| async move { Ok::<_, ()>(request.timeout) });
    let forward = layers::deadline::ForwardLayer::new(millis(10), |request: &mut Request, text| {
        request.timeout = Some(text);
    });
    let client = forward.layer(last);
    let middle = service_fn(move |request: Request| {
        let client = client.clone();
        async move {
            sleep(millis(request.takes)).await;
            client.oneshot(Request::default()).await
        }
    });
    let accept = layers::deadline::AcceptLayer::new(millis(500), |request: &Request| {
        request.timeout.as_deref()
    });
    let service = accept.layer(middle);
    let ask = |timeout: Option<&str>, takes| {
        let request = Request { timeout: timeout.map(str::to_owned), takes };
        service.clone().oneshot(request)
    };
    let told = |text: &str| Ok(Some(text.to_owned()));
    assert_eq!(ask(Some("100m"), 20).await, told("70m"));
    assert_eq!(ask(None, 20).await, told("470m"), "nobody has more than the service allows");
    assert_eq!(ask(Some("9H"), 0).await, told("490m"));
    type Failure = layers::deadline::Error<layers::deadline::Error<()>>;
    let expired: Failure = layers::deadline::Error::Expired(Expired);
    assert_eq!(ask(Some("100m"), 200).await, Err(expired));
    assert_eq!(ask(Some("0m"), 0).await, Err(expired));
    let too_late: Failure =
        layers::deadline::Error::Inner(layers::deadline::Error::Expired(Expired));
    assert_eq!(ask(Some("100m"), 95).await, Err(too_late), "no time for the way back");
    let unreadable: Failure = layers::deadline::Error::Unreadable(DecodeError::NotADigit);
    assert_eq!(ask(Some("soon"), 0).await, Err(unreadable));
    assert_eq!(deadline::left(), None);
}
