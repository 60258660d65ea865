//! A unique key belongs to one task at a time: a second one is skipped, replaces the first, or is refused, over
//! restarts too.

use crate::support::{World, after, failed, task};
use divvy_engine::{Error, Options, Request, Submitted};
use divvy_types::{
    AttemptOutcome, Conflict, FailureVerdict, OnConflict, Payload, SpecError, TaskId, TaskSpec,
    TaskState, Unique,
};

fn keyed(id: u128, on_conflict: OnConflict, window_ms: Option<u64>) -> TaskSpec {
    let mut spec = task(id);
    spec.unique = Some(Unique { key: "report".into(), window_ms, on_conflict });
    spec
}

fn skip(id: u128) -> TaskSpec {
    keyed(id, OnConflict::Skip, None)
}

fn skipped(pairs: &[(u128, u128)]) -> Vec<Conflict> {
    let conflict =
        |(task, first): &(u128, u128)| Conflict { task: TaskId(*task), first: TaskId(*first) };
    pairs.iter().map(conflict).collect()
}

#[test]
fn a_second_one_is_skipped_until_the_first_has_ended() {
    let mut world = World::new();
    world.submit(vec![skip(1)]).unwrap();
    let second = world.submit(vec![task(7), skip(2), skip(2), skip(3)]).unwrap();
    assert_eq!((second.accepted, second.known), (1, 0));
    assert_eq!(second.conflicts, skipped(&[(2, 1), (3, 1)]));
    assert_eq!(world.state(TaskId(2)), None, "it was not taken");
    let again = world.submit(vec![skip(1)]).unwrap();
    assert_eq!(again, Submitted { known: 1, ..Submitted::default() }, "the first is itself");

    let mut world = world.crash(10);
    assert_eq!(world.submit(vec![skip(2)]).unwrap().conflicts, skipped(&[(2, 1)]));
    let mut worker = world.join("w", 4, vec![]);
    let granted = worker.grants();
    let first = granted.iter().find(|granted| granted.spec.id == TaskId(1)).unwrap();
    world.finish(&worker, first);
    assert_eq!(world.submit(vec![skip(2)]).unwrap().accepted, 1, "the key is free");
    let mut world = world.crash(10);
    assert_eq!(world.submit(vec![skip(3)]).unwrap().conflicts, skipped(&[(3, 2)]));
}

#[test]
fn a_window_outlasts_the_task_and_a_restart() {
    let mut world = World::new();
    world.submit(vec![keyed(1, OnConflict::Skip, Some(60_000))]).unwrap();
    let cancel = |reply| Request::Cancel { id: TaskId(1), reason: "no".into(), reply };
    world.ask(cancel).unwrap();
    assert_eq!(world.submit(vec![skip(2)]).unwrap().conflicts, skipped(&[(2, 1)]));
    let mut world = world.crash(59_999);
    assert_eq!(world.submit(vec![skip(2)]).unwrap().conflicts, skipped(&[(2, 1)]));
    world.advance_ms(1);
    assert_eq!(world.submit(vec![skip(2)]).unwrap().accepted, 1);
}

#[test]
fn a_replacement_cancels_the_first_wherever_it_waits() {
    let spill_early = Options { window_tasks: 1, ..Options::default() };
    let mut world = World::with(spill_early);
    world.submit((100..200).map(task).collect()).unwrap();
    world.submit(vec![skip(1)]).unwrap();
    assert_eq!(world.state(TaskId(1)), None, "it waits in the store");
    let replace = |id| keyed(id, OnConflict::Replace, None);
    assert_eq!(world.submit(vec![replace(2)]).unwrap().accepted, 1);
    let retry = |id, reply| Request::Retry { id: TaskId(id), reply };
    let refused = world.ask(|reply| retry(1, reply)).unwrap_err().to_string();
    assert!(refused.contains("is cancelled: another task has its unique key now"), "{refused}");
    let both = world.submit(vec![replace(3), replace(4)]).unwrap();
    assert_eq!((both.accepted, both.conflicts), (2, vec![]));
    let mut world = world.crash(10);
    for id in [2, 3] {
        let refused = world.ask(|reply| retry(id, reply)).unwrap_err().to_string();
        assert!(refused.contains("is cancelled: another task has its unique key"), "{refused}");
    }
    assert_eq!(world.submit(vec![skip(5)]).unwrap().conflicts, skipped(&[(5, 4)]));
    world
        .ask(|reply| Request::Cancel { id: TaskId(4), reason: "no".into(), reply })
        .expect("the last one is open");
    world.ask(|reply| retry(1, reply)).expect("the key is free again");
    assert_eq!(world.submit(vec![skip(5)]).unwrap().conflicts, skipped(&[(5, 1)]), "and taken");
}

#[test]
fn a_running_task_that_is_replaced_is_told_to_stop() {
    let mut world = World::new();
    world.submit(vec![skip(1)]).unwrap();
    let mut worker = world.join("w", 1, vec![]);
    let first = worker.grants().pop().unwrap();
    world.submit(vec![keyed(2, OnConflict::Replace, None)]).unwrap();
    let told = format!("{:?}", worker.messages());
    assert!(told.contains("Stops") && told.contains("replaced by task"), "{told}");
    world.report(&worker, first.spec.id, first.token, AttemptOutcome::Released);
    assert_eq!(worker.grants().pop().unwrap().spec.id, TaskId(2));
}

#[test]
fn a_refusal_takes_nothing_of_the_batch_and_names_the_holder() {
    let mut world = World::new();
    world.submit(vec![skip(1)]).unwrap();
    let refused = world.submit(vec![task(5), keyed(2, OnConflict::Refuse, None)]).unwrap_err();
    let Error::Spec(SpecError::NotUnique { key, holder, .. }) = &refused else {
        panic!("{refused}")
    };
    assert_eq!((key.as_str(), *holder), ("report", TaskId(1)));
    assert_eq!(world.submit(vec![task(5)]).unwrap().accepted, 1, "it was not taken before");
    let within = vec![keyed(8, OnConflict::Skip, None), after(9, &[8])];
    let refused = world.submit(within).unwrap_err().to_string();
    assert!(refused.contains("is skipped because task"), "{refused}");
    assert_eq!(world.state(TaskId(9)), None);
}

#[test]
fn children_follow_the_same_rules_and_may_succeed_their_parent() {
    let mut world = World::new();
    let mut other = skip(50);
    other.unique.as_mut().unwrap().key = "other".into();
    world.submit(vec![skip(1), other]).unwrap();
    let mut worker = world.join("w", 1, vec![]);
    let parent = worker.grants().pop().unwrap();
    assert_eq!(parent.spec.id, TaskId(1));
    let mut third = skip(3);
    third.unique.as_mut().unwrap().key = "other".into();
    let spawn =
        |spawned: Vec<TaskSpec>| AttemptOutcome::Finished { result: Payload::null(), spawned };
    world.report(&worker, parent.spec.id, parent.token, spawn(vec![skip(2), third.clone()]));
    assert!(world.state(TaskId(2)).is_some(), "the key of its parent is free for the child");
    assert_eq!(world.state(TaskId(3)), None, "another one's is not");

    let next = worker.grants().pop().unwrap();
    third.unique.as_mut().unwrap().on_conflict = OnConflict::Refuse;
    third.unique.as_mut().unwrap().key =
        if next.spec.id == TaskId(2) { "other" } else { "report" }.into();
    world.report(&worker, next.spec.id, next.token, spawn(vec![third]));
    assert_eq!(world.state(next.spec.id), None, "the attempt died of its children");
    let retried = world.ask(|reply| Request::Retry { id: next.spec.id, reply });
    assert!(retried.is_ok(), "a dead letter, then: {retried:?}");
}

#[test]
fn a_dead_letter_gives_its_key_back() {
    let mut world = World::new();
    world.submit(vec![skip(1)]).unwrap();
    let mut worker = world.join("w", 1, vec![]);
    let granted = worker.grants().pop().unwrap();
    world.report(&worker, granted.spec.id, granted.token, failed(FailureVerdict::Dead));
    assert_eq!(world.submit(vec![skip(2)]).unwrap().accepted, 1);
    assert_eq!(world.state(TaskId(2)), Some(TaskState::Leased));
}
