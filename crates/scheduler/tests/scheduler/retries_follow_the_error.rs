//! Limit and wait of a retry follow the error of the attempt, and the budget of the kind.

use crate::support::*;
use divvy_scheduler::{AttemptEnd, Input, Options};
use divvy_types::settings::{KindSettings, RetryBudget};
use divvy_types::{
    AttemptOutcome, ErrorClass, Fact, Failure, FailureVerdict, RetryRule, Seq, Settings, TaskError,
    TaskSpec, TaskState, WaitReason, WorkerKey,
};

fn failing(class: ErrorClass, text: &str) -> AttemptEnd {
    let error = TaskError::new(class, text);
    AttemptEnd::Other(AttemptOutcome::Failed(Failure { verdict: FailureVerdict::Retry, error }))
}

fn ruled(rules: Vec<RetryRule>) -> TaskSpec {
    let mut task = spec(1);
    task.retry.jitter_percent = 0;
    task.retry.rules = rules;
    task
}

fn wait_ms(world: &World) -> u128 {
    let Fact::AttemptFailed { retry_at, .. } = world.facts()[0] else { panic!("no retry") };
    retry_at.since(world.now).as_millis()
}

#[test]
fn the_rule_of_an_error_decides_limit_and_wait() {
    let never = RetryRule { contains: Some("404".into()), limit: Some(0), ..RetryRule::default() };
    let slow = RetryRule {
        class: Some(ErrorClass::Timeout),
        base_ms: Some(60_000),
        cap_ms: Some(90_000),
        limit: Some(3),
        ..RetryRule::default()
    };
    let mut world = World::new();
    world.join(1, 1);
    world.submit(vec![ruled(vec![never, slow])]);
    world.end(1, 1, failing(ErrorClass::Failed, "refused"));
    assert_eq!(wait_ms(&world), 1_000, "no rule fits: the policy itself");
    world.pass_ms(1_000);
    world.end(1, 1, failing(ErrorClass::Timeout, "late"));
    assert_eq!(wait_ms(&world), 90_000, "the second wait of that rule, up to its cap");
    world.pass_ms(90_000);
    world.end(1, 1, failing(ErrorClass::Timeout, "status 404"));
    assert_eq!(world.fact_names(), ["Dead 1"], "the first rule that fits holds");
}

#[test]
fn a_time_out_that_the_server_notices_follows_the_rules_too() {
    let slow = RetryRule {
        class: Some(ErrorClass::Timeout),
        base_ms: Some(7_000),
        ..RetryRule::default()
    };
    let mut task = ruled(vec![slow]);
    task.timeout_ms = Some(10);
    let mut world = World::with(Options { stop_grace_ms: 5, ..Options::default() });
    world.join(1, 1);
    world.submit(vec![task]);
    world.pass_ms(15);
    assert_eq!(wait_ms(&world), 7_000);
}

#[test]
fn a_lost_worker_is_no_reason_to_wait_unless_a_rule_says_so() {
    for (base_ms, wait) in [(None, 0), (Some(4_000), 4_000)] {
        let class = Some(ErrorClass::WorkerLost);
        let rule = RetryRule { class, limit: Some(1), base_ms, ..RetryRule::default() };
        let mut world = World::new();
        world.join(1, 1);
        world.submit(vec![ruled(vec![rule])]);
        world.feed(Input::WorkerLeft { worker: WorkerKey(1) });
        assert_eq!(wait_ms(&world), wait);
    }
}

fn budgeted(share: f64, per_second: f64) -> World {
    let mut world = World::new();
    let retry_budget = Some(RetryBudget { share, per_second });
    let kind = KindSettings { retry_budget, ..KindSettings::default() };
    let kinds = [("noop".into(), kind)].into();
    world.feed(Input::SettingsChanged(Box::new(Settings { kinds, ..Settings::default() })));
    world.join(1, 100);
    world
}

fn brief(number: u64) -> TaskSpec {
    let mut task = spec(number);
    task.retry.jitter_percent = 0;
    task.retry.cap_ms = 20_000;
    task
}

#[test]
fn when_the_budget_is_spent_a_retry_waits_its_longest_and_says_so() {
    let mut world = budgeted(0.5, 0.0);
    world.submit((1..=10).map(brief).collect());
    for number in 1..=4 {
        world.end(1, number, finished());
    }
    let mut waits = Vec::new();
    for number in 5..=8 {
        world.end(1, number, failing(ErrorClass::Failed, "down"));
        waits.push(wait_ms(&world));
    }
    assert_eq!(waits, [1_000, 1_000, 20_000, 20_000], "four successes pay for two retries");
    let wait = |seq| world.scheduler.status(Seq(seq)).unwrap().wait.unwrap();
    assert!(matches!(wait(6), WaitReason::Backoff { budget_spent: false, .. }));
    assert!(matches!(wait(7), WaitReason::Backoff { budget_spent: true, .. }));
    assert!(wait(7).to_string().contains("retry budget of its kind is spent"), "{}", wait(7));
}

#[test]
fn a_retry_that_the_budget_pays_again_is_not_said_to_be_over_it() {
    let mut world = budgeted(1.0, 0.0);
    world.submit(vec![brief(1), brief(2)]);
    world.end(1, 1, failing(ErrorClass::Failed, "down"));
    assert_eq!(wait_ms(&world), 20_000);
    world.pass_ms(20_000);
    world.end(1, 2, finished());
    world.end(1, 1, failing(ErrorClass::Failed, "down"));
    assert_eq!(wait_ms(&world), 2_000);
    let status = world.scheduler.status(Seq(1)).unwrap();
    assert!(matches!(status.wait, Some(WaitReason::Backoff { budget_spent: false, .. })));
}

#[test]
fn lost_workers_do_not_pay_and_a_longer_wait_that_was_asked_for_stays() {
    let mut world = budgeted(0.0, 0.0);
    world.submit(vec![brief(1)]);
    world.end(1, 1, failure(FailureVerdict::RetryAfterMs(45_000)));
    assert_eq!(wait_ms(&world), 45_000);
    world.pass_ms(45_000);
    world.feed(Input::WorkerLeft { worker: WorkerKey(1) });
    assert_eq!(wait_ms(&world), 0);
    assert_eq!(world.state(1), Some(TaskState::Ready));
}
