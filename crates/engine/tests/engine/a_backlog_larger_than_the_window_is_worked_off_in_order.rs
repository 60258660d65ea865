//! The window: what does not fit waits in the store, in order, and survives a restart there.

use crate::support::{World, after, failed, task};
use divvy_engine::Request;
use divvy_engine::runner::Options;
use divvy_types::{
    FailureVerdict, Payload, Refusal as _, TaskId, TaskState, Workflow, WorkflowId, WorkflowRole,
};

fn small_window() -> Options {
    Options { window_tasks: 50, ..Options::default() }
}

#[test]
fn every_task_runs_once_oldest_first_even_over_a_restart() {
    let mut world = World::with(small_window());
    for start in (1..=9_000u128).step_by(500) {
        world.submit((start..start + 500).map(task).collect()).unwrap();
        world.now = world.now.plus_ms(1);
    }
    let counts = world.engine.core().scheduler().counts();
    assert!(counts.spilled > 8_000, "{counts:?}");
    assert_eq!(counts.ready + counts.spilled, 9_000);
    let mut seen = Vec::new();
    work(&mut world, &mut seen, 4_000);
    let mut world = world.restart(1_000);
    work(&mut world, &mut seen, 10_000);
    assert_eq!(seen, (1..=9_000).collect::<Vec<u128>>());
    let counts = world.engine.core().scheduler().counts();
    assert_eq!((counts.ready, counts.spilled, counts.leased), (0, 0, 0));
}

#[test]
fn what_cannot_wait_in_the_store_is_refused_when_memory_is_full() {
    let options = Options { window_tasks: 5, open_bytes: 40 << 10, ..Options::default() };
    let mut world = World::with(options);
    let tomorrow = world.now.plus_ms(86_400_000);
    let large = |number| {
        let mut spec = task(number);
        spec.payload = Payload::new("a/b", vec![7; 10 << 10]).unwrap();
        spec
    };
    let later = |number| {
        let mut spec = large(number);
        spec.run_at = Some(tomorrow);
        spec
    };
    world.submit((1..=3).map(later).collect()).unwrap();
    let error = world.submit(vec![later(4)]).unwrap_err();
    assert_eq!((error.code(), error.status()), ("memory_full", 429));
    assert!(error.retry_after_ms().is_some());
    let (mut timed, mut blocked) = (large(4), large(4));
    timed.deadline = Some(tomorrow);
    blocked.after = after(4, &[1]).after.clone();
    for spec in [timed, blocked] {
        assert_eq!(world.submit(vec![spec]).unwrap_err().code(), "memory_full");
    }
    // Who was not answered and asks again is told that it is there; what can wait in the store is taken.
    assert_eq!(world.submit(vec![later(1), later(3)]).unwrap().known, 2);
    assert_eq!(world.submit(vec![large(10)]).unwrap().accepted, 1);
    // A restart takes in everything, however little room there is.
    let mut world = world.restart(1_000);
    assert_eq!(world.engine.core().scheduler().counts().scheduled, 3);
    assert_eq!(world.submit(vec![later(4)]).unwrap_err().code(), "memory_full");
    for id in [TaskId(2), TaskId(3)] {
        world.ask(|reply| Request::Cancel { id, reason: "no need".into(), reply }).unwrap();
    }
    world.submit(vec![later(4)]).unwrap();
}

#[test]
fn what_is_put_back_or_spawned_is_refused_too_when_memory_is_full() {
    let mut world = World::with(Options { open_bytes: 40 << 10, ..Options::default() });
    let large = |number| {
        let mut spec = task(number);
        spec.payload = Payload::new("a/b", vec![7; 10 << 10]).unwrap();
        spec
    };
    let mut member = large(60);
    let (id, name, role) = (WorkflowId(5), "w".into(), WorkflowRole::Member);
    member.workflow = Some(Box::new(Workflow { id, name, role }));
    world.submit(vec![member]).unwrap();
    let mut worker = world.join("w", 1, vec![]);
    let granted = worker.grants().pop().unwrap();
    world.report(&worker, TaskId(60), granted.token, failed(FailureVerdict::Dead));
    world.submit(vec![task(50)]).unwrap();
    let granted = worker.grants().pop().unwrap();
    let tomorrow = world.now.plus_ms(86_400_000);
    let later = |number| {
        let mut spec = large(number);
        spec.run_at = Some(tomorrow);
        spec
    };
    world.submit((1..=3).map(later).collect()).unwrap();

    let replay = |reply| Request::Replay { id: TaskId(60), replay: Box::default(), reply };
    assert_eq!(world.ask(replay).unwrap_err().code(), "memory_full");
    let retry = |reply| Request::Retry { id: TaskId(60), reply };
    assert_eq!(world.ask(retry).unwrap_err().code(), "memory_full");
    let resume = |reply| Request::ResumeWorkflow { id, include_cancelled: false, reply };
    assert_eq!(world.ask(resume).unwrap_err().code(), "memory_full");
    let finish = |children: std::ops::Range<u128>| divvy_types::AttemptOutcome::Finished {
        result: Payload::null(),
        spawned: children.map(large).collect(),
    };
    world.report(&worker, TaskId(50), granted.token, finish(70..73));
    assert_eq!(world.state(TaskId(50)), Some(TaskState::Scheduled), "it is tried again");
    assert_eq!(world.state(TaskId(70)), None);

    for id in [TaskId(1), TaskId(2)] {
        world.ask(|reply| Request::Cancel { id, reason: "no need".into(), reply }).unwrap();
    }
    world.advance_ms(30_000);
    let again = worker.grants().pop().unwrap();
    assert_eq!((again.spec.id, again.attempt), (TaskId(50), 1), "that did not count");
    world.report(&worker, TaskId(50), again.token, finish(70..73));
    assert!(world.state(TaskId(72)).is_some());
    world.ask(|reply| Request::Cancel { id: TaskId(3), reason: "no".into(), reply }).unwrap();
    assert_eq!(world.ask(resume).unwrap_err().code(), "memory_full", "children take room too");
    for id in (70..73).map(TaskId) {
        let _ = world.ask(|reply| Request::Cancel { id, reason: "no".into(), reply });
    }
    world.ask(replay).unwrap();
}

fn work(world: &mut World, seen: &mut Vec<u128>, at_most: usize) {
    let mut worker = world.join("w", 1, vec![]);
    for _ in 0..at_most {
        let Some(granted) = worker.grants().pop() else { break };
        seen.push(granted.spec.id.0);
        world.finish(&worker, &granted);
    }
    // What was granted last goes back unrun.
    if let Some(granted) = worker.grants().pop() {
        world.report(
            &worker,
            granted.spec.id,
            granted.token,
            divvy_types::AttemptOutcome::Released,
        );
    }
    world.engine.step(world.now, Request::Stopping { worker: worker.key }).expect("steps");
    for granted in worker.grants() {
        world.report(
            &worker,
            granted.spec.id,
            granted.token,
            divvy_types::AttemptOutcome::Released,
        );
    }
    world.engine.step(world.now, Request::Disconnect { worker: worker.key }).expect("steps");
}

#[test]
fn a_task_that_waits_in_the_store_can_be_cancelled_and_takes_its_dependents_along() {
    let mut world = World::with(small_window());
    world.submit((1..=200).map(task).collect()).unwrap();
    world.submit(vec![after(500, &[200])]).unwrap();
    assert_eq!(world.state(TaskId(200)), None, "it waits in the store");
    let state = world
        .ask(|reply| Request::Cancel { id: TaskId(200), reason: "no need".into(), reply })
        .unwrap();
    assert_eq!(state, TaskState::Cancelled);
    assert_eq!(world.state(TaskId(500)), None, "its dependent was cancelled too");
    let mut seen = Vec::new();
    work(&mut world, &mut seen, 1_000);
    assert_eq!(seen, (1..=199).collect::<Vec<u128>>());
    let again =
        world.ask(|reply| Request::Cancel { id: TaskId(200), reason: "again".into(), reply });
    assert!(again.unwrap_err().to_string().contains("nothing is left to cancel"));
}
