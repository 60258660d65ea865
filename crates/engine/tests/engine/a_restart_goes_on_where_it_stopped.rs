//! Recovery: what was acknowledged is there, what was final stays final, what ran goes on.

use crate::support::{World, after, done, failed, task};
use divvy_engine::{Request, ToWorker};
use divvy_types::{AttemptOutcome, FailureVerdict, Payload, TaskId, TaskState};

#[test]
fn a_half_finished_graph_goes_on_and_nothing_runs_twice() {
    let mut world = World::new();
    world.submit(vec![task(1), after(2, &[1]), after(3, &[1, 2]), task(4)]).unwrap();
    let mut worker = world.join("w", 1, vec![]);
    let first = worker.grants().pop().unwrap();
    world.finish(&worker, &first);

    let mut world = world.restart(60_000);
    assert_eq!(world.state(TaskId(1)), None);
    assert_eq!(world.state(TaskId(3)), Some(TaskState::Blocked));
    // What the first worker held when the server stopped waits one lease time for it.
    world.advance_ms(31_000);
    let mut worker = world.join("w", 10, vec![]);
    let mut seen = Vec::new();
    let mut granted = worker.grants();
    while let Some(next) = granted.pop() {
        assert!(next.token > first.token);
        seen.push(next.spec.id.0);
        world.finish(&worker, &next);
        granted.extend(worker.grants());
    }
    seen.sort_unstable();
    assert_eq!(seen, [2, 3, 4]);
}

#[test]
fn a_worker_keeps_what_it_runs_over_a_restart() {
    let mut world = World::new();
    world.submit(vec![task(1)]).unwrap();
    let mut worker = world.join("w", 1, vec![]);
    let running = worker.grants().pop().unwrap();
    let mut world = world.restart(5_000);
    let mut other = world.join("other", 1, vec![]);
    assert!(other.grants().is_empty(), "the task is still the first worker's");
    let mut worker =
        world.join("w", 1, vec![(running.spec.id, running.token), (TaskId(99), running.token)]);
    assert!(
        matches!(worker.messages().as_slice(), [ToWorker::Stops(s)] if s[0].0 == TaskId(99)),
        "an attempt that means nothing is stopped, the other goes on"
    );
    world.report(&worker, running.spec.id, running.token, done("1"));
    assert!(matches!(worker.messages().as_slice(), [ToWorker::Answers(a)] if a[0].2));
    assert!(other.grants().is_empty());
}

#[test]
fn a_worker_that_does_not_come_back_loses_its_task_after_one_lease() {
    let mut world = World::new();
    world.submit(vec![task(1)]).unwrap();
    let mut worker = world.join("w", 1, vec![]);
    let running = worker.grants().pop().unwrap();
    let mut world = world.restart(1_000);
    let mut other = world.join("other", 1, vec![]);
    world.advance_ms(29_000);
    assert!(other.grants().is_empty());
    world.advance_ms(2_000);
    let granted = other.grants().pop().expect("granted anew after the lease");
    assert_eq!(granted.attempt, 2, "a lost worker's running task used an attempt");
    assert!(granted.token > running.token);
}

#[test]
fn attempts_and_backoff_are_remembered() {
    let mut world = World::new();
    let mut spec = task(1);
    spec.retry.limit = 1;
    spec.retry.base_ms = 60_000;
    world.submit(vec![spec]).unwrap();
    let mut worker = world.join("w", 1, vec![]);
    let granted = worker.grants().pop().unwrap();
    world.report(&worker, granted.spec.id, granted.token, failed(FailureVerdict::Retry));
    let mut world = world.restart(1_000);
    let mut worker = world.join("w", 1, vec![]);
    assert_eq!(world.state(TaskId(1)), Some(TaskState::Scheduled));
    assert!(worker.grants().is_empty());
    world.advance_ms(80_000);
    let granted = worker.grants().pop().expect("due");
    assert_eq!(granted.attempt, 2);
    world.report(&worker, granted.spec.id, granted.token, failed(FailureVerdict::Retry));
    assert_eq!(
        world.state(TaskId(1)),
        None,
        "the limit counts attempts from before the restart: it is dead"
    );
}

#[test]
fn dependents_still_wait_for_spawned_children() {
    let mut world = World::new();
    world.submit(vec![task(1), after(2, &[1])]).unwrap();
    let mut worker = world.join("w", 1, vec![]);
    let split = worker.grants().pop().unwrap();
    let spawned = vec![task(10), task(11)];
    let outcome = AttemptOutcome::Finished { result: Payload::json("\"plan\"").unwrap(), spawned };
    world.report(&worker, split.spec.id, split.token, outcome);
    let first_child = worker.grants().pop().unwrap();
    world.report(&worker, first_child.spec.id, first_child.token, done("10"));
    world.engine.step(world.now, Request::Disconnect { worker: worker.key }).unwrap();

    let mut world = world.restart(1_000);
    assert_eq!(world.state(TaskId(2)), Some(TaskState::Blocked), "a child is open");
    let mut worker = world.join("w", 1, vec![]);
    let child = worker.grants().pop().unwrap();
    assert!([10, 11].contains(&child.spec.id.0));
    world.report(&worker, child.spec.id, child.token, done("11"));
    let join = worker.grants().pop().expect("all children settled");
    assert_eq!(join.spec.id, TaskId(2));
    let mut upstream: Vec<_> = join.upstream.iter().map(|u| (u.task.0, u.spawned)).collect();
    upstream.sort_unstable();
    assert_eq!(
        upstream,
        [(1, false), (10, true), (11, true)],
        "the join gets the results of all of them"
    );
}

#[test]
fn paused_queues_and_dead_letters_stay_as_they_were() {
    let mut world = World::new();
    let mut worker = world.join("w", 1, vec![]);
    world.submit(vec![task(1)]).unwrap();
    let granted = worker.grants().pop().unwrap();
    world.report(&worker, granted.spec.id, granted.token, failed(FailureVerdict::Dead));
    world
        .ask(|reply| Request::PauseQueue { queue: "default".into(), paused: true, reply })
        .unwrap();
    world.submit(vec![task(2)]).unwrap();
    let mut world = world.restart(1_000);
    let mut worker = world.join("w", 5, vec![]);
    assert!(worker.grants().is_empty(), "the queue is paused");
    let state = world.ask(|reply| Request::Retry { id: TaskId(1), reply }).unwrap();
    assert_eq!(state, TaskState::Ready);
    world
        .ask(|reply| Request::PauseQueue { queue: "default".into(), paused: false, reply })
        .unwrap();
    let mut ids: Vec<u128> = worker.grants().iter().map(|g| g.spec.id.0).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2], "the replayed dead letter and the paused task");
}

#[test]
fn after_a_crash_a_short_attempt_may_be_announced_or_run_again_but_ends_once() {
    let mut world = World::new();
    world.submit(vec![task(1), task(2)]).unwrap();
    let mut worker = world.join("w", 2, vec![]);
    let mut running = worker.grants();
    let (second, first) = (running.pop().unwrap(), running.pop().unwrap());
    let mut world = world.crash(1_000);
    // The first attempt's worker comes back before anyone else: it keeps the task although nothing was recorded.
    let mut worker = world.join("w", 1, vec![(first.spec.id, first.token)]);
    let mut other = world.join("other", 1, vec![]);
    let again = other.grants().pop().expect("the unannounced one is granted anew");
    assert_eq!(again.spec.id, second.spec.id);
    world.report(&worker, first.spec.id, first.token, done("1"));
    world.report(&worker, second.spec.id, second.token, done("2"));
    let answers: Vec<bool> = worker
        .messages()
        .into_iter()
        .filter_map(|m| if let ToWorker::Answers(a) = m { Some(a) } else { None })
        .flatten()
        .map(|a| a.2)
        .collect();
    assert_eq!(
        answers,
        [true, false],
        "the announced attempt ends its task, the fenced one does not"
    );
    world.finish(&other, &again);
    assert!(matches!(other.messages().as_slice(), [ToWorker::Answers(a)] if a[0].2));
}
