//! A worker that keeps failing a kind rests from it, as long as someone else can do it.

use crate::support::*;
use divvy_scheduler::{AttemptEnd, Input};
use divvy_types::{
    AttemptOutcome, ErrorClass, Failure, FailureVerdict, Machine, Name, Seq, TaskError, TaskSpec,
    Timestamp, WaitReason, WorkerKey,
};

/// A task that fails for good at once, so that nothing of it comes back.
fn brittle(number: u64, queue: &str) -> TaskSpec {
    let mut spec = spec(number);
    spec.queue = queue.into();
    spec.retry.limit = 0;
    spec
}

fn join(world: &mut World, key: u64) {
    world.join_with(key, 4, |worker| {
        worker.queues = vec!["default".into(), Name::from(format!("only-{key}"))];
        worker.kinds = vec!["noop".into(), "other".into()];
    });
}

/// Lets a worker run tasks of its own queue with this end.
fn run(world: &mut World, key: u64, first: u64, count: u64, end: impl Fn() -> AttemptEnd) {
    for number in first..first + count {
        world.submit(vec![brittle(number, &format!("only-{key}"))]);
        assert_eq!(world.grants(), [(key, number)], "its own queue is served by nobody else");
        world.end(key, number, end());
    }
}

fn boom() -> AttemptEnd {
    failure(FailureVerdict::Retry)
}

fn quarantined_until(world: &World, key: u64) -> Option<Timestamp> {
    world.worker(key).skills.iter().find_map(|skill| skill.quarantined_until)
}

/// Makes worker 1 fail tasks that worker 2 could run as well.
fn fail_shared(world: &mut World, first: u64, count: u64) {
    for number in first..first + count {
        // Worker 2 is full, so that worker 1 gets it.
        world.submit(vec![brittle(number, "default")]);
        assert_eq!(world.grants(), [(1, number)]);
        world.end(1, number, boom());
    }
}

/// Workers 1 and 2, of which 2 is full with tasks 900 to 903.
fn two() -> World {
    let mut world = World::new();
    join(&mut world, 1);
    join(&mut world, 2);
    world.submit((900..904).map(|number| brittle(number, "only-2")).collect());
    assert_eq!(world.grants().len(), 4);
    world
}

#[test]
fn after_five_attempts_with_half_failed_it_rests_for_half_a_minute() {
    let mut world = two();
    fail_shared(&mut world, 1, 4);
    assert_eq!(quarantined_until(&world, 1), None, "four attempts say nothing");
    fail_shared(&mut world, 5, 1);
    assert_eq!(quarantined_until(&world, 1), Some(world.now.plus_ms(30_000)));
    world.submit(vec![brittle(6, "default")]);
    assert_eq!(world.grants(), []);
    let wait = world.scheduler.status(Seq(6)).unwrap().wait.unwrap();
    let until = world.now.plus_ms(30_000);
    assert_eq!(wait, WaitReason::Quarantined { kind: "noop".into(), workers: 1, until });
    world.end(2, 900, finished());
    assert_eq!(world.grants(), [(2, 6)], "the other worker takes it");
}

#[test]
fn it_still_gets_other_kinds_and_what_nobody_else_may_run() {
    let mut world = two();
    fail_shared(&mut world, 1, 5);
    let mut other = brittle(6, "default");
    other.kind = "other".into();
    world.submit(vec![other]);
    assert_eq!(world.grants(), [(1, 6)]);
    world.submit(vec![brittle(7, "only-1")]);
    assert_eq!(world.grants(), [(1, 7)], "nobody else serves this queue");
}

#[test]
fn when_the_rest_is_over_one_task_at_a_time_is_tried_and_a_success_ends_it() {
    let mut world = two();
    fail_shared(&mut world, 1, 5);
    world.submit((6..=8).map(|number| brittle(number, "default")).collect());
    world.feed(Input::WorkerSeen { worker: WorkerKey(1) });
    world.feed(Input::WorkerSeen { worker: WorkerKey(2) });
    world.pass_ms(29_999);
    assert_eq!(world.grants(), []);
    world.feed(Input::WorkerSeen { worker: WorkerKey(2) });
    world.pass_ms(1);
    assert_eq!(world.grants(), [(1, 6)], "one on trial");
    world.end(1, 6, released());
    assert_eq!(world.grants(), [(1, 6)], "a trial that says nothing is followed by another");
    world.end(1, 6, finished());
    assert_eq!(quarantined_until(&world, 1), None);
    assert_eq!(world.grants(), [(1, 7), (1, 8)]);
}

#[test]
fn each_failed_trial_doubles_the_rest_up_to_ten_minutes() {
    let mut world = two();
    fail_shared(&mut world, 1, 5);
    world.submit((10..30).map(|number| brittle(number, "default")).collect());
    let mut rests = Vec::new();
    for number in 10..17 {
        let until = quarantined_until(&world, 1).expect("it rests");
        rests.push(until.since(world.now).as_secs());
        while world.now < until {
            for worker in [1, 2].map(WorkerKey) {
                world.feed(Input::WorkerSeen { worker });
            }
            world.now = until.min(world.now.plus_ms(10_000));
            world.feed(Input::TimePassed);
        }
        assert_eq!(world.grants(), [(1, number)]);
        world.end(1, number, boom());
    }
    assert_eq!(rests, [30, 60, 120, 240, 480, 600, 600]);
}

#[test]
fn the_only_worker_of_a_kind_is_never_quarantined() {
    let mut world = World::new();
    join(&mut world, 1);
    fail_shared(&mut world, 1, 30);
    assert_eq!(quarantined_until(&world, 1), None);
    world.submit(vec![brittle(99, "default")]);
    assert_eq!(world.grants(), [(1, 99)]);
}

#[test]
fn if_everyone_fails_a_kind_the_kind_is_bad_and_nobody_rests() {
    let mut world = two();
    fail_shared(&mut world, 1, 5);
    assert!(quarantined_until(&world, 1).is_some());
    // Now the other worker fails as well.
    for number in 900..904 {
        world.end(2, number, boom());
    }
    world.submit(vec![brittle(10, "default")]);
    assert_eq!(world.grants(), [(2, 10)]);
    world.end(2, 10, boom());
    assert_eq!((quarantined_until(&world, 1), quarantined_until(&world, 2)), (None, None));
    run(&mut world, 2, 20, 10, boom);
    assert_eq!((quarantined_until(&world, 1), quarantined_until(&world, 2)), (None, None));
}

#[test]
fn a_resting_worker_is_called_when_the_better_one_goes() {
    for drains in [false, true] {
        let mut world = two();
        fail_shared(&mut world, 1, 5);
        world.submit(vec![brittle(6, "default")]);
        assert_eq!(world.grants(), []);
        let worker = WorkerKey(2);
        let input =
            if drains { Input::WorkerDraining { worker } } else { Input::WorkerLeft { worker } };
        world.feed(input);
        assert_eq!(world.grants(), [(1, 6)]);
    }
}

#[test]
fn when_only_resting_workers_are_left_they_play_again() {
    let mut world = two();
    fail_shared(&mut world, 1, 5);
    world.join_with(3, 1, |worker| worker.slots = 1);
    for number in 900..904 {
        world.end(2, number, boom());
    }
    world.submit((11..=14).map(|number| brittle(number, "default")).collect());
    // The third has one task, the second the rest, and now it fails them too: the third has hardly tried.
    let theirs: Vec<u64> =
        (11..=14).filter(|seq| world.holder(*seq).as_deref() == Some("worker-2")).collect();
    assert_eq!(theirs.len(), 3);
    for seq in theirs {
        world.end(2, seq, boom());
    }
    assert!(quarantined_until(&world, 1).is_some() && quarantined_until(&world, 2).is_some());
    world.submit((21..=22).map(|number| brittle(number, "default")).collect());
    assert_eq!(world.grants(), []);
    world.leave(3);
    assert_eq!(world.grants().len(), 2, "nobody better is left");
}

#[test]
fn a_rest_that_leaves_a_class_to_resting_workers_only_calls_them_back() {
    let mut world = World::new();
    for (key, queues) in [(1, ["default", "x"]), (2, ["default", "side"]), (3, ["side", "x"])] {
        world.join_with(key, 5, |worker| worker.queues = queues.map(Name::from).into());
    }
    world.submit((900..910).map(|number| brittle(number, "side")).collect());
    fail_shared(&mut world, 1, 5);
    assert!(quarantined_until(&world, 1).is_some());
    world.submit((20..=26).map(|number| brittle(number, "default")).collect());
    let theirs: Vec<u64> =
        (900..910).filter(|seq| world.holder(*seq).as_deref() == Some("worker-2")).collect();
    assert_eq!(theirs.len(), 5);
    for seq in theirs {
        world.end(2, seq, boom());
    }
    assert!(quarantined_until(&world, 2).is_some(), "the third has hardly tried the side queue");
    let mut granted = world.grants();
    granted.sort_unstable();
    assert_eq!(granted, [(1, 25), (1, 26), (2, 24)], "nobody else serves the default queue");
}

#[test]
fn only_real_failures_count_against_a_worker() {
    let other = |class| {
        let error = TaskError::new(class, "no");
        AttemptEnd::Other(AttemptOutcome::Failed(Failure { verdict: FailureVerdict::Dead, error }))
    };
    for (end, counts) in [
        (failure(FailureVerdict::Dead), true),
        (other(ErrorClass::Crashed), true),
        (other(ErrorClass::Timeout), true),
        (failure(FailureVerdict::SnoozeMs(1)), false),
        (failure(FailureVerdict::Cancelled), false),
        (released(), false),
    ] {
        let mut world = two();
        for number in 1..=5 {
            world.submit(vec![brittle(number, "default")]);
            let token = world.scheduler.lease_token(Seq(number)).expect("worker 1 has it");
            world.report(1, number, token, end.clone());
            world.feed(Input::CancelRequested { seq: Seq(number), reason: "enough".into() });
            if let Some(token) = world.scheduler.lease_token(Seq(number)) {
                world.report(1, number, token, failure(FailureVerdict::Cancelled));
            }
        }
        assert_eq!(quarantined_until(&world, 1).is_some(), counts, "{end:?}");
    }
}

#[test]
fn a_mixed_record_benches_only_who_does_clearly_worse_than_another() {
    let mut world = World::new();
    join(&mut world, 1);
    join(&mut world, 2);
    // Both fail a third of the time or more; none does clearly better.
    for round in 0..10 {
        for key in [1, 2] {
            let first = 1_000 * key + 10 * round;
            run(&mut world, key, first, 1, finished);
            run(&mut world, key, first + 1, 2, boom);
        }
    }
    // Their own queues are served by nobody else, so only shared tasks can lead to a quarantine.
    world.submit(vec![brittle(1, "default")]);
    let (worker, _) = world.grants()[0];
    world.end(worker, 1, boom());
    assert_eq!((quarantined_until(&world, 1), quarantined_until(&world, 2)), (None, None));
    // Ten good ones make the second clearly better.
    run(&mut world, 2, 5_000, 14, finished);
    world.submit((901..905).map(|number| brittle(number, "only-2")).collect());
    world.submit(vec![brittle(2, "default")]);
    assert_eq!(world.grants(), [(1, 2)]);
    world.end(1, 2, boom());
    assert!(quarantined_until(&world, 1).is_some());
}

#[test]
fn who_comes_back_under_its_name_still_rests_and_history_can_be_switched_off() {
    let mut world = two();
    fail_shared(&mut world, 1, 5);
    world.leave(1);
    world.join_with(3, 4, |worker| worker.name = "worker-1".into());
    world.submit(vec![brittle(6, "default")]);
    assert_eq!(world.grants(), []);
    assert!(quarantined_until(&world, 3).is_some());
    world.set(|settings| settings.load_balancing.capabilities.consider_history = false);
    assert_eq!(world.grants(), [(3, 6)]);
}

#[test]
fn a_bench_leaves_one_timer_and_nothing_more() {
    let mut world = two();
    for number in 900..904 {
        world.end(2, number, finished());
    }
    world.submit((910..914).map(|number| brittle(number, "only-2")).collect());
    fail_shared(&mut world, 1, 5);
    for number in 910..914 {
        world.end(2, number, finished());
    }
    let mut wakes = 0;
    while let Some(at) = world.scheduler.next_deadline() {
        wakes += 1;
        world.now = world.now.max(at);
        assert!(world.feed(Input::TimePassed).is_empty());
    }
    assert!(wakes <= 5, "an idle scheduler wanted to be woken {wakes} times");
}
