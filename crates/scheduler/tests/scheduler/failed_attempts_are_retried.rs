//! What each verdict of a failed attempt leads to.

use crate::support::*;
use divvy_scheduler::{Action, Input, ReportAnswer};
use divvy_types::{Fact, FailureVerdict, Seq, TaskState, WaitReason};

fn leased(limit: u32) -> World {
    let mut world = World::new();
    world.join(1, 1);
    let mut task = spec(1);
    task.retry.limit = limit;
    task.retry.jitter_percent = 0;
    world.submit(vec![task]);
    world
}

#[test]
fn waits_double_and_the_last_failure_makes_a_dead_letter() {
    let mut world = leased(2);
    for (attempt, wait) in [(1, 1_000), (2, 2_000)] {
        world.end(1, 1, failure(FailureVerdict::Retry));
        assert_eq!(world.answers(), [ReportAnswer::Recorded]);
        let until = world.now.plus_ms(wait);
        let status = world.scheduler.status(Seq(1)).unwrap();
        assert_eq!(
            status.wait,
            Some(WaitReason::Backoff { until, attempts: attempt, budget_spent: false })
        );
        world.pass_ms(wait - 1);
        assert_eq!(world.grants(), []);
        world.pass_ms(1);
        let attempts: Vec<u32> = world
            .actions
            .iter()
            .filter_map(|a| if let Action::Grant(g) = a { Some(g.attempt) } else { None })
            .collect();
        assert_eq!(attempts, [attempt + 1]);
    }
    world.end(1, 1, failure(FailureVerdict::Retry));
    assert_eq!((world.fact_names(), world.forgotten()), (vec!["Dead 1".to_owned()], vec![1]));
    assert_eq!(world.scheduler.workers()[0].failed, 3);
}

#[test]
fn a_wait_is_spread_within_its_jitter_and_the_same_seed_spreads_alike() {
    let waits = |seed| {
        let mut world = World::with(divvy_scheduler::Options { seed, ..Default::default() });
        world.join(1, 100);
        world.submit((1..=100).map(spec).collect());
        let mut waits = Vec::new();
        for number in 1..=100 {
            world.end(1, number, failure(FailureVerdict::Retry));
            let Fact::AttemptFailed { retry_at, .. } = world.facts()[0] else { panic!("no fact") };
            waits.push(retry_at.since(world.now).as_millis());
        }
        waits
    };
    assert!(waits(1).iter().all(|wait| (800..=1_200).contains(wait)));
    assert_eq!(waits(1), waits(1));
    assert_ne!(waits(1), waits(2));
}

#[test]
fn a_snooze_never_counts_and_a_given_wait_does() {
    let mut world = leased(1);
    for _ in 0..5 {
        world.end(1, 1, failure(FailureVerdict::SnoozeMs(10)));
        assert!(matches!(world.facts()[0], Fact::AttemptFailed { counted: false, .. }));
        world.pass_ms(10);
        assert_eq!(world.grants(), [(1, 1)]);
    }
    world.end(1, 1, failure(FailureVerdict::RetryAfterMs(u64::MAX)));
    let Fact::AttemptFailed { retry_at, counted, .. } = world.facts()[0] else { panic!("no fact") };
    assert_eq!(
        (*retry_at, *counted),
        (world.now.plus_ms(divvy_types::limits::RETRY_WAIT_MS_MAX), true)
    );
    world.feed(Input::RunNowRequested { seq: Seq(1) });
    world.end(1, 1, failure(FailureVerdict::RetryAfterMs(5)));
    assert_eq!(world.fact_names(), ["Dead 1"]);
}

#[test]
fn a_handler_that_gives_up_unasked_does_not_spin() {
    let mut world = leased(0);
    world.end(1, 1, failure(FailureVerdict::Cancelled));
    assert_eq!((world.fact_names(), world.grants()), (vec![], vec![]));
    assert_eq!(world.state(1), Some(TaskState::Scheduled));
    world.pass_ms(1_000);
    assert_eq!(world.grants(), [(1, 1)]);
}

#[test]
fn a_dead_task_that_is_put_back_starts_anew() {
    let mut world = leased(0);
    world.end(1, 1, failure(FailureVerdict::Retry));
    assert_eq!(world.fact_names(), ["Dead 1"]);
    let mut task = spec(1);
    task.retry.limit = 1;
    let mut task = recovered(task);
    task.open.attempts = 7;
    world.feed(put_back_alone(task));
    assert_eq!((world.fact_names(), world.grants()), (vec!["Replayed 1".to_owned()], vec![(1, 1)]));
    world.end(1, 1, failure(FailureVerdict::Retry));
    assert_eq!(world.fact_names(), ["AttemptFailed 1"]);
}
