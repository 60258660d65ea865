//! A connection is not a process: a worker whose connection breaks keeps its tasks for a while and may come back to them.

use crate::support::*;
use divvy_scheduler::{Action, Input, Options, ReportAnswer};
use divvy_types::{Seq, TaskState, Token, WorkerHello, WorkerKey};

/// Says hello as the process `life` of the worker called `a`.
fn hello(world: &mut World, key: u64, life: &str, held: &[u64]) {
    let held = held.iter().map(|seq| (Seq(*seq), token(world, *seq))).collect();
    hello_with(world, key, life, held);
}

fn hello_with(world: &mut World, key: u64, life: &str, held: Vec<(Seq, Token)>) {
    world.join_with(key, 4, |worker: &mut WorkerHello<Seq>| {
        (worker.name, worker.instance) = ("a".into(), life.into());
        worker.slots = 2;
        worker.held = held;
    });
}

fn token(world: &World, seq: u64) -> Token {
    world.scheduler.lease_token(Seq(seq)).expect("a leased task")
}

/// A worker that runs tasks 1 and 2, and has 3 in line.
fn busy() -> World {
    let mut world = World::new();
    hello(&mut world, 1, "one", &[]);
    world.submit((1..=3).map(spec).collect());
    assert_eq!(world.grants(), [(1, 1), (1, 2), (1, 3)]);
    world
}

#[test]
fn a_process_that_comes_back_in_time_goes_on_and_nothing_is_counted() {
    let mut world = busy();
    let tokens: Vec<Token> = (1..=3).map(|seq| token(&world, seq)).collect();
    for cut in 0..50 {
        world.cut(1 + cut);
        assert!(world.actions.is_empty(), "nothing is recorded, granted or asked");
        world.join(900 + cut, 8);
        assert_eq!(world.grants(), [], "nothing of it goes to another");
        world.leave(900 + cut);
        world.pass_ms(9_000);
        assert!(world.facts().iter().all(|fact| matches!(fact, divvy_types::Fact::Held { .. })));
        hello(&mut world, 2 + cut, "one", &[1, 2, 3]);
        assert!(world.actions.is_empty());
    }
    let worker = world.worker(51);
    assert_eq!((worker.leased, worker.queue_length, worker.away_until), (3, 1, None));
    for seq in 1..=3 {
        world.report(51, seq, tokens[seq as usize - 1], finished());
        assert_eq!(world.answers(), [ReportAnswer::Recorded]);
    }
    assert!(world.scheduler.is_idle());
}

#[test]
fn a_worker_that_stays_away_is_lost_when_its_grace_runs_out() {
    let mut world = busy();
    world.cut(1);
    assert!(world.worker(1).away_until.is_some());
    world.join(2, 8);
    world.submit(vec![spec(4)]);
    assert_eq!(world.grants(), [(2, 4)], "it is offered nothing");
    world.pass_ms(9_999);
    assert_eq!(world.holder(1).as_deref(), Some("a"));
    world.pass_ms(1);
    let given_back_and_granted = ["Held 3", "AttemptFailed 2", "AttemptFailed 1", "Held 3"];
    assert_eq!(world.fact_names(), given_back_and_granted);
    assert_eq!(world.grants(), [(2, 1), (2, 2), (2, 3)], "in their old order");
    assert_eq!(world.scheduler.worker_count(), 1);
    let stale = Token::new(1, 1);
    hello_with(&mut world, 3, "one", vec![(Seq(1), stale)]);
    assert_eq!(world.stops(), [(3, 1, stale, "no longer yours".to_owned())]);
}

#[test]
fn the_grace_is_no_longer_than_a_lease_and_a_worker_without_tasks_has_none() {
    let mut world = World::with(Options { lease_ms: 1_000, ..Options::default() });
    hello(&mut world, 1, "one", &[]);
    world.cut(1);
    assert_eq!(world.scheduler.worker_count(), 0);
    hello(&mut world, 2, "one", &[]);
    world.submit(vec![spec(1)]);
    world.cut(2);
    world.pass_ms(1_000);
    assert_eq!((world.state(1), world.scheduler.worker_count()), (Some(TaskState::Ready), 0));
}

#[test]
fn a_new_process_of_the_name_shows_that_the_old_one_is_gone() {
    let mut world = busy();
    hello(&mut world, 2, "two", &[]);
    assert!(world.facts().is_empty(), "two processes of one name may live side by side");
    world.leave(2);
    world.cut(1);
    hello(&mut world, 3, "three", &[]);
    assert_eq!(world.fact_names(), ["AttemptFailed 2", "AttemptFailed 1", "Held 3"]);
    assert_eq!(world.grants(), [(3, 1), (3, 2), (3, 3)]);
}

#[test]
fn what_never_reached_the_worker_is_given_back_and_not_counted() {
    let mut world = busy();
    world.cut(1);
    hello(&mut world, 2, "one", &[1]);
    let names = world.fact_names();
    assert_eq!(names, ["Held 2", "Held 3"], "a second grant is known after a crash");
    assert_eq!(world.grants(), [(2, 2), (2, 3)]);
    let attempts: Vec<u32> = world
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::Grant(grant) => Some(grant.attempt),
            _ => None,
        })
        .collect();
    assert_eq!(attempts, [1, 1]);
}

#[test]
fn a_connection_that_ended_unnoticed_is_replaced_and_its_end_means_nothing() {
    let mut world = busy();
    hello(&mut world, 2, "one", &[1, 2, 3]);
    let dropped = world.actions.iter().filter(
        |action| matches!(action, Action::DropWorker { worker } if *worker == WorkerKey(1)),
    );
    assert_eq!((dropped.count(), world.actions.len()), (1, 1));
    world.cut(1);
    world.leave(1);
    assert!(world.actions.is_empty());
    world.end(2, 1, finished());
    assert_eq!(world.answers(), [ReportAnswer::Recorded]);
    world.pass_ms(29_999);
    assert_eq!(world.holder(2).as_deref(), Some("a"), "silence is counted from the last word");
    world.pass_ms(1);
    assert_eq!(world.state(2), Some(TaskState::Ready), "it runs out on the new connection too");
}

#[test]
fn a_pause_outlives_the_connection_and_not_the_process() {
    let mut world = busy();
    world.feed(Input::WorkerPaused { worker: WorkerKey(1), paused: true });
    world.cut(1);
    hello(&mut world, 2, "one", &[1, 2, 3]);
    world.submit(vec![spec(4)]);
    world.end(2, 1, finished());
    assert_eq!(world.grants(), [], "the same process still rests");
    hello(&mut world, 3, "two", &[]);
    assert!(!world.grants().is_empty(), "another process of that name takes tasks");
}

#[test]
fn a_cancel_and_a_drain_reach_the_worker_when_it_is_back() {
    let mut world = busy();
    world.cut(1);
    world.feed(Input::CancelRequested { seq: Seq(1), reason: "not needed".into() });
    world.feed(Input::WorkerDraining { worker: WorkerKey(1) });
    let stopped = token(&world, 1);
    hello(&mut world, 2, "one", &[1, 2, 3]);
    assert_eq!(world.stops(), [(2, 1, stopped, "not needed".to_owned())]);
    assert!(world.scheduler.is_draining(WorkerKey(2)));
    world.submit(vec![spec(4)]);
    assert_eq!(world.grants(), []);
    world.end(2, 1, failure(divvy_types::FailureVerdict::Cancelled));
    assert_eq!(world.fact_names(), ["Cancelled 1"]);
}

#[test]
fn a_worker_that_does_not_say_which_process_it_is_takes_over_what_it_announces() {
    let mut world = World::new();
    hello(&mut world, 1, "", &[]);
    world.submit((1..=2).map(spec).collect());
    world.cut(1);
    hello(&mut world, 2, "", &[1]);
    assert!(world.actions.is_empty(), "whether the other one has begun is not known");
    world.pass_ms(10_000);
    assert_eq!(world.fact_names(), ["Held 2", "Held 1", "AttemptFailed 2"]);
    assert_eq!(world.grants(), [(2, 2)]);
    world.end(2, 1, finished());
    assert_eq!(world.answers(), [ReportAnswer::Recorded]);
}

#[test]
fn a_lease_that_moved_is_as_old_as_before() {
    let mut world = World::new();
    hello(&mut world, 1, "one", &[]);
    let mut task = spec(1);
    task.timeout_ms = Some(5_000);
    world.submit(vec![task]);
    for key in 2..=4 {
        world.pass_ms(4_000);
        world.cut(key - 1);
        hello(&mut world, key, "one", &[1]);
    }
    world.pass_ms(3_000);
    assert_eq!(world.stops().len(), 1, "its time is not counted anew by each connection");
}
