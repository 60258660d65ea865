//! Failed tasks of a workflow that are put back wait for each other as before; what is done stays done.

use crate::support::*;
use divvy_scheduler::{FailedMember, Input, ParentState, RecoveredTask, Spawner};
use divvy_types::fact::Replay;
use divvy_types::{
    FailureVerdict, Member, Seq, TaskId, TaskSpec, TaskState, Workflow, WorkflowId, WorkflowRole,
};

const FLOW: WorkflowId = WorkflowId(7);

fn member(number: u64, parents: &[u64]) -> TaskSpec {
    let edges: Vec<(u64, bool)> = parents.iter().map(|parent| (*parent, false)).collect();
    let mut task = after(spec(number), &edges);
    task.retry.limit = 0;
    let role = WorkflowRole::Member;
    task.workflow = Some(Box::new(Workflow { id: FLOW, name: "w".into(), role }));
    task
}

/// Puts tasks back as a resume does: they wait for the dependencies that are not done.
fn put_back(
    world: &mut World,
    spawners: Vec<Spawner>,
    mut tasks: Vec<RecoveredTask>,
    done: &[u64],
) {
    let parents = tasks.iter_mut().flat_map(|task| &mut task.parents);
    for parent in parents.filter(|parent| done.contains(&parent.seq.0)) {
        parent.state = ParentState::Done;
    }
    world.feed(Input::TasksResumed { spawners, tasks });
}

fn child_of(spawner: u64, spec: TaskSpec) -> RecoveredTask {
    let mut task = recovered(spec);
    task.open.spawned_by = Some(Seq(spawner));
    task
}

/// A finished member that has spawned.
fn spawner(number: u64, spawned_by: Option<u64>) -> Spawner {
    Spawner {
        seq: Seq(number),
        task: TaskId(number.into()),
        failed: false,
        spawned_by: spawned_by.map(Seq),
        member: Some(Member { workflow: FLOW, group: None }),
    }
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
        let task = |number| match number {
            2 => member(2, &[1]),
            3 => member(3, &[2]),
            _ => member(4, &[3, 1]),
        };
        let tasks = order.iter().map(|number| recovered(task(*number))).collect();
        put_back(&mut world, vec![], tasks, &[1]);
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

    let tasks = vec![recovered(member(4, &[1])), child_of(1, member(3, &[]))];
    put_back(&mut world, vec![spawner(1, None)], tasks, &[]);
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

    let failed = vec![FailedMember { seq: Seq(1), groups: Vec::new() }];
    world.feed(Input::WorkflowLookedUp { workflow: FLOW, failed });
    put_back(&mut world, vec![], vec![recovered(member(1, &[])), recovered(success)], &[]);
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
    world.feed(put_back_alone(recovered(success)));
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
    let tasks = vec![recovered(member(1, &[])), recovered(member(3, &[1, 2]))];
    put_back(&mut world, vec![], tasks, &[]);
    world.end(1, 2, finished());
    assert_eq!((world.grants(), world.state(3)), (vec![], Some(TaskState::Blocked)));
    world.end(1, 1, finished());
    assert_eq!(world.grants(), [(1, 3)]);
}

#[test]
fn one_that_cannot_run_after_all_takes_those_along_that_require_it() {
    for order in [[3, 5], [5, 3]] {
        let mut world = World::new();
        world.join(1, 100);
        world.submit(vec![member(1, &[]), after(spec(2), &[(1, true)])]);
        // Task 3 requires one that waits for the task that spawned it.
        world.end(1, 1, spawning(vec![member(3, &[2]), member(4, &[])]));
        assert!(world.cancel_reason(3).unwrap().contains("it waits for the task that spawned"));
        let mut next = submission(member(5, &[3]));
        next.parents[0].state = ParentState::Failed;
        world.feed(Input::TasksSubmitted(vec![next]));
        assert!(world.cancel_reason(5).is_some());

        let task = |number| match number {
            3 => child_of(1, member(3, &[2])),
            _ => recovered(member(5, &[3])),
        };
        put_back(&mut world, vec![spawner(1, None)], order.map(task).to_vec(), &[]);
        assert_eq!((world.state(3), world.state(5)), (None, None), "put back as {order:?}");
        assert!(world.cancel_reason(5).unwrap().starts_with("dependency "));
        assert_eq!(world.scheduler.open_members(FLOW), 2, "tasks 1 and 4");
        world.end(1, 4, finished());
        world.end(1, 2, finished());
        assert!(world.scheduler.is_idle());
        assert_eq!(world.scheduler.open_members(FLOW), 0);
    }
}

#[test]
fn a_join_waits_for_what_came_of_a_child_that_was_put_back_alone() {
    let mut world = World::new();
    world.join(1, 100);
    world.submit(vec![member(1, &[]), member(9, &[1])]);
    world.end(1, 1, spawning(vec![member(2, &[])]));
    world.end(1, 2, failure(FailureVerdict::Dead));
    assert_eq!((world.state(1), world.state(9)), (None, None), "settled, and cancelled");
    let (task, replay) = (Box::new(child_of(1, member(2, &[]))), Replay::default());
    world.feed(Input::TaskReplayed { spawners: vec![spawner(1, None)], task, replay });
    assert_eq!(world.state(1), Some(TaskState::Done), "it is settling again");
    world.end(1, 2, spawning(vec![member(3, &[]), member(4, &[])]));
    world.end(1, 3, failure(FailureVerdict::Dead));

    let tasks = vec![child_of(2, member(3, &[])), recovered(member(9, &[1]))];
    put_back(&mut world, vec![spawner(1, None), spawner(2, Some(1))], tasks, &[]);
    assert_eq!(world.scheduler.open_members(FLOW), 5);
    for number in [3, 4] {
        assert_eq!(world.state(9), Some(TaskState::Blocked));
        world.end(1, number, finished());
    }
    assert_eq!(world.grants(), [(1, 9)]);
    world.end(1, 9, finished());
    assert!(world.scheduler.is_idle());
    assert_eq!(world.scheduler.open_members(FLOW), 0);
}

#[test]
fn a_join_is_put_back_while_other_children_still_run_unless_one_stays_failed() {
    for stays_failed in [false, true] {
        let mut world = World::new();
        world.join(1, 100);
        world.submit(vec![member(1, &[]), member(9, &[1])]);
        world.end(1, 1, spawning(vec![member(2, &[]), member(3, &[])]));
        world.end(1, 3, failure(FailureVerdict::Dead));
        assert_eq!((world.state(1), world.state(9)), (Some(TaskState::Done), None));

        let above = Spawner { failed: stays_failed, ..spawner(1, None) };
        let tasks = vec![child_of(1, member(3, &[])), recovered(member(9, &[1]))];
        put_back(&mut world, vec![above], tasks, &[]);
        assert_eq!(world.state(9), (!stays_failed).then_some(TaskState::Blocked));
        world.end(1, 3, finished());
        world.end(1, 2, finished());
        let expected = if stays_failed { vec![] } else { vec![(1, 9)] };
        assert_eq!(world.grants(), expected);
    }
}
