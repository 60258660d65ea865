//! One task after a group of 20,000: counted over kills, with members in memory, in the store and ended long ago.

use crate::support::{TestWorker, World, after, done, failed, task};
use divvy_engine::runner::Options;
use divvy_engine::{Error, Request};
use divvy_types::{
    AttemptOutcome, FailureVerdict, GroupDependency, Payload, SpecError, TaskId, TaskSpec,
    TaskState, Workflow, WorkflowId,
};

const FLOW: WorkflowId = WorkflowId(7);
const JOIN: TaskId = TaskId(1_000_000);

fn labelled(mut spec: TaskSpec) -> TaskSpec {
    spec.retry.limit = 0;
    let label = Workflow { id: FLOW, name: "seven".into(), role: Default::default() };
    spec.workflow = Some(Box::new(label));
    spec
}

fn part(id: u128) -> TaskSpec {
    let mut spec = labelled(task(id));
    spec.group = Some("parts".into());
    spec
}

fn waiting(id: TaskId, optional: bool) -> TaskSpec {
    let mut spec = labelled(TaskSpec::new(id, "noop"));
    spec.after_groups = vec![GroupDependency { group: "parts".into(), optional }];
    spec
}

fn join() -> TaskSpec {
    waiting(JOIN, false)
}

/// Runs what is granted, at most so many; returns their ids.
fn run(world: &mut World, worker: &mut TestWorker, most: usize) -> Vec<u128> {
    let mut ran = Vec::new();
    loop {
        let granted = worker.grants();
        if granted.is_empty() {
            return ran;
        }
        for grant in granted {
            if ran.len() == most {
                return ran;
            }
            world.finish(worker, &grant);
            ran.push(grant.spec.id.0);
        }
    }
}

fn open(world: &World) -> u64 {
    world.engine.core().scheduler().open_in_group(FLOW, &"parts".into())
}

#[test]
fn it_runs_once_after_all_of_them_whatever_is_killed_in_between() {
    const PARTS: usize = 20_000;
    let mut world = World::with(Options { window_tasks: 500, ..Options::default() });
    // The one that waits comes between two batches of members.
    world.submit((1..=10_000).map(part).collect()).unwrap();
    world.submit(vec![join()]).unwrap();
    world.submit((10_001..=20_000).map(part).collect()).unwrap();
    assert!(world.engine.core().scheduler().counts().spilled > 0, "members wait in the store");
    let (mut ran, mut joins) = (0, 0);
    for most in [1, 4_000, 7_777, 8_000, 222, usize::MAX] {
        let mut worker = world.join("w", 16, vec![]);
        let done = run(&mut world, &mut worker, most);
        joins += done.iter().filter(|id| **id == JOIN.0).count();
        ran += done.len();
        let left = PARTS.saturating_sub(ran) as u64;
        assert_eq!(open(&world), left);
        assert_eq!(joins, usize::from(ran > PARTS), "it runs when, and only when, none is left");
        world = world.crash(120_000);
        assert_eq!(open(&world), left, "after a start");
        let expected = if joins == 0 { Some(TaskState::Blocked) } else { None };
        if left > 0 || joins > 0 {
            assert_eq!(world.state(JOIN), expected);
        }
    }
    assert_eq!((ran, joins), (PARTS + 1, 1));
}

#[test]
fn it_is_let_go_if_the_server_dies_right_after_the_last_member() {
    let mut world = World::new();
    world.submit(vec![part(1), join()]).unwrap();
    let mut worker = world.join("w", 1, vec![]);
    assert_eq!(run(&mut world, &mut worker, 1), [1]);
    let mut world = world.crash(1);
    let mut worker = world.join("w", 1, vec![]);
    assert_eq!(run(&mut world, &mut worker, 9), [JOIN.0]);
}

#[test]
fn a_member_that_failed_before_it_came_cancels_it_even_if_only_the_store_knows() {
    for child in [false, true] {
        let mut world = World::new();
        world.submit(vec![part(1), part(2)]).unwrap();
        let mut worker = world.join("w", 4, vec![]);
        for grant in worker.grants() {
            let outcome = match (grant.spec.id.0, child) {
                (1, false) => failed(FailureVerdict::Dead),
                (1, true) => AttemptOutcome::Finished {
                    result: Payload::null(),
                    spawned: vec![labelled(task(3))],
                },
                _ => done("null"),
            };
            world.report(&worker, grant.spec.id, grant.token, outcome);
        }
        for grant in worker.grants() {
            world.report(&worker, grant.spec.id, grant.token, failed(FailureVerdict::Dead));
        }
        let mut world = world.crash(1);
        world.submit(vec![join(), waiting(TaskId(5), true)]).unwrap();
        assert_eq!(world.state(JOIN), None, "it is cancelled");
        let mut worker = world.join("w", 4, vec![]);
        assert_eq!(run(&mut world, &mut worker, 9), [5], "and the other runs");
        assert_eq!(world.engine.core().scheduler().open_workflows(None).next(), None);
    }
}

#[test]
fn a_resume_puts_back_the_failed_member_and_who_required_the_group() {
    let mut world = World::new();
    world.submit(vec![part(1), part(2), join()]).unwrap();
    let mut worker = world.join("w", 4, vec![]);
    let grants = worker.grants();
    world.report(&worker, grants[0].spec.id, grants[0].token, failed(FailureVerdict::Dead));
    assert_eq!(world.state(JOIN), None);
    world.finish(&worker, &grants[1]);
    let mut world = world.crash(1);
    let resumed = world
        .ask(|reply| Request::ResumeWorkflow { id: FLOW, include_cancelled: false, reply })
        .unwrap();
    assert_eq!((resumed.resumed, resumed.left), (2, 0));
    let mut world = world.crash(1);
    assert_eq!(world.state(JOIN), Some(TaskState::Blocked));
    let mut worker = world.join("w", 4, vec![]);
    assert_eq!(run(&mut world, &mut worker, 9), [1, JOIN.0]);
}

#[test]
fn who_requires_a_group_with_a_member_that_stays_failed_is_not_resumed() {
    let mut world = World::new();
    world.submit(vec![part(1), part(2), join()]).unwrap();
    world.ask(|reply| Request::Cancel { id: TaskId(1), reason: "asked".into(), reply }).unwrap();
    let resumed = world
        .ask(|reply| Request::ResumeWorkflow { id: FLOW, include_cancelled: false, reply })
        .unwrap();
    assert_eq!((resumed.resumed, resumed.left), (0, 2));
}

#[test]
fn a_member_that_would_wait_for_itself_is_refused_and_the_error_says_how() {
    let mut world = World::new();
    world.submit(vec![part(1), waiting(TaskId(9), true), after(10, &[9])]).unwrap();
    let mut late = part(11);
    late.after = after(11, &[10]).after.clone();
    let Err(Error::Spec(refused)) = world.submit(vec![late.clone()]) else { panic!("was let in") };
    assert_eq!(refused, SpecError::GroupCycle { task: TaskId(11), group: "parts".into() });
    assert_eq!(refused.code(), "dependency_cycle");
    // As a child too: the attempt that spawns it fails for good.
    let mut worker = world.join("w", 4, vec![]);
    world.submit(vec![task(20)]).unwrap();
    for grant in worker.grants() {
        let spawned = if grant.spec.id == TaskId(20) { vec![late.clone()] } else { Vec::new() };
        let outcome = AttemptOutcome::Finished { result: Payload::null(), spawned };
        world.report(&worker, grant.spec.id, grant.token, outcome);
    }
    assert_eq!(run(&mut world, &mut worker, 9), [9, 10]);
    assert_eq!(world.state(TaskId(11)), None);
}
