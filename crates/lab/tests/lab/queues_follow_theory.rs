//! The simulator against results that are known without it.

use std::time::Duration;

use crate::support::{AnyTarget, IdleFirst, Shortest};
use divvy_lab::sim::{self, Fleet, Outcome, Reports, Setup, Upset};
use divvy_placement::Policy;

const SERVICE: Duration = Duration::from_millis(10);

fn any(seed: u64) -> Box<dyn Policy> {
    Box::new(AnyTarget(fastrand::Rng::with_seed(seed)))
}

fn shortest(seed: u64) -> Box<dyn Policy> {
    Box::new(Shortest(fastrand::Rng::with_seed(seed)))
}

fn idle_first(seed: u64) -> Box<dyn Policy> {
    Box::new(IdleFirst { random: fastrand::Rng::with_seed(seed), idle: Vec::new() })
}

fn run(setup: &Setup, policy: fn(u64) -> Box<dyn Policy>) -> Outcome {
    sim::run(setup, &mut |seed| policy(seed)).unwrap()
}

/// In mean service times.
fn services(time: Duration) -> f64 {
    time.as_secs_f64() / SERVICE.as_secs_f64()
}

#[track_caller]
fn near(measured: f64, expected: f64, share: f64) {
    assert!((measured / expected - 1.0).abs() <= share, "{measured} is not near {expected}");
}

#[test]
fn a_single_queue_waits_as_long_as_the_formula_says() {
    let setup = Setup { targets: 1, load: 0.7, requests: 200_000, ..Setup::default() };
    let outcome = run(&setup, any);
    // M/M/1: exponential with mean 1 / (1 - load).
    near(services(outcome.response.mean), 1.0 / 0.3, 0.05);
    near(services(outcome.response.p99), 100f64.ln() / 0.3, 0.08);
    assert_eq!(outcome.answered, 180_000);
    assert_eq!(outcome.sent, [200_000]);
}

#[test]
fn chance_makes_every_target_a_single_queue() {
    let setup = Setup { requests: 100_000, load: 0.7, ..Setup::default() };
    for balancers in [1, 20] {
        let outcome = run(&Setup { balancers, ..setup }, any);
        near(services(outcome.response.mean), 1.0 / 0.3, 0.06);
        assert!(outcome.is_stable());
    }
}

#[test]
fn one_shared_queue_waits_as_erlang_says() {
    // A limit of one turns the balancer into a queue: M/M/10 at 80 %.
    let setup = Setup {
        targets: 10,
        load: 0.8,
        limit: Some(1),
        requests: 100_000,
        warm_up: 0.05,
        ..Setup::default()
    };
    let outcome = run(&setup, any);
    let busy = 8.0;
    let mut term = 1.0;
    let mut sum = 0.0;
    for k in 0..10 {
        sum += term;
        term *= busy / f64::from(k + 1);
    }
    let all_busy = term / 0.2 / (sum + term / 0.2);
    near(services(outcome.response.mean), 1.0 + all_busy / (10.0 * 0.2), 0.03);
    assert_eq!(outcome.shed, 0);
}

#[test]
fn many_balancers_lose_sight_unless_targets_report_or_say_that_they_are_idle() {
    let alone = Setup { requests: 60_000, ..Setup::default() };
    let many = Setup { balancers: 20, ..alone };
    let told = Setup { reports: Reports::Exact, ..many };
    let p99 = |setup: &Setup, policy| services(run(setup, policy).response.p99);
    let (one, blind, seeing) = (p99(&alone, shortest), p99(&many, shortest), p99(&told, shortest));
    near(one, 4.9, 0.1);
    assert!(blind > 2.0 * one, "{blind} against {one}");
    near(seeing, one, 0.1);
    near(p99(&alone, idle_first), 5.0, 0.1);
    // Few targets are idle at once, and each is known to one balancer only: better than blind, not as good as alone.
    let shared_out = p99(&many, idle_first);
    assert!(shared_out > 1.5 * one && shared_out < 0.9 * blind, "{shared_out}");
}

#[test]
fn blind_shares_overload_the_slower_half() {
    let setup =
        Setup { fleet: Fleet::HalfSlower { factor: 2.0 }, requests: 60_000, ..Setup::default() };
    let blind = run(&setup, any);
    assert_eq!(blind.overloaded, 25);
    assert!(run(&setup, shortest).is_stable());
}

#[test]
fn a_target_that_fails_quickly_draws_those_that_look_only_at_queues() {
    let setup = Setup { upset: Upset::Fails { share: 0.01 }, requests: 40_000, ..Setup::default() };
    let outcome = run(&setup, shortest);
    assert!(outcome.sent_to_upset > 0.1, "{}", outcome.sent_to_upset);
    let fair = run(&setup, any);
    near(fair.sent_to_upset, 1.0 / 50.0, 0.15);
    assert!(outcome.failed_share() > 3.0 * fair.failed_share());
    let (before, after) = outcome.slices.split_at(outcome.slices.len() / 2 - 1);
    assert!(before.iter().all(|slice| slice.failed == 0.0));
    assert!(after.last().unwrap().failed > 0.1);
    assert!(outcome.upset_at.is_some());
}

#[test]
fn a_target_that_turns_slow_is_seen_in_the_second_half() {
    let setup = Setup { upset: Upset::Slow { factor: 10.0 }, requests: 60_000, ..Setup::default() };
    let outcome = run(&setup, any);
    assert_eq!(outcome.overloaded, 1);
    let p99 = |index: usize| services(outcome.slices[index].response.p99);
    assert!(p99(35) > 4.0 * p99(15), "{} against {}", p99(35), p99(15));
}

#[test]
fn the_same_seed_gives_the_same_run_and_policies_face_the_same_requests() {
    let setup = Setup { requests: 5_000, ..Setup::default() };
    let (first, second) = (run(&setup, shortest), run(&setup, shortest));
    assert_eq!((first.response, first.sent.clone()), (second.response, second.sent));
    let other = run(&Setup { seed: 2, ..setup }, shortest);
    assert_ne!(first.response, other.response);
    // With one target there is no choice, so whatever the policy, every time is the same.
    let single = Setup { targets: 1, ..setup };
    assert_eq!(run(&single, any).response, run(&single, shortest).response);
}
