//! A task that failed on a worker goes to another one, if another one can run it, and not for ever.

use crate::support::*;
use divvy_scheduler::{AttemptEnd, Input};
use divvy_types::{
    AttemptOutcome, ErrorClass, Failure, FailureVerdict, Machine, Seq, TaskError, TaskSpec,
    TaskState, WaitReason, WorkerKey,
};

/// As long as a retry waits for others at most.
const PATIENCE_MS: u64 = 30_000;

fn retry_at_once() -> AttemptEnd {
    failure(FailureVerdict::RetryAfterMs(0))
}

fn with_retries(number: u64) -> TaskSpec {
    let mut task = spec(number);
    task.retry.limit = 100;
    task
}

/// A worker that never stays busy and one that is, and a task that just failed on the first.
fn free_and_busy() -> World {
    let mut world = World::new();
    world.join(1, 1);
    world.submit(vec![with_retries(1)]);
    assert_eq!(world.grants(), [(1, 1)]);
    world.join(2, 1);
    world.submit(vec![spec(2)]);
    assert_eq!(world.grants(), [(2, 2)]);
    world.end(1, 1, retry_at_once());
    world
}

#[test]
fn a_retry_waits_for_a_busy_worker_rather_than_go_back_to_a_free_one_where_it_failed() {
    let mut world = free_and_busy();
    assert_eq!((world.grants(), world.state(1)), (vec![], Some(TaskState::Ready)));
    world.pass_ms(5_000);
    assert_eq!(world.grants(), []);
    world.end(2, 2, finished());
    assert_eq!(world.grants(), [(2, 1)]);
    world.end(2, 1, finished());
    assert!(world.scheduler.is_idle());
}

#[test]
fn a_retry_whose_wait_is_over_goes_to_the_other_free_worker() {
    let mut world = World::new();
    world.join(1, 1);
    world.submit(vec![with_retries(1)]);
    world.join(2, 1);
    world.end(1, 1, failure(FailureVerdict::RetryAfterMs(1_000)));
    world.pass_ms(1_000);
    assert_eq!(world.grants(), [(2, 1)]);
    // It failed there too, so the first one is as good as any.
    world.end(2, 1, failure(FailureVerdict::RetryAfterMs(1_000)));
    world.pass_ms(1_000);
    assert_eq!(world.grants(), [(1, 1)]);
}

#[test]
fn after_half_a_minute_the_worker_where_it_failed_may_have_it() {
    let mut world = free_and_busy();
    world.now = world.now.plus_ms(PATIENCE_MS - 1);
    for worker in [1, 2].map(WorkerKey) {
        world.feed(Input::WorkerSeen { worker });
    }
    world.feed(Input::TimePassed);
    assert_eq!(world.grants(), []);
    assert_eq!(world.scheduler.next_deadline(), Some(world.now.plus_ms(1)));
    world.pass_ms(1);
    assert_eq!(world.grants(), [(1, 1)]);
}

#[test]
fn the_only_worker_gets_its_retry_at_once() {
    let mut world = World::new();
    world.join(1, 1);
    world.submit(vec![with_retries(1)]);
    // One that serves something else does not count, and neither does one that drains.
    world.join_with(2, 1, |worker| worker.kinds = vec!["other".into()]);
    world.join_with(3, 1, |worker| worker.queues = vec!["other".into()]);
    world.join(4, 1);
    world.feed(Input::WorkerDraining { worker: WorkerKey(4) });
    // The same worker under another connection is no other worker.
    world.join_with(5, 1, |worker| worker.name = "worker-1".into());
    world.end(1, 1, retry_at_once());
    assert_eq!(world.grants().len(), 1);
    assert!([1, 5].contains(&world.grants()[0].0));
}

#[test]
fn when_the_last_other_worker_goes_or_drains_the_retry_does_not_wait_any_longer() {
    for drains in [false, true] {
        let mut world = free_and_busy();
        assert_eq!(world.grants(), []);
        if drains {
            world.feed(Input::WorkerDraining { worker: WorkerKey(2) });
            assert_eq!(world.grants(), [(1, 1)]);
        } else {
            world.leave(2);
            assert_eq!(world.grants().len(), 1, "it has one slot");
            let (_, seq) = world.grants()[0];
            world.end(1, seq, finished());
            assert_eq!(world.grants().len(), 1, "and gets the other task then");
        }
    }
}

#[test]
fn tasks_behind_a_retry_go_to_the_worker_where_it_failed() {
    let mut world = World::new();
    world.join(1, 1);
    world.submit(vec![with_retries(1)]);
    world.join(2, 1);
    world.submit((2..=4).map(spec).collect());
    world.end(1, 1, retry_at_once());
    assert_eq!(world.grants(), [(1, 3)], "it passes the retry over");
    world.end(1, 3, finished());
    assert_eq!(world.grants(), [(1, 4)]);
    world.end(2, 2, finished());
    assert_eq!(world.grants(), [(2, 1)]);
}

#[test]
fn a_retry_keeps_its_turn_for_the_others() {
    let mut world = World::new();
    world.join(1, 1);
    let mut tasks: Vec<TaskSpec> = (1..=5).map(with_retries).collect();
    tasks[4].priority = 5;
    world.submit(vec![tasks[0].clone()]);
    world.join(2, 1);
    world.submit(vec![spec(9)]);
    world.now = world.now.plus_ms(1);
    world.end(1, 1, retry_at_once());
    world.now = world.now.plus_ms(1);
    world.feed(Input::WorkerDraining { worker: WorkerKey(1) });
    world.join_with(3, 1, |worker| worker.kinds = vec!["other".into()]);
    world.now = world.now.plus_ms(1);
    world.submit(tasks[1..].to_vec());
    let mut order = Vec::new();
    let mut running = 9;
    for _ in 0..5 {
        world.end(2, running, finished());
        running = world.grants()[0].1;
        order.push(running);
    }
    assert_eq!(order, [5, 1, 2, 3, 4], "higher priority first, then by age");
}

#[test]
fn a_task_whose_worker_died_is_not_given_to_it_when_it_comes_back() {
    let mut world = World::new();
    world.join(1, 1);
    world.submit(vec![with_retries(1)]);
    world.join(2, 1);
    world.submit(vec![spec(2)]);
    world.leave(1);
    world.join_with(3, 1, |worker| worker.name = "worker-1".into());
    assert_eq!(world.grants(), []);
    world.end(2, 2, finished());
    assert_eq!(world.grants(), [(2, 1)]);
}

#[test]
fn what_is_no_fault_of_the_worker_goes_back_to_it() {
    let cancelled = TaskError::new(ErrorClass::Cancelled, "stopped");
    let verdict = FailureVerdict::RetryAfterMs(0);
    let ends = [
        released(),
        failure(FailureVerdict::SnoozeMs(0)),
        AttemptEnd::Other(AttemptOutcome::Failed(Failure { verdict, error: cancelled })),
    ];
    for end in ends {
        let mut world = World::new();
        world.join(1, 1);
        world.submit(vec![with_retries(1)]);
        world.join(2, 1);
        world.submit(vec![spec(2)]);
        world.end(1, 1, end.clone());
        assert_eq!(world.grants(), [(1, 1)], "{end:?}");
    }
}

#[test]
fn a_worker_that_rests_from_the_kind_is_not_waited_for() {
    let mut world = World::new();
    world.join(2, 1);
    for number in 11..=14 {
        world.submit(vec![spec(number)]);
        world.end(2, number, failure(FailureVerdict::Dead));
    }
    world.join(1, 1);
    world.submit(vec![spec(15), spec(16)]);
    let mut grants = world.grants();
    grants.sort_unstable();
    let &[(1, other), (2, last)] = &grants[..] else { panic!("{grants:?}") };
    world.end(2, last, failure(FailureVerdict::Dead));
    assert!(world.worker(2).skills[0].quarantined_until.is_some(), "{:?}", world.worker(2));
    world.end(1, other, finished());
    world.submit(vec![with_retries(20)]);
    assert_eq!(world.grants(), [(1, 20)]);
    world.end(1, 20, retry_at_once());
    assert_eq!(world.grants(), [(1, 20)], "the other one rests");
}

#[test]
fn an_explanation_says_where_it_failed_and_until_when_it_waits_for_another() {
    let mut world = free_and_busy();
    let status = world.scheduler.status(Seq(1)).expect("an open task");
    let until = world.now.plus_ms(PATIENCE_MS);
    let wait = WaitReason::Elsewhere { worker: "worker-1".into(), until };
    assert!(wait.to_string().contains("failed on `worker-1`"));
    assert_eq!(status.wait, Some(wait));
    // While the worker is busy itself, that is why.
    world.submit(vec![spec(3)]);
    assert_eq!(world.grants(), [(1, 3)]);
    let status = world.scheduler.status(Seq(1)).expect("an open task");
    assert!(matches!(status.wait, Some(WaitReason::WorkersBusy { .. })), "{status:?}");
}

#[test]
fn retries_that_wait_for_others_can_be_cancelled_and_leave_nothing_behind() {
    let mut world = free_and_busy();
    world.feed(Input::CancelRequested { seq: Seq(1), reason: "asked".into() });
    assert_eq!(world.cancel_reason(1), Some("asked".to_owned()));
    world.end(2, 2, finished());
    assert!(world.scheduler.is_idle());
    world.pass_ms(2 * PATIENCE_MS);
    assert_eq!(world.scheduler.counts(), divvy_scheduler::Counts::default());
    let ready = world.scheduler.queues(world.now).iter().map(|queue| queue.ready).sum::<u64>();
    assert_eq!(ready, 0);
}

#[test]
fn many_retries_with_deadlines_and_limits_all_come_through_after_the_wait() {
    let mut world = World::new();
    world.set(|settings| {
        let limit = divvy_types::settings::Limit { concurrency: Some(3), ..Default::default() };
        settings.limits.insert("db".into(), limit);
    });
    world.join(1, 20);
    let tasks = (1..=20).map(|number| {
        let mut task = with_retries(number);
        task.deadline = (number % 3 == 0).then(|| world.now.plus_ms(number * 10_000));
        task.fair_key = (number % 2 == 0).then(|| "acme".into());
        task.limits = if number % 5 == 0 { vec!["db".into()] } else { Vec::new() };
        task
    });
    world.submit(tasks.collect());
    assert_eq!(world.grants().len(), 19, "the limit keeps one");
    world.join(2, 1);
    world.submit(vec![spec(100)]);
    for seq in 1..=20 {
        if world.state(seq) == Some(TaskState::Leased) && world.holder(seq).unwrap() == "worker-1" {
            world.end(1, seq, retry_at_once());
            world.now = world.now.plus_ms(10);
        }
    }
    world.feed(Input::WorkerSeen { worker: WorkerKey(2) });
    let mut done = 0;
    for _ in 0..400 {
        world.pass_ms(200);
        world.feed(Input::WorkerSeen { worker: WorkerKey(2) });
        for seq in 1..=20 {
            if world.state(seq) == Some(TaskState::Leased) {
                let worker = if world.holder(seq).unwrap() == "worker-1" { 1 } else { 2 };
                world.end(worker, seq, finished());
                done += 1;
            }
        }
    }
    assert_eq!(done, 20);
    assert_eq!(world.scheduler.counts().leased, 1);
    assert_eq!(
        world.scheduler.limit_views(world.now).iter().map(|view| view.waiting).sum::<u64>(),
        0
    );
}

#[test]
fn the_worker_where_a_retry_failed_does_not_steal_it_from_the_line_of_another() {
    let mut world = World::new();
    world.join(1, 1);
    world.submit(vec![with_retries(1)]);
    world.join_with(2, 3, |worker| worker.slots = 1);
    world.submit(vec![spec(2)]);
    world.end(1, 1, retry_at_once());
    assert_eq!(world.grants(), [(2, 1)], "it waits there in line");
    world.pass_ms(5_000);
    assert_eq!(world.recalls(), []);
    world.join(3, 1);
    assert_eq!(world.recalls(), [(2, 1, false)], "a third one may");
}
