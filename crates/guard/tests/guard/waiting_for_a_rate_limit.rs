//! Callers that wait for a rate limit: how long, in which order, and what one that gives up has taken.
#![cfg(feature = "async")]

use std::sync::Mutex;
use std::time::Duration;

use divvy_guard::rate::{Limiter, Quota, Refused};
use divvy_guard::shell::rate::Pacer;
use tokio::time::{Instant, timeout};

fn pacer(burst: u32) -> Pacer {
    let quota = Quota::per_second(10).and_then(|quota| quota.burst(burst));
    Pacer::new(Limiter::new(quota.expect("a sane quota")))
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Timers of the runtime are whole milliseconds.
fn is_about(time: Duration, expected: Duration) -> bool {
    time >= expected && time <= expected + ms(2)
}

#[tokio::test(start_paused = true)]
async fn the_burst_goes_at_once_and_the_rest_at_the_rate() {
    let pacer = pacer(5);
    let started = Instant::now();
    for _ in 0..5 {
        pacer.until_ready().await;
    }
    assert_eq!(started.elapsed(), Duration::ZERO);
    for _ in 0..10 {
        pacer.until_ready().await;
    }
    assert!(is_about(started.elapsed(), ms(1_000)), "{:?}", started.elapsed());
    assert!(pacer.check().is_err());
}

#[tokio::test]
async fn pacers_of_one_limiter_agree_about_the_time_whenever_they_were_made() {
    let first = pacer(1);
    let begun = Instant::now();
    while begun.elapsed() < ms(5) {
        std::hint::spin_loop();
    }
    let earlier = first.now();
    let second = Pacer::new(std::sync::Arc::clone(first.limiter()));
    let later = second.now();
    assert!(earlier <= later && later <= first.now(), "{earlier:?}, {later:?}");
}

#[tokio::test(start_paused = true)]
async fn callers_go_in_the_order_in_which_they_came() {
    let pacer = pacer(1);
    let order = Mutex::new(Vec::new());
    let call = |number: u32| {
        let (pacer, order) = (pacer.clone(), &order);
        async move {
            pacer.until_ready().await;
            order.lock().unwrap().push(number);
        }
    };
    tokio::join!(call(0), call(1), call(2), call(3), call(4));
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn one_that_wants_much_is_not_overtaken_by_many_that_want_little() {
    let pacer = pacer(5);
    pacer.until_ready_cost(5).await.unwrap();
    let started = Instant::now();
    let large = async {
        pacer.until_ready_cost(5).await.unwrap();
        started.elapsed()
    };
    let small = async {
        for _ in 0..20 {
            pacer.until_ready().await;
        }
    };
    let (waited, ()) = tokio::join!(large, small);
    assert!(is_about(waited, ms(500)), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_has_taken_nothing() {
    let pacer = pacer(1);
    pacer.until_ready().await;
    let started = Instant::now();
    for _ in 0..10 {
        assert!(timeout(ms(5), pacer.until_ready()).await.is_err());
    }
    pacer.until_ready().await;
    assert!(is_about(started.elapsed(), ms(100)), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_wait_can_be_bounded() {
    let pacer = pacer(2);
    assert_eq!(pacer.until_ready_within(2, Duration::ZERO).await, Ok(()));
    assert!(matches!(pacer.until_ready_within(2, ms(50)).await, Err(Refused::Wait(_))));
    assert_eq!(pacer.until_ready_within(2, ms(200)).await, Ok(()));
    let too_much = Refused::TooCostly { cost: 3, burst: 2 };
    assert_eq!(pacer.until_ready_cost(3).await, Err(too_much));
}
