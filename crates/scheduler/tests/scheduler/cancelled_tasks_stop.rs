//! Cancelling: at once where nothing runs, in agreement with the worker where something does.

use crate::support::*;
use divvy_scheduler::{Input, ReportAnswer};
use divvy_types::{FailureVerdict, Seq, TaskState, WorkerKey};

fn cancel(world: &mut World, seq: u64) {
    world.feed(Input::CancelRequested { seq: Seq(seq), reason: "asked".into() });
}

#[test]
fn what_waits_is_cancelled_at_once_wherever_it_waits() {
    let mut world = World::new();
    let mut timed = spec(2);
    timed.run_at = Some(world.now.plus_ms(1_000));
    world.submit(vec![spec(1), timed, after(spec(3), &[(1, true)])]);
    for number in [3, 2, 1] {
        cancel(&mut world, number);
        assert_eq!(world.fact_names(), [format!("Cancelled {number}")]);
        assert_eq!(world.forgotten(), [number]);
    }
    assert!(world.scheduler.is_idle());
    assert_eq!(world.scheduler.counts(), Default::default());
    world.join(1, 10);
    assert!(world.pass_ms(2_000).is_empty());
}

#[test]
fn a_running_task_is_cancelled_when_its_worker_answers() {
    for answer in [
        failure(FailureVerdict::Cancelled),
        failure(FailureVerdict::Retry),
        failure(FailureVerdict::Dead),
    ] {
        let mut world = World::new();
        world.join(1, 1);
        world.submit(vec![spec(1)]);
        cancel(&mut world, 1);
        assert_eq!(world.stops().len(), 1);
        assert_eq!((world.state(1), world.facts().len()), (Some(TaskState::Leased), 0));
        cancel(&mut world, 1);
        assert!(world.actions.is_empty(), "a second request says nothing new");
        world.end(1, 1, answer);
        assert_eq!(world.cancel_reason(1), Some("asked".to_owned()));
        assert!(world.scheduler.is_idle());
        assert_eq!(world.pass_ms(60_000).len(), 0);
    }
}

#[test]
fn a_finish_that_crosses_the_cancel_counts() {
    let mut world = World::new();
    world.join(1, 1);
    world.submit(vec![spec(1)]);
    cancel(&mut world, 1);
    world.end(1, 1, finished());
    assert_eq!(world.fact_names(), ["Finished 1"]);
    assert!(world.pass_ms(60_000).is_empty());
}

#[test]
fn a_worker_that_does_not_answer_in_time_or_dies_is_not_waited_for() {
    let mut world = World::new();
    world.join(1, 2);
    world.submit(vec![spec(1), spec(2)]);
    let token = world.scheduler.lease_token(Seq(1)).unwrap();
    cancel(&mut world, 1);
    cancel(&mut world, 2);
    world.pass_ms(9_999);
    assert_eq!(world.state(1), Some(TaskState::Leased));
    world.feed(Input::WorkerLeft { worker: WorkerKey(1) });
    assert_eq!(world.fact_names(), ["Cancelled 2", "Cancelled 1"]);
    world.join(2, 1);
    world.submit(vec![spec(3)]);
    let late = world.scheduler.lease_token(Seq(3)).unwrap();
    cancel(&mut world, 3);
    world.pass_ms(10_000);
    assert_eq!(world.cancel_reason(3), Some("asked".to_owned()));
    for (task, token) in [(1, token), (3, late)] {
        world.report(2, task, token, finished());
        assert_eq!(world.answers(), [ReportAnswer::Refused]);
    }
}
