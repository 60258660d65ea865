//! Leases: who holds a task, for how long, and what happens when a worker goes away.

use crate::support::*;
use divvy_scheduler::{Action, Input, Options, ReportAnswer};
use divvy_types::{ErrorClass, Fact, Machine, Seq, TaskState, WorkerKey};

fn leave(world: &mut World, key: u64) {
    world.feed(Input::WorkerLeft { worker: WorkerKey(key) });
}

#[test]
fn its_tasks_go_to_another_worker_in_their_old_order_and_its_late_report_is_refused() {
    let mut world = World::new();
    world.join(1, 3);
    world.submit((1..=4).map(spec).collect());
    let old = world.scheduler.lease_token(Seq(1)).unwrap();
    leave(&mut world, 1);
    let Fact::AttemptFailed { error, counted, retry_at, worker, .. } = world.facts()[0] else {
        panic!("no fact")
    };
    assert_eq!((error.class, *counted, *retry_at), (ErrorClass::WorkerLost, true, world.now));
    assert!(error.message.contains("worker-1") && worker == "worker-1");
    world.join(2, 4);
    assert_eq!(world.grants(), [(2, 1), (2, 2), (2, 3), (2, 4)]);
    let new = world.scheduler.lease_token(Seq(1)).unwrap();
    assert!(new > old);
    for (worker, token) in [(1, old), (2, old), (1, new)] {
        world.report(worker, 1, token, finished());
        assert_eq!(world.answers(), [ReportAnswer::Refused]);
        assert_eq!(world.actions.len(), 1, "a refused report changes nothing");
    }
    world.report(2, 1, new, finished());
    assert_eq!(world.answers(), [ReportAnswer::Recorded]);
    world.report(2, 1, new, finished());
    assert_eq!(world.answers(), [ReportAnswer::Refused]);
}

#[test]
fn a_task_that_keeps_losing_its_workers_is_dead_after_its_limit() {
    let mut world = World::new();
    let mut task = spec(1);
    task.retry.limit = 2;
    world.submit(vec![task]);
    for key in 1..=3 {
        world.join(key, 1);
        assert_eq!(world.grants(), [(key, 1)]);
        leave(&mut world, key);
    }
    assert_eq!(world.fact_names(), ["Dead 1"]);
    assert!(world.scheduler.is_idle());
}

#[test]
fn a_silent_worker_is_dropped_after_a_lease_time_unless_it_holds_nothing() {
    let mut world = World::new();
    world.join(1, 1);
    world.pass_ms(3_600_000);
    assert!(world.actions.is_empty(), "an idle worker may be silent");
    world.submit(vec![spec(1)]);
    assert_eq!(world.grants(), [(1, 1)]);
    world.pass_ms(29_999);
    assert_eq!(world.state(1), Some(TaskState::Leased));
    world.feed(Input::WorkerSeen { worker: WorkerKey(1) });
    world.pass_ms(29_999);
    assert_eq!(world.state(1), Some(TaskState::Leased));
    world.pass_ms(1);
    assert!(world.actions.iter().any(|a| matches!(a, Action::DropWorker { worker: WorkerKey(1) })));
    assert_eq!((world.state(1), world.scheduler.worker_count()), (Some(TaskState::Ready), 0));
}

#[test]
fn an_attempt_is_recorded_as_held_once_and_short_ones_leave_no_timer_behind() {
    let mut world = World::new();
    world.join(1, 2);
    world.submit(vec![spec(1)]);
    for number in 2..1_000 {
        world.submit(vec![spec(number)]);
        world.end(1, number, finished());
    }
    world.pass_ms(2_000);
    assert_eq!(world.fact_names(), ["Held 1"]);
    world.pass_ms(2_000);
    assert_eq!(world.fact_names(), Vec::<String>::new());
    world.end(1, 1, finished());
    let mut wakes = 0;
    while let Some(at) = world.scheduler.next_deadline() {
        wakes += 1;
        world.now = world.now.max(at);
        assert!(world.feed(Input::TimePassed).is_empty());
    }
    assert!(wakes <= 2, "an idle scheduler still wanted to be woken {wakes} times");
}

#[test]
fn a_stopping_server_records_what_runs_and_grants_nothing_more() {
    let mut world = World::new();
    world.join(1, 2);
    world.submit((1..=3).map(spec).collect());
    world.feed(Input::ServerStopping);
    assert_eq!(world.fact_names(), ["Held 1", "Held 2"]);
    world.end(1, 1, finished());
    assert_eq!((world.fact_names(), world.grants()), (vec!["Finished 1".to_owned()], vec![]));
}

#[test]
fn an_attempt_past_its_time_is_told_to_stop_before_the_next_one_is_placed() {
    let mut world = World::new();
    world.join(1, 1);
    world.join(2, 1);
    let mut task = spec(1);
    task.timeout_ms = Some(5_000);
    task.retry.base_ms = 0;
    world.submit(vec![task]);
    let token = world.scheduler.lease_token(Seq(1)).unwrap();
    world.feed(Input::WorkerSeen { worker: WorkerKey(1) });
    world.pass_ms(14_999);
    assert_eq!(world.state(1), Some(TaskState::Leased));
    world.pass_ms(1);
    assert_eq!(world.stops(), [(1, 1, token, "timed out".to_owned())]);
    let stop = world.actions.iter().position(|a| matches!(a, Action::StopAttempt { .. })).unwrap();
    let grant = world.actions.iter().position(|a| matches!(a, Action::Grant(_))).unwrap();
    assert!(stop < grant);
    let Fact::AttemptFailed { error, .. } = world.facts()[0] else { panic!("no fact") };
    assert_eq!(error.class, ErrorClass::Timeout);
    assert_eq!(world.report(1, 1, token, finished()).len(), 1);
    assert_eq!(world.answers(), [ReportAnswer::Refused]);
}

#[test]
fn a_worker_that_reconnects_before_its_old_connection_ends_keeps_its_tasks() {
    let mut world = World::with(Options::default());
    world.join(1, 1);
    world.submit(vec![spec(1)]);
    let token = world.scheduler.lease_token(Seq(1)).unwrap();
    world.join_with(2, 1, |worker| {
        worker.name = "worker-1".into();
        worker.held = vec![(Seq(1), token)];
    });
    assert_eq!((world.stops(), world.grants()), (vec![], vec![]));
    leave(&mut world, 1);
    assert!(world.actions.is_empty());
    world.report(2, 1, token, finished());
    assert_eq!(world.answers(), [ReportAnswer::Recorded]);
    // Another worker cannot claim what is not its own.
    world.submit(vec![spec(2)]);
    let token = world.scheduler.lease_token(Seq(2)).unwrap();
    world.join_with(3, 1, |worker| worker.held = vec![(Seq(2), token)]);
    assert_eq!(world.stops(), [(3, 2, token, "no longer yours".to_owned())]);
}
