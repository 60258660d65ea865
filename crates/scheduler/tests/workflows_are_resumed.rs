//! Failed tasks of a workflow that are put back wait for each other as before; what is done stays done.

mod support;

use divvy_scheduler::{Input, ParentState, RecoveredTask};
use divvy_types::fact::Replay;
use divvy_types::{
    FailureVerdict, Seq, TaskId, TaskSpec, TaskState, Workflow, WorkflowId, WorkflowRole,
};
use support::*;

const FLOW: WorkflowId = WorkflowId(7);

fn member(number: u64, parents: &[u64]) -> TaskSpec {
    let edges: Vec<(u64, bool)> = parents.iter().map(|parent| (*parent, false)).collect();
    let mut task = after(spec(number), &edges);
    task.retry.limit = 0;
    let role = WorkflowRole::Member;
    task.workflow = Some(Box::new(Workflow { id: FLOW, name: "w".into(), role }));
    task
}

/// Puts a task back as a resume does: it waits for the dependencies that are not done.
fn put_back(world: &mut World, mut task: RecoveredTask, done: &[u64]) {
    for parent in &mut task.task.parents {
        if done.contains(&parent.seq.0) {
            parent.state = ParentState::Done;
        }
    }
    let replay = Replay { due: Some(world.now), payload: None, keep_edges: true };
    world.feed(Input::TaskReplayed(task, replay));
}

#[test]
fn a_chain_goes_on_from_its_broken_link_in_whichever_order_it_is_put_back() {
    for order in [[2, 3, 4], [4, 3, 2], [3, 4, 2]] {
        let mut world = World::new();
        world.join(1, 100);
        world.submit(vec![member(1, &[]), member(2, &[1]), member(3, &[2]), member(4, &[3, 1])]);
        world.end(1, 1, finished());
        world.end(1, 2, failure(FailureVerdict::Dead));
        assert_eq!(world.fact_names(), ["Dead 2", "Cancelled 3", "Cancelled 4"]);
        for number in order {
            let parents: Vec<u64> = match number {
                2 => vec![1],
                3 => vec![2],
                _ => vec![3, 1],
            };
            put_back(&mut world, recovered(member(number, &parents)), &[1]);
        }
        assert_eq!(world.state(2), Some(TaskState::Leased));
        assert_eq!(world.state(3), Some(TaskState::Blocked));
        for number in [2, 3] {
            world.end(1, number, finished());
            assert_eq!(world.grants(), [(1, number + 1)]);
        }
        world.end(1, 4, finished());
        assert!(world.scheduler.is_idle());
    }
}

#[test]
fn a_join_waits_again_for_a_child_that_failed_and_is_put_back() {
    let mut world = World::new();
    world.join(1, 100);
    world.submit(vec![member(1, &[]), member(4, &[1])]);
    world.end(1, 1, spawning(vec![member(2, &[]), member(3, &[])]));
    world.end(1, 2, finished());
    world.end(1, 3, failure(FailureVerdict::Dead));
    assert_eq!(world.fact_names(), ["Dead 3", "Cancelled 4"]);
    assert_eq!(world.state(1), None, "it has settled, and failed");

    world.feed(Input::SpawnerReopened {
        seq: Seq(1),
        task: TaskId(1),
        spawned_by: None,
        workflow: Some(FLOW),
    });
    put_back(&mut world, recovered(member(4, &[1])), &[]);
    let mut child = recovered(member(3, &[]));
    child.spawned_by = Some(Seq(1));
    put_back(&mut world, child, &[]);
    assert_eq!(world.scheduler.open_members(FLOW), 3);
    assert_eq!(
        (world.state(3), world.state(4)),
        (Some(TaskState::Leased), Some(TaskState::Blocked))
    );
    world.end(1, 3, finished());
    assert_eq!(world.grants(), [(1, 4)]);
    world.end(1, 4, finished());
    assert!(world.scheduler.is_idle());
    assert_eq!(world.scheduler.open_members(FLOW), 0);
}

#[test]
fn a_workflow_that_is_resumed_calls_back_at_its_second_end() {
    let mut success = member(9, &[]);
    success.workflow.as_mut().unwrap().role = WorkflowRole::OnSuccess;
    let mut world = World::new();
    world.join(1, 100);
    world.submit(vec![member(1, &[]), success.clone()]);
    world.end(1, 1, failure(FailureVerdict::Dead));
    assert_eq!(world.cancel_reason(9).unwrap(), "the workflow failed");

    let failed = Some(vec![Seq(1)]);
    world.feed(Input::WorkflowLookedUp { workflow: FLOW, spilled: 0, failed });
    put_back(&mut world, recovered(member(1, &[])), &[]);
    put_back(&mut world, recovered(success), &[]);
    assert_eq!(world.state(9), Some(TaskState::Blocked));
    world.end(1, 1, finished());
    assert_eq!(world.grants(), [(1, 9)]);
}

#[test]
fn a_callback_that_someone_puts_back_alone_runs() {
    let mut success = member(9, &[]);
    success.workflow.as_mut().unwrap().role = WorkflowRole::OnSuccess;
    let mut world = World::new();
    world.join(1, 100);
    world.submit(vec![member(1, &[])]);
    world.feed(Input::TaskReplayed(recovered(success), Replay::default()));
    assert_eq!(world.grants(), [(1, 9)]);
}

#[test]
fn a_dependency_that_outlived_a_cancel_counts_once() {
    let mut world = World::new();
    world.join(1, 100);
    world.submit(vec![member(1, &[]), member(2, &[]), member(3, &[1, 2])]);
    world.end(1, 1, failure(FailureVerdict::Dead));
    assert_eq!(world.fact_names(), ["Dead 1", "Cancelled 3"]);
    // Task 2 still runs, and still lists task 3 from its first life.
    put_back(&mut world, recovered(member(1, &[])), &[]);
    put_back(&mut world, recovered(member(3, &[1, 2])), &[]);
    world.end(1, 2, finished());
    assert_eq!((world.grants(), world.state(3)), (vec![], Some(TaskState::Blocked)));
    world.end(1, 1, finished());
    assert_eq!(world.grants(), [(1, 3)]);
}
