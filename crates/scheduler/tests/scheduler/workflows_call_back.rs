//! Tasks that run when a workflow has ended: which, when, and what keeps them waiting.

use crate::support::*;
use divvy_scheduler::{Action, FailedMember, Input, Options};
use divvy_types::{
    FailureVerdict, Lane, Seq, TaskSpec, TaskState, WaitReason, Workflow, WorkflowId, WorkflowRole,
};

const FLOW: WorkflowId = WorkflowId(77);

fn of(number: u64, role: WorkflowRole) -> TaskSpec {
    let mut task = spec(number);
    task.retry.limit = 0;
    task.workflow = Some(Box::new(Workflow { id: FLOW, name: "w".into(), role }));
    task
}

fn member(number: u64) -> TaskSpec {
    of(number, WorkflowRole::Member)
}

fn callbacks() -> [TaskSpec; 2] {
    [of(90, WorkflowRole::OnSuccess), of(91, WorkflowRole::OnFailure)]
}

/// A workflow of these members with one callback of each sort, and a worker.
fn world(members: Vec<TaskSpec>) -> World {
    let mut world = World::new();
    world.join(1, 100);
    let [success, failure] = callbacks();
    // The order in the batch is of no matter.
    world.submit([vec![success], members, vec![failure]].concat());
    world
}

fn looked_up(failed: &[Seq]) -> Input {
    let failed = failed.iter().map(|seq| FailedMember { seq: *seq, groups: Vec::new() });
    Input::WorkflowLookedUp { workflow: FLOW, failed: failed.collect() }
}

fn forgets_the_workflow(world: &World) -> bool {
    world
        .actions
        .iter()
        .any(|action| matches!(action, Action::ForgetWorkflow { workflow } if *workflow == FLOW))
}

#[test]
fn success_runs_one_sort_and_cancels_the_other() {
    let mut world = world(vec![member(1), after(member(2), &[(1, false)])]);
    assert_eq!(world.grants(), [(1, 1)]);
    let wait = |world: &World| world.scheduler.status(Seq(90)).unwrap().wait;
    assert_eq!(wait(&world), Some(WaitReason::WorkflowOpen { open: 2 }));
    world.end(1, 1, finished());
    assert_eq!(wait(&world), Some(WaitReason::WorkflowOpen { open: 1 }));
    world.end(1, 2, finished());
    assert_eq!(world.grants(), [(1, 90)]);
    assert_eq!(world.cancel_reason(91).unwrap(), "the workflow succeeded");
    assert!(forgets_the_workflow(&world));
    world.end(1, 90, finished());
    assert!(world.scheduler.is_idle());
}

#[test]
fn one_dead_member_makes_a_failure_even_if_it_was_optional() {
    let mut world = world(vec![member(1), after(member(2), &[(1, true)])]);
    world.end(1, 1, failure(FailureVerdict::Dead));
    assert_eq!(world.grants(), [(1, 2)], "the other member goes on first");
    world.end(1, 2, finished());
    assert_eq!(world.grants(), [(1, 91)]);
    assert_eq!(world.cancel_reason(90).unwrap(), "the workflow failed");
}

#[test]
fn a_cancelled_member_is_a_failure_and_what_depends_on_a_callback_follows_it() {
    let mut world = world(vec![member(1)]);
    world.submit(vec![after(spec(5), &[(90, false)]), after(spec(6), &[(91, false)])]);
    world.feed(Input::CancelRequested { seq: Seq(1), reason: "asked".into() });
    world.end(1, 1, failure(FailureVerdict::Cancelled));
    assert_eq!(world.grants(), [(1, 91)]);
    assert!(world.cancel_reason(5).unwrap().contains("the workflow failed"));
    assert_eq!(world.state(6), Some(TaskState::Blocked));
}

#[test]
fn spawned_children_and_late_members_keep_the_workflow_open() {
    let mut world = world(vec![member(1)]);
    // One child belongs to the workflow and one does not: the spawner has settled only when both have.
    world.end(1, 1, spawning(vec![member(2), spec(3)]));
    assert_eq!(world.scheduler.open_members(FLOW), 2);
    world.submit(vec![member(4)]);
    world.end(1, 4, finished());
    world.end(1, 2, finished());
    assert_eq!(world.grants(), []);
    world.end(1, 3, finished());
    assert_eq!(world.grants(), [(1, 90)]);
}

#[test]
fn a_callback_waits_for_its_dependencies_besides() {
    let mut world = World::new();
    world.join(1, 100);
    let last = after(of(90, WorkflowRole::OnSuccess), &[(5, false)]);
    world.submit(vec![spec(5), member(1), last]);
    world.end(1, 1, finished());
    let status = world.scheduler.status(Seq(90)).unwrap();
    assert!(matches!(status.wait, Some(WaitReason::Dependencies { missing: 1, .. })));
    world.end(1, 5, finished());
    assert_eq!(world.grants(), [(1, 90)]);

    // The other way round, and with a time that lies ahead.
    let mut last = after(of(92, WorkflowRole::OnSuccess), &[(6, false)]);
    last.run_at = Some(world.now.plus_ms(1_000));
    world.submit(vec![spec(6), member(2), last]);
    world.end(1, 6, finished());
    world.end(1, 2, finished());
    assert_eq!(world.state(92), Some(TaskState::Scheduled));
    world.pass_ms(1_000);
    assert_eq!(world.grants(), [(1, 92)]);
}

#[test]
fn a_failed_dependency_or_a_cancel_ends_a_callback_without_the_workflow() {
    let mut world = World::new();
    world.join(1, 100);
    let last = after(of(90, WorkflowRole::OnSuccess), &[(5, false)]);
    world.submit(vec![spec(5), member(1), last, of(92, WorkflowRole::OnSuccess)]);
    world.end(1, 5, failure(FailureVerdict::Dead));
    assert!(world.cancel_reason(90).is_some());
    world.feed(Input::CancelRequested { seq: Seq(92), reason: "asked".into() });
    assert_eq!(world.cancel_reason(92).unwrap(), "asked");
    world.end(1, 1, finished());
    assert!(forgets_the_workflow(&world));
    assert!(world.scheduler.is_idle());
}

#[test]
fn a_failed_member_that_is_put_back_and_works_has_not_failed() {
    let mut world = world(vec![member(1), member(2)]);
    world.end(1, 1, failure(FailureVerdict::Dead));
    world.feed(put_back_alone(recovered(member(1))));
    assert_eq!(world.scheduler.open_members(FLOW), 2);
    world.end(1, 1, finished());
    world.end(1, 2, finished());
    assert_eq!(world.grants(), [(1, 90)]);
}

#[test]
fn a_callback_that_comes_after_the_end_is_let_go_at_once() {
    for (failed, granted) in [(vec![], 90), (vec![Seq(1)], 91)] {
        let mut world = World::new();
        world.join(1, 100);
        assert!(!world.scheduler.knows_workflow(FLOW));
        world.feed(looked_up(&failed));
        world.submit(callbacks().to_vec());
        assert_eq!(world.grants(), [(1, granted)]);
        assert!(!world.scheduler.knows_workflow(FLOW), "nothing is kept");
    }
}

#[test]
fn a_callback_cancelled_on_arrival_leaves_nothing_behind() {
    let mut world = World::new();
    world.feed(looked_up(&[]));
    let mut dead = submission(after(of(90, WorkflowRole::OnSuccess), &[(5, false)]));
    dead.parents[0].state = divvy_scheduler::ParentState::Failed;
    world.feed(Input::TasksSubmitted(vec![dead]));
    assert_eq!(world.fact_names(), ["Submitted 90", "Cancelled 90"]);
    assert!(!world.scheduler.knows_workflow(FLOW));
}

#[test]
fn what_the_store_says_of_a_member_that_is_open_again_is_old() {
    let mut world = World::new();
    world.join(1, 100);
    world.feed(put_back_alone(recovered(member(1))));
    world.feed(looked_up(&[Seq(1)]));
    world.submit(callbacks().to_vec());
    world.end(1, 1, finished());
    assert_eq!(world.grants(), [(1, 90)]);
}

#[test]
fn members_in_the_store_are_open() {
    let mut world =
        World::with(Options { window_tasks: 1, lane_floor_rows: 1, ..Options::default() });
    world.submit([vec![member(1), member(2), member(3)], callbacks().to_vec()].concat());
    assert_eq!(world.scheduler.counts().spilled, 2);
    assert_eq!(world.scheduler.open_members(FLOW), 3);
    let lane = Lane::of(&member(3));
    world.feed(Input::SpilledCancelled {
        seq: Seq(3),
        task: member(3).id,
        lane,
        member: member(3).member(),
        reason: "asked".into(),
    });
    assert_eq!(world.scheduler.open_members(FLOW), 2);
    world.join(1, 1);
    world.end(1, 1, finished());
    world.feed(Input::SpilledLoaded { lane, tasks: vec![recovered(member(2))], exhausted: true });
    assert_eq!((world.grants(), world.scheduler.open_members(FLOW)), (vec![(1, 2)], 1));
    world.end(1, 2, finished());
    assert_eq!(world.grants(), [(1, 91)], "one of them was cancelled");
}

#[test]
fn a_restart_changes_nothing() {
    for (failed, granted) in [(vec![], 90), (vec![Seq(3)], 91)] {
        let mut world = World::recovering(Options { epoch: 2, ..Options::default() });
        world.join(1, 100);
        for task in callbacks() {
            world.feed(Input::TaskRecovered(recovered(task)));
        }
        world.feed(Input::SettlingRecovered {
            seq: Seq(1),
            task: member(1).id,
            failed: false,
            spawned_by: None,
            member: member(1).member(),
        });
        let mut child = recovered(spec(2));
        child.open.spawned_by = Some(Seq(1));
        world.feed(Input::TaskRecovered(child));
        let in_store = member(4).member().unwrap();
        world.feed(Input::MembersRecovered { member: in_store, count: 1 });
        world.feed(looked_up(&failed));
        world.feed(Input::RecoveryEnded);
        assert_eq!(world.grants(), [(1, 2)]);
        world.end(1, 2, finished());
        assert_eq!(world.scheduler.open_members(FLOW), 1, "one waits in the store");
        let lane = Lane::of(&member(4));
        world.feed(Input::LaneRecovered { lane, count: 1, sample: member(4).into() });
        world.feed(Input::SpilledLoaded {
            lane,
            tasks: vec![recovered(member(4))],
            exhausted: true,
        });
        world.end(1, 4, finished());
        assert_eq!(world.grants(), [(1, granted)]);
    }
}

#[test]
fn an_end_that_came_with_a_restart_is_noticed_at_the_start() {
    let mut world = World::recovering(Options { epoch: 2, ..Options::default() });
    world.join(1, 100);
    for task in callbacks() {
        world.feed(Input::TaskRecovered(recovered(task)));
    }
    world.feed(looked_up(&[]));
    world.feed(Input::RecoveryEnded);
    assert_eq!(world.grants(), [(1, 90)]);
    assert_eq!(world.cancel_reason(91).unwrap(), "the workflow succeeded");
}

#[test]
fn children_of_a_callback_run_with_it() {
    let mut world = world(vec![member(1)]);
    world.end(1, 1, failure(FailureVerdict::Dead));
    assert_eq!(world.grants(), [(1, 91)]);
    world.end(1, 91, spawning(vec![of(92, WorkflowRole::OnFailure)]));
    assert_eq!(world.grants(), [(1, 92)]);
}

#[test]
fn a_child_that_would_wait_for_its_own_workflow_is_refused() {
    let mut world = world(vec![member(1)]);
    world.end(1, 1, spawning(vec![after(spec(2), &[(90, true)])]));
    assert!(world.cancel_reason(2).unwrap().contains("cannot be waited for"));
    assert_eq!(world.grants(), [(1, 90)], "that child is no member, so the workflow is fine");
}

#[test]
fn a_recovered_task_waits_for_its_next_attempt_after_its_dependencies() {
    let mut world = World::recovering(Options { epoch: 2, ..Options::default() });
    world.join(1, 100);
    world.feed(Input::TaskRecovered(recovered(spec(1))));
    let mut task = recovered(after(spec(2), &[(1, false)]));
    task.open.retry_at = Some(world.now.plus_ms(5_000));
    world.feed(Input::TaskRecovered(task));
    world.feed(Input::RecoveryEnded);
    world.end(1, 1, finished());
    assert_eq!((world.state(2), world.grants()), (Some(TaskState::Scheduled), vec![]));
    world.pass_ms(5_000);
    assert_eq!(world.grants(), [(1, 2)]);
}
