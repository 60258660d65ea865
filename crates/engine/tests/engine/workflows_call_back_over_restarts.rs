//! Tasks that run when a workflow has ended, although what they need to know is in the store only.

use crate::support::{TestWorker, World, after, failed, task};
use divvy_engine::runner::Options;
use divvy_types::{
    AttemptOutcome, FailureVerdict, Payload, SpecError, TaskId, TaskSpec, TaskState, Workflow,
    WorkflowId, WorkflowRole,
};

fn of(mut spec: TaskSpec, role: WorkflowRole) -> TaskSpec {
    spec.retry.limit = 0;
    let id = WorkflowId(7);
    spec.workflow = Some(Box::new(Workflow { id, name: "seven".into(), role }));
    spec
}

fn member(id: u128) -> TaskSpec {
    of(task(id), WorkflowRole::Member)
}

fn callbacks() -> Vec<TaskSpec> {
    vec![of(task(90), WorkflowRole::OnSuccess), of(task(91), WorkflowRole::OnFailure)]
}

fn run_all(world: &mut World, worker: &mut TestWorker, bad: &[u128]) -> Vec<u128> {
    let mut ran = Vec::new();
    loop {
        let granted = worker.grants();
        if granted.is_empty() {
            return ran;
        }
        for grant in granted {
            ran.push(grant.spec.id.0);
            if bad.contains(&grant.spec.id.0) {
                let outcome = failed(FailureVerdict::Dead);
                world.report(worker, grant.spec.id, grant.token, outcome);
            } else {
                world.finish(worker, &grant);
            }
        }
    }
}

#[test]
fn members_that_failed_before_a_restart_count_after_it() {
    for (bad, called) in [(vec![], 90), (vec![1], 91)] {
        let mut world = World::new();
        let mut batch = vec![member(1), of(after(2, &[5]), WorkflowRole::Member), task(5)];
        batch[2].run_at = Some(world.now.plus_ms(60_000));
        batch.extend(callbacks());
        world.submit(batch).unwrap();
        let mut worker = world.join("w", 4, vec![]);
        assert_eq!(run_all(&mut world, &mut worker, &bad), [1]);

        let mut world = world.crash(61_000);
        assert_eq!(world.state(TaskId(90)), Some(TaskState::Blocked));
        let mut worker = world.join("w", 4, vec![]);
        assert_eq!(run_all(&mut world, &mut worker, &bad), [5, 2, called]);
    }
}

#[test]
fn a_callback_that_is_submitted_after_the_end_runs_at_once() {
    for (bad, called) in [(vec![], 90), (vec![1], 91)] {
        let mut world = World::new();
        world.submit(vec![member(1), member(2)]).unwrap();
        let mut worker = world.join("w", 4, vec![]);
        run_all(&mut world, &mut worker, &bad);
        world.submit(callbacks()).unwrap();
        assert_eq!(run_all(&mut world, &mut worker, &bad), [called]);
    }
}

#[test]
fn members_that_wait_in_the_store_keep_a_callback_waiting_over_a_restart() {
    let mut world = World::with(Options { window_tasks: 2, ..Options::default() });
    let batch: Vec<TaskSpec> = (1..=50).map(member).chain(callbacks()).collect();
    world.submit(batch).unwrap();
    assert!(world.engine.core().scheduler().counts().spilled > 0);
    let mut world = world.crash(1);
    assert_eq!(world.engine.core().scheduler().open_members(WorkflowId(7)), 50);
    let mut worker = world.join("w", 4, vec![]);
    let ran = run_all(&mut world, &mut worker, &[]);
    assert_eq!((ran.len(), ran.last()), (51, Some(&90)));
}

#[test]
fn a_finished_member_with_open_children_keeps_it_waiting_over_a_restart() {
    let mut world = World::new();
    world.submit([vec![member(1)], callbacks()].concat()).unwrap();
    let mut worker = world.join("w", 1, vec![]);
    let grant = worker.grants().remove(0);
    // The child is no member: only its spawner says that the workflow is open.
    let outcome = AttemptOutcome::Finished { result: Payload::null(), spawned: vec![task(2)] };
    world.report(&worker, grant.spec.id, grant.token, outcome);
    let mut world = world.crash(1);
    let mut worker = world.join("w", 1, vec![]);
    assert_eq!(run_all(&mut world, &mut worker, &[]), [2, 90]);
}

#[test]
fn a_member_that_waits_for_a_callback_of_its_own_workflow_is_refused() {
    let mut world = World::new();
    world.submit([vec![member(1)], callbacks()].concat()).unwrap();
    let refused = world.submit(vec![of(after(3, &[90]), WorkflowRole::Member)]);
    assert!(matches!(refused, Err(divvy_engine::Error::Spec(SpecError::Cycle { .. }))));
    world.submit(vec![after(4, &[90])]).unwrap();
    let mut worker = world.join("w", 4, vec![]);
    assert_eq!(run_all(&mut world, &mut worker, &[]), [1, 90, 4]);
}
