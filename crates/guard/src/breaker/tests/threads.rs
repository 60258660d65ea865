//! Many threads at one breaker.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::super::{Cause, Outcome, Window};
use super::*;

#[test]
fn every_call_is_counted_once_while_the_state_changes_all_the_time() {
    for window in [Window::Calls(20), Window::Time(at(5))] {
        let breaker = breaker(Settings {
            window,
            calls_min: 5,
            failure_rate: Some(0.5),
            slow_rate: Some(0.9),
            slow_after: Duration::from_micros(5),
            open_for: Duration::from_micros(20),
            open_for_max: at(1),
            ..settings()
        });
        let clock_us = AtomicU64::new(0);
        let now = || Duration::from_micros(clock_us.fetch_add(1, Ordering::Relaxed));
        let counts: Vec<[u64; 4]> = thread::scope(|scope| {
            let workers: Vec<_> = (0..4u64)
                .map(|seed| {
                    let (breaker, now) = (&breaker, &now);
                    scope.spawn(move || call_many(breaker, seed, now))
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        let sum = |kind: usize| counts.iter().map(|count| count[kind]).sum::<u64>();
        let metrics = breaker.metrics(now());
        assert_eq!(metrics.successes, sum(0));
        assert_eq!(metrics.failures, sum(1));
        assert_eq!(metrics.cancelled, sum(2));
        assert_eq!(metrics.rejected, sum(3));
        assert_eq!(sum(0) + sum(1) + sum(2) + sum(3), 40_000);
        assert!(metrics.opened > 0, "the load must make it open, or this shows nothing");
        assert_eq!(breaker.probes_under_way(), 0, "every probe gave its place back");
    }
}

fn call_many(breaker: &Breaker, seed: u64, now: &impl Fn() -> Duration) -> [u64; 4] {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut counts = [0; 4];
    for _ in 0..10_000 {
        let Ok(permit) = breaker.admit(now()) else {
            counts[3] += 1;
            continue;
        };
        let kind = random.usize(0..3);
        counts[kind] += 1;
        match kind {
            0 => permit.record(Outcome::Success, now()),
            1 => permit.record(Outcome::Failure, now()),
            _ => drop(permit),
        }
    }
    counts
}

#[test]
fn failures_at_once_open_it_once() {
    for _ in 0..200 {
        let breaker = breaker(Settings { consecutive_failures: Some(4), ..settings() });
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    if let Ok(permit) = breaker.admit(at(0)) {
                        permit.failure(at(0));
                    }
                });
            }
        });
        let transitions = breaker.drain_transitions();
        assert_eq!(transitions.len(), 1, "the fourth failure must not be missed: {transitions:?}");
        assert_eq!(transitions[0].cause, Cause::ConsecutiveFailures);
    }
}

#[test]
fn no_more_probes_than_permits_are_under_way() {
    let breaker = breaker(Settings { successes_to_close: u32::MAX, ..settings() });
    fail(&breaker, 2, at(0));
    let (under_way, most) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    if let Ok(permit) = breaker.admit(at(1_000)) {
                        let count = under_way.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(count, Ordering::SeqCst);
                        thread::yield_now();
                        under_way.fetch_sub(1, Ordering::SeqCst);
                        permit.success(at(1_000));
                    }
                }
            });
        }
    });
    assert!((1..=2).contains(&most.into_inner()));
    assert_eq!(breaker.state(), State::HalfOpen);
}
