//! A resume puts back what failed, lets it wait for what it depends on, and survives restarts.

use crate::support::{TestWorker, World, after, done, failed, task};
use divvy_engine::{Error, GrantedTask, Request};
use divvy_types::view::ResumedWorkflow;
use divvy_types::{
    AttemptOutcome, FailureVerdict, OnConflict, Payload, TaskId, TaskSpec, TaskState, Unique,
    Workflow, WorkflowId, WorkflowRole,
};

const FLOW: WorkflowId = WorkflowId(7);

fn of(mut spec: TaskSpec, role: WorkflowRole) -> TaskSpec {
    spec.retry.limit = 0;
    spec.workflow = Some(Box::new(Workflow { id: FLOW, name: "seven".into(), role }));
    spec
}

fn member(id: u128, parents: &[u128]) -> TaskSpec {
    of(after(id, parents), WorkflowRole::Member)
}

fn resume(world: &mut World, include_cancelled: bool) -> Result<ResumedWorkflow, Error> {
    world.ask(|reply| Request::ResumeWorkflow { id: FLOW, include_cancelled, reply })
}

fn counts(resumed: ResumedWorkflow) -> (u64, u64, u64) {
    (resumed.resumed, resumed.callbacks, resumed.left)
}

fn spawning(spawned: Vec<TaskSpec>) -> AttemptOutcome {
    AttemptOutcome::Finished { result: Payload::null(), spawned }
}

/// Reports the end of one of the granted tasks.
fn end(
    world: &mut World,
    worker: &TestWorker,
    granted: &[GrantedTask],
    id: u128,
    how: AttemptOutcome,
) {
    let grant = granted.iter().find(|grant| grant.spec.id.0 == id).expect("it is granted");
    world.report(worker, grant.spec.id, grant.token, how);
}

/// Runs whatever is granted; those in `bad` fail for good. Says what ran, and what it was given.
fn run_all(world: &mut World, worker: &mut TestWorker, bad: &[u128]) -> Vec<(u128, usize)> {
    let mut ran = Vec::new();
    loop {
        let granted = worker.grants();
        if granted.is_empty() {
            return ran;
        }
        for grant in granted {
            ran.push((grant.spec.id.0, grant.upstream.len()));
            let outcome = if bad.contains(&grant.spec.id.0) {
                failed(FailureVerdict::Dead)
            } else {
                done("1")
            };
            world.report(worker, grant.spec.id, grant.token, outcome);
        }
    }
}

#[test]
fn what_failed_runs_again_in_order_and_what_is_done_is_handed_on() {
    for restart in [false, true] {
        let mut world = World::new();
        let success = of(task(90), WorkflowRole::OnSuccess);
        let failure = of(task(91), WorkflowRole::OnFailure);
        let chain = [member(1, &[]), member(2, &[1]), member(3, &[2, 1]), member(4, &[3])];
        world.submit([chain.to_vec(), vec![success, failure]].concat()).unwrap();
        let mut worker = world.join("w", 4, vec![]);
        assert_eq!(run_all(&mut world, &mut worker, &[2]), [(1, 0), (2, 1), (91, 0)]);

        world.engine.step(world.now, Request::Disconnect { worker: worker.key }).unwrap();
        assert_eq!(counts(resume(&mut world, false).unwrap()), (3, 1, 0));
        assert_eq!(world.state(TaskId(4)), Some(TaskState::Blocked));
        if restart {
            world = world.crash(1_000);
            let states = [2, 3, 4, 90].map(|id| world.state(TaskId(id)).unwrap());
            use TaskState::{Blocked, Ready};
            assert_eq!(states, [Ready, Blocked, Blocked, Blocked]);
        }
        let mut worker = world.join("w", 4, vec![]);
        let ran = run_all(&mut world, &mut worker, &[]);
        assert_eq!(ran, [(2, 1), (3, 2), (4, 1), (90, 0)]);
        assert_eq!(counts(resume(&mut world, false).unwrap()), (0, 0, 0));
    }
}

#[test]
fn what_people_cancelled_stays_unless_it_is_asked_for() {
    let mut world = World::new();
    world.submit(vec![member(1, &[]), member(2, &[1]), member(3, &[]), member(4, &[3])]).unwrap();
    world.ask(|reply| Request::Cancel { id: TaskId(1), reason: "no".into(), reply }).unwrap();
    let mut worker = world.join("w", 4, vec![]);
    assert_eq!(run_all(&mut world, &mut worker, &[3]), [(3, 0)]);
    assert_eq!(counts(resume(&mut world, false).unwrap()), (2, 0, 2), "not 1, and so not 2");
    assert_eq!(run_all(&mut world, &mut worker, &[]), [(3, 0), (4, 1)]);
    assert_eq!(counts(resume(&mut world, true).unwrap()), (2, 0, 0));
    assert_eq!(run_all(&mut world, &mut worker, &[]), [(1, 0), (2, 1)]);
}

#[test]
fn a_join_waits_for_the_child_that_failed_over_a_restart_too() {
    for restart in [false, true] {
        let mut world = World::new();
        world.submit(vec![member(1, &[]), member(9, &[1])]).unwrap();
        let mut worker = world.join("w", 4, vec![]);
        let grant = worker.grants().remove(0);
        let outcome = spawning(vec![member(2, &[]), member(3, &[])]);
        world.report(&worker, grant.spec.id, grant.token, outcome);
        assert_eq!(run_all(&mut world, &mut worker, &[3]), [(2, 0), (3, 0)]);
        world.engine.step(world.now, Request::Disconnect { worker: worker.key }).unwrap();
        assert_eq!(counts(resume(&mut world, false).unwrap()), (2, 0, 0));
        if restart {
            world = world.crash(1_000);
        }
        assert_eq!(world.state(TaskId(9)), Some(TaskState::Blocked));
        let mut worker = world.join("w", 4, vec![]);
        assert_eq!(run_all(&mut world, &mut worker, &[]), [(3, 0), (9, 3)]);
    }
}

#[test]
fn a_chain_of_failures_outside_of_the_workflow_is_left() {
    let mut world = World::new();
    let mut outside = task(1);
    outside.retry.limit = 0;
    world.submit(vec![outside, member(2, &[1]), member(3, &[2]), member(4, &[])]).unwrap();
    let mut worker = world.join("w", 4, vec![]);
    run_all(&mut world, &mut worker, &[1, 4]);
    assert_eq!(counts(resume(&mut world, false).unwrap()), (1, 0, 2));
    assert_eq!(run_all(&mut world, &mut worker, &[]), [(4, 0)]);
}

#[test]
fn a_second_resume_finds_nothing_and_an_unknown_workflow_is_said_to_be_so() {
    let mut world = World::new();
    assert!(
        matches!(resume(&mut world, false), Err(Error::NoSuchWorkflow(id)) if id == FLOW.to_string())
    );
    world.submit(vec![member(1, &[]), member(2, &[1])]).unwrap();
    let mut worker = world.join("w", 1, vec![]);
    run_all(&mut world, &mut worker, &[1]);
    assert_eq!(counts(resume(&mut world, false).unwrap()), (2, 0, 0));
    assert_eq!(counts(resume(&mut world, false).unwrap()), (0, 0, 0));
}

#[test]
fn a_worker_from_before_does_not_go_on_with_an_attempt_that_died() {
    let mut world = World::new();
    world.submit(vec![member(1, &[])]).unwrap();
    let mut worker = world.join("w", 1, vec![]);
    let grant = worker.grants().remove(0);
    // The connection is lost for good: the task dies, is put back, and the server starts anew.
    world.engine.step(world.now, Request::Disconnect { worker: worker.key }).unwrap();
    assert_eq!(counts(resume(&mut world, false).unwrap()), (1, 0, 0));
    let mut world = world.crash(1_000);
    let mut worker = world.join("w", 1, vec![(TaskId(1), grant.token)]);
    let fresh = worker.grants();
    assert_eq!(fresh.len(), 1, "it is granted anew");
    assert!(fresh[0].token > grant.token);
}

#[test]
fn who_requires_one_that_cannot_run_after_all_does_not_run_either() {
    let mut world = World::new();
    let mut aside = after(2, &[1]);
    aside.after[0].optional = true;
    world.submit(vec![member(1, &[]), aside]).unwrap();
    let mut worker = world.join("w", 4, vec![]);
    let granted = worker.grants();
    // Task 3 requires one that waits for the task that spawned it.
    end(&mut world, &worker, &granted, 1, spawning(vec![member(3, &[2]), member(4, &[])]));
    world.submit(vec![member(5, &[3])]).unwrap();
    assert_eq!(counts(resume(&mut world, false).unwrap()), (0, 0, 2));
    assert_eq!(run_all(&mut world, &mut worker, &[]), [(4, 0), (2, 3)]);
}

#[test]
fn a_join_waits_for_what_came_of_a_child_that_was_put_back_alone() {
    for restart in [false, true] {
        let mut world = World::new();
        world.submit(vec![member(1, &[]), member(9, &[1])]).unwrap();
        let mut worker = world.join("w", 4, vec![]);
        let granted = worker.grants();
        end(&mut world, &worker, &granted, 1, spawning(vec![member(2, &[])]));
        assert_eq!(run_all(&mut world, &mut worker, &[2]), [(2, 0)]);
        let alone = |reply| Request::Replay { id: TaskId(2), replay: Box::default(), reply };
        world.ask(alone).unwrap();
        let granted = worker.grants();
        end(&mut world, &worker, &granted, 2, spawning(vec![member(3, &[]), member(4, &[])]));
        let granted = worker.grants();
        end(&mut world, &worker, &granted, 3, failed(FailureVerdict::Dead));
        assert_eq!(counts(resume(&mut world, false).unwrap()), (2, 0, 0));
        if restart {
            world = world.crash(1_000);
            worker = world.join("w", 4, vec![]);
        }
        assert_eq!(world.state(TaskId(9)), Some(TaskState::Blocked));
        let mut ran = run_all(&mut world, &mut worker, &[]);
        if !restart {
            end(&mut world, &worker, &granted, 4, done("1"));
            ran.extend(run_all(&mut world, &mut worker, &[]));
        }
        assert_eq!(ran.last().map(|(id, _)| *id), Some(9));
        assert_eq!(counts(resume(&mut world, false).unwrap()), (0, 0, 0));
    }
}

#[test]
fn a_join_is_put_back_while_other_children_still_run() {
    let mut world = World::new();
    world.submit(vec![member(1, &[]), member(9, &[1])]).unwrap();
    let mut worker = world.join("w", 4, vec![]);
    let granted = worker.grants();
    end(&mut world, &worker, &granted, 1, spawning(vec![member(2, &[]), member(3, &[])]));
    let granted = worker.grants();
    end(&mut world, &worker, &granted, 3, failed(FailureVerdict::Dead));
    assert_eq!(counts(resume(&mut world, false).unwrap()), (2, 0, 0));
    assert_eq!(run_all(&mut world, &mut worker, &[]), [(3, 0)]);
    end(&mut world, &worker, &granted, 2, done("1"));
    assert_eq!(run_all(&mut world, &mut worker, &[]), [(9, 3)]);
}

#[test]
fn a_join_stays_failed_while_a_child_does() {
    let mut world = World::new();
    world.submit(vec![member(1, &[]), member(9, &[1])]).unwrap();
    let mut worker = world.join("w", 4, vec![]);
    let granted = worker.grants();
    let children = vec![member(2, &[]), member(3, &[]), member(4, &[2])];
    end(&mut world, &worker, &granted, 1, spawning(children));
    let granted = worker.grants();
    world.ask(|reply| Request::Cancel { id: TaskId(4), reason: "no".into(), reply }).unwrap();
    end(&mut world, &worker, &granted, 3, failed(FailureVerdict::Dead));
    assert_eq!(counts(resume(&mut world, false).unwrap()), (1, 0, 2), "not 4, and so not 9");
    assert_eq!(run_all(&mut world, &mut worker, &[]), [(3, 0)]);
    end(&mut world, &worker, &granted, 2, done("1"));
    assert_eq!(run_all(&mut world, &mut worker, &[]), []);
    assert_eq!(counts(resume(&mut world, true).unwrap()), (2, 0, 0));
    assert_eq!(run_all(&mut world, &mut worker, &[]), [(4, 1), (9, 4)]);
}

#[test]
fn a_unique_key_that_another_task_has_is_left_to_it() {
    let keyed = |mut spec: TaskSpec| {
        let on_conflict = OnConflict::Refuse;
        spec.unique = Some(Unique { key: "k".into(), window_ms: None, on_conflict });
        spec
    };
    let mut world = World::new();
    let mut worker = world.join("w", 4, vec![]);
    // Two members fail one after the other that had the same key.
    for id in [1, 2] {
        world.submit(vec![keyed(member(id, &[])), member(10 + id, &[id])]).unwrap();
        assert_eq!(run_all(&mut world, &mut worker, &[id]), [(id, 0)]);
    }
    world.submit(vec![keyed(task(50))]).unwrap();
    assert_eq!(counts(resume(&mut world, false).unwrap()), (0, 0, 4), "task 50 has the key");
    assert_eq!(run_all(&mut world, &mut worker, &[]), [(50, 0)]);
    assert_eq!(counts(resume(&mut world, false).unwrap()), (2, 0, 2), "the older one gets it");
    assert_eq!(run_all(&mut world, &mut worker, &[]), [(1, 0), (11, 1)]);
    assert_eq!(counts(resume(&mut world, false).unwrap()), (2, 0, 0));
}
