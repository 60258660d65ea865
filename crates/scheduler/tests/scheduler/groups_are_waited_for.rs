//! Tasks that wait for every task of a group: what keeps them, what lets them go, and what cancels them.

use crate::support::*;
use divvy_scheduler::{FailedMember, Input, Joining, Options, RecoveredTask, Spawner, Submission};
use divvy_types::{
    FailureVerdict, GroupDependency, Member, Name, Seq, TaskId, TaskSpec, TaskState, WaitReason,
    Workflow, WorkflowId,
};

const FLOW: WorkflowId = WorkflowId(7);

fn member(number: u64) -> TaskSpec {
    let mut task = spec(number);
    task.retry.limit = 0;
    let label = Workflow { id: FLOW, name: "w".into(), role: Default::default() };
    task.workflow = Some(Box::new(label));
    task
}

fn part(number: u64) -> TaskSpec {
    part_of(number, "parts")
}

fn part_of(number: u64, group: &str) -> TaskSpec {
    let mut task = member(number);
    task.group = Some(group.into());
    task
}

fn join(number: u64) -> TaskSpec {
    waiting(member(number), "parts", false)
}

fn waiting(mut task: TaskSpec, group: &str, optional: bool) -> TaskSpec {
    task.after_groups.push(GroupDependency { group: group.into(), optional });
    task
}

fn world(tasks: Vec<TaskSpec>) -> World {
    let mut world = World::new();
    world.join(1, 100);
    world.submit(tasks);
    world
}

fn child_of(spawner: u64, spec: TaskSpec) -> RecoveredTask {
    let mut task = recovered(spec);
    task.open.spawned_by = Some(Seq(spawner));
    task
}

fn is_refused(world: &World, batch: &[TaskSpec]) -> Option<(TaskId, Name)> {
    let batch: Vec<Submission> = batch.iter().cloned().map(submission).collect();
    let joining =
        batch.iter().map(|new| Joining { seq: new.seq, spec: &new.spec, parents: &new.parents });
    world.scheduler.circle_of(&joining.collect::<Vec<_>>())
}

#[test]
fn the_last_task_of_a_group_lets_go_who_waits_for_it() {
    // The order in the batch is of no matter.
    let mut world = world(vec![part(1), join(9), part(2), part_of(3, "other")]);
    assert_eq!(world.grants(), [(1, 1), (1, 2), (1, 3)]);
    let wait = |world: &World| world.scheduler.status(Seq(9)).unwrap().wait.unwrap();
    assert_eq!(wait(&world), WaitReason::GroupOpen { group: "parts".into(), open: 2 });
    assert_eq!(wait(&world).to_string(), "waits for the group `parts`; 2 tasks are open in it");
    world.end(1, 1, finished());
    assert_eq!(wait(&world), WaitReason::GroupOpen { group: "parts".into(), open: 1 });
    world.end(1, 2, finished());
    assert_eq!(world.grants(), [(1, 9)]);
    world.end(1, 3, finished());
    world.end(1, 9, finished());
    assert!(world.scheduler.is_idle());
    assert_eq!(world.scheduler.open_workflows(None).next(), None, "a workflow stays behind");
}

#[test]
fn a_group_without_tasks_keeps_nobody_waiting() {
    let world = world(vec![join(9)]);
    assert_eq!(world.grants(), [(1, 9)]);
}

#[test]
fn children_and_members_that_come_later_count() {
    let mut world = world(vec![part(1), join(9)]);
    // One child is in the group and one is not: the member has settled only when both have.
    world.end(1, 1, spawning(vec![part(2), spec(3)]));
    assert_eq!(world.scheduler.open_in_group(FLOW, &"parts".into()), 2);
    world.submit(vec![part(4)]);
    world.end(1, 2, finished());
    world.end(1, 3, finished());
    assert_eq!(world.grants(), []);
    world.end(1, 4, finished());
    assert_eq!(world.grants(), [(1, 9)]);
}

#[test]
fn a_group_is_looked_at_again_when_the_other_dependencies_are_met() {
    let mut world = world(vec![part(1), spec(2), after(join(9), &[(2, false)])]);
    world.end(1, 1, finished());
    assert_eq!(world.grants(), []);
    // It waits for something else, so a new member counts although the group had settled once.
    world.submit(vec![part(3)]);
    world.end(1, 2, finished());
    assert_eq!(world.state(9), Some(TaskState::Blocked));
    world.end(1, 3, finished());
    assert_eq!(world.grants(), [(1, 9)]);
}

#[test]
fn a_failed_member_cancels_who_requires_the_group_and_only_those() {
    let optional = waiting(member(8), "parts", true);
    let mut world =
        world(vec![part(1), part(2), optional, join(9), after(spec(10), &[(9, false)])]);
    world.end(1, 1, failure(FailureVerdict::Dead));
    assert!(world.cancel_reason(9).unwrap().contains("failed: boom"));
    assert!(world.cancel_reason(10).is_some());
    assert_eq!(world.state(8), Some(TaskState::Blocked), "a member is still open");
    world.submit(vec![join(11)]);
    let reason = world.cancel_reason(11).unwrap();
    assert!(reason.starts_with("dependency group `parts` failed"), "{reason}");
    world.end(1, 2, finished());
    assert_eq!(world.grants(), [(1, 8)]);
}

#[test]
fn a_failed_child_makes_its_spawner_a_failed_member_at_once() {
    let mut world = world(vec![part(1), join(9)]);
    world.end(1, 1, spawning(vec![spec(2), spec(3)]));
    world.end(1, 2, failure(FailureVerdict::Dead));
    assert!(world.cancel_reason(9).unwrap().contains("its child"));
    world.submit(vec![join(10)]);
    assert!(world.cancel_reason(10).is_some(), "the other child is open, but this one has failed");
    world.end(1, 3, finished());
    assert!(world.scheduler.is_idle());
}

#[test]
fn what_failed_before_the_scheduler_heard_of_it_counts_unless_it_was_put_back() {
    let mut world = world(vec![]);
    let failed = |seq| FailedMember { seq: Seq(seq), groups: vec![("parts".into(), Seq(seq))] };
    world.submit(vec![part(2)]);
    let look = Input::WorkflowLookedUp { workflow: FLOW, failed: vec![failed(1), failed(2)] };
    world.feed(look);
    world.feed(put_back_alone(recovered(part(1))));
    world.submit(vec![join(9)]);
    assert_eq!(world.state(9), Some(TaskState::Blocked), "both are open, whatever the store says");
    world.end(1, 1, finished());
    world.end(1, 2, finished());
    assert_eq!(world.grants(), [(1, 9)]);
}

#[test]
fn a_failed_member_that_is_put_back_keeps_an_optional_one_waiting() {
    let mut world = world(vec![part(1), part(2), waiting(member(9), "parts", true)]);
    world.end(1, 1, failure(FailureVerdict::Dead));
    world.feed(put_back_alone(recovered(part(1))));
    world.end(1, 2, finished());
    assert_eq!(world.grants(), []);
    world.end(1, 1, finished());
    assert_eq!(world.grants(), [(1, 9)]);
}

#[test]
fn tasks_that_are_resumed_together_wait_for_each_other_by_group() {
    for order in [[1, 9], [9, 1]] {
        let mut world = world(vec![part(1), part(2), join(9)]);
        world.end(1, 1, failure(FailureVerdict::Dead));
        let task = |number| recovered(if number == 9 { join(9) } else { part(number) });
        let tasks = order.into_iter().map(task).collect();
        world.feed(Input::TasksResumed { spawners: Vec::new(), tasks });
        assert_eq!((world.state(9), world.grants()), (Some(TaskState::Blocked), vec![(1, 1)]));
        world.end(1, 1, finished());
        world.end(1, 2, finished());
        assert_eq!(world.grants(), [(1, 9)]);
    }
}

#[test]
fn one_that_is_resumed_without_the_failed_member_is_cancelled_again() {
    let mut world = world(vec![part(1), part(2), join(9)]);
    world.end(1, 1, failure(FailureVerdict::Dead));
    world.feed(Input::TasksResumed { spawners: Vec::new(), tasks: vec![recovered(join(9))] });
    assert_eq!(world.fact_names(), ["Replayed 9", "Cancelled 9"]);
    world.end(1, 2, finished());
    assert!(world.scheduler.is_idle());
}

#[test]
fn a_resumed_child_makes_its_spawner_an_open_member_again() {
    let mut world = world(vec![part(1), join(9)]);
    world.end(1, 1, spawning(vec![member(2)]));
    world.end(1, 2, failure(FailureVerdict::Dead));
    assert!(world.scheduler.is_idle());
    let groups = vec![("parts".into(), Seq(1))];
    world.feed(Input::WorkflowLookedUp {
        workflow: FLOW,
        failed: vec![FailedMember { seq: Seq(2), groups }],
    });
    let member = Some(Member { workflow: FLOW, group: Some("parts".into()) });
    let spawner = Spawner { seq: Seq(1), task: TaskId(1), failed: false, spawned_by: None, member };
    let child = child_of(1, self::member(2));
    let tasks = vec![child, recovered(join(9))];
    world.feed(Input::TasksResumed { spawners: vec![spawner], tasks });
    assert_eq!(world.state(9), Some(TaskState::Blocked));
    world.end(1, 2, finished());
    assert_eq!(world.grants(), [(1, 9)]);
}

#[test]
fn waits_are_the_same_after_a_restart_in_whichever_order_tasks_come() {
    for order in [[1, 2, 9], [9, 2, 1]] {
        let mut world = World::recovering(Options::default());
        let in_store = Member { workflow: FLOW, group: Some("parts".into()) };
        world.feed(Input::MembersRecovered { member: in_store.clone(), count: 1 });
        let settling = Input::SettlingRecovered {
            seq: Seq(1),
            task: TaskId(1),
            failed: false,
            spawned_by: None,
            member: Some(in_store),
        };
        world.feed(settling);
        for number in order {
            let task = match number {
                1 => child_of(1, spec(5)),
                9 => recovered(join(9)),
                other => recovered(part(other)),
            };
            world.feed(Input::TaskRecovered(task));
        }
        world.feed(Input::RecoveryEnded);
        world.join(1, 100);
        assert_eq!(world.scheduler.open_in_group(FLOW, &"parts".into()), 3);
        assert_eq!(world.state(9), Some(TaskState::Blocked));
        world.end(1, 2, finished());
        world.end(1, 5, finished());
        assert_eq!(world.grants(), [], "one waits in the store");
        let lane = divvy_types::Lane::of(&part(3));
        let reason = Name::from("not wanted");
        let member = Some(Member { workflow: FLOW, group: Some("parts".into()) });
        world.feed(Input::SpilledCancelled { seq: Seq(3), task: TaskId(3), lane, member, reason });
        assert!(world.cancel_reason(9).unwrap().contains("not wanted"));
    }
}

#[test]
fn after_a_restart_a_group_that_has_settled_keeps_nobody() {
    let mut world = World::recovering(Options::default());
    world.feed(Input::TaskRecovered(recovered(join(9))));
    world.join(1, 1);
    assert_eq!(world.grants(), []);
    world.feed(Input::RecoveryEnded);
    assert_eq!(world.grants(), [(1, 9)]);
}

#[test]
fn a_member_that_waits_for_who_waits_for_its_group_is_refused() {
    let mut world = world(vec![part(1), join(9), after(spec(10), &[(9, false)])]);
    let late = |number, parents: &[(u64, bool)]| after(part(number), parents);
    let refused = Some((TaskId(11), Name::from("parts")));
    assert_eq!(is_refused(&world, &[late(11, &[(9, false)])]), refused);
    assert_eq!(is_refused(&world, &[late(11, &[(10, true)])]), refused, "by way of another");
    let chain = [after(spec(12), &[(10, false)]), late(11, &[(12, false)])];
    assert_eq!(is_refused(&world, &chain), refused, "by way of another of the batch");
    assert_eq!(is_refused(&world, &[late(11, &[(1, false)])]), None);
    // A task that was let go may wait again after a restart, so its tie counts until it has ended.
    world.end(1, 1, finished());
    assert_eq!(world.state(9), Some(TaskState::Leased));
    assert_eq!(is_refused(&world, &[late(11, &[(9, false)])]), refused);
    world.end(1, 9, finished());
    assert_eq!(is_refused(&world, &[late(11, &[(10, false)])]), None);
}

#[test]
fn two_groups_cannot_come_to_wait_for_each_other() {
    let first = waiting(part_of(1, "a"), "b", false);
    let world = world(vec![first, part_of(2, "b")]);
    let second = waiting(part_of(3, "b"), "a", true);
    assert_eq!(is_refused(&world, &[second]), Some((TaskId(3), Name::from("b"))));
    assert_eq!(is_refused(&world, &[waiting(part_of(3, "c"), "a", true)]), None);
}

#[test]
fn a_child_cannot_wait_for_a_group_that_waits_for_its_spawner() {
    let mut world = world(vec![part(1), part_of(2, "a"), after(part_of(3, "a"), &[(1, false)])]);
    // Of the group of its own spawner, of one with a member that waits for its spawner, and of one that is free.
    let children = vec![join(11), waiting(member(12), "a", false), waiting(member(13), "b", false)];
    world.end(1, 1, spawning(children));
    assert!(world.cancel_reason(11).unwrap().contains("group `parts` cannot be waited for"));
    assert!(world.cancel_reason(12).unwrap().contains("group `a` cannot be waited for"));
    assert_eq!(world.grants(), [(1, 13)]);
}

#[test]
fn a_child_cannot_wait_for_who_waits_for_the_group_of_its_spawner() {
    let mut world = world(vec![part(1), waiting(member(9), "parts", true)]);
    world.end(1, 1, spawning(vec![after(spec(2), &[(9, false)])]));
    assert!(world.cancel_reason(2).unwrap().contains("cannot be waited for"));
    assert_eq!(world.grants(), [(1, 9)]);
}

#[test]
fn one_that_is_put_back_cannot_wait_for_who_waits_for_its_group() {
    let mut world = world(vec![part(1), waiting(member(9), "parts", true)]);
    // It came when 9 had failed, was cancelled for that, and would now wait for it.
    let late = recovered(after(part(11), &[(9, false)]));
    world.feed(Input::TasksResumed { spawners: Vec::new(), tasks: vec![late] });
    assert_eq!(world.fact_names(), ["Replayed 11", "Cancelled 11"]);
    assert!(world.cancel_reason(11).unwrap().contains("waits for `parts`, the group of this task"));
    world.end(1, 1, finished());
    assert_eq!(world.grants(), [(1, 9)]);
}
