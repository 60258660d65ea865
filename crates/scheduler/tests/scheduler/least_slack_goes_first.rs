//! Deadlines: within a priority, the task with the least time to spare goes first.

use crate::support::*;
use divvy_scheduler::{AttemptEnd, Input, Options};
use divvy_types::{AttemptOutcome, Lane, Seq, Settings, TaskSpec};
use proptest::prelude::*;

/// Due after so many seconds; negative is in the past.
fn due(world: &World, number: u64, after_sec: i64) -> TaskSpec {
    let mut task = spec(number);
    let deadline = world.now.0.saturating_add_signed(after_sec * 1_000_000);
    task.deadline = Some(divvy_types::Timestamp(deadline));
    task
}

/// Lets one worker run everything, one after the other.
fn order(world: &mut World) -> Vec<u64> {
    world.join(1, 1);
    let mut started = Vec::new();
    while let [(_, seq)] = world.grants()[..] {
        started.push(seq);
        world.end(1, seq, finished());
    }
    started
}

#[test]
fn deadlines_order_a_priority_and_do_not_cross_it() {
    let mut world = World::new();
    let tasks = [(1, 300), (2, 60), (3, 120), (4, 10), (5, 60)];
    let mut tasks: Vec<TaskSpec> = tasks.iter().map(|(n, sec)| due(&world, *n, *sec)).collect();
    tasks[3].priority = 2;
    tasks[0].priority = 4;
    world.submit(tasks);
    assert_eq!(order(&mut world), [1, 2, 5, 3, 4], "equal deadlines go by age");
}

#[test]
fn tasks_without_a_deadline_have_patience_from_when_they_became_ready() {
    // Ten minutes by default: due in 9 goes before it, due in 11 after it.
    let mut world = World::new();
    let tasks = vec![spec(1), due(&world, 2, 11 * 60), due(&world, 3, 9 * 60)];
    world.submit(tasks);
    assert_eq!(order(&mut world), [3, 1, 2]);

    // One that has waited for its patience goes before one that is due later than now.
    let mut world = World::new();
    world.submit(vec![spec(1)]);
    world.pass_ms(601_000);
    let tasks = vec![due(&world, 2, 60), due(&world, 3, -5)];
    world.submit(tasks);
    assert_eq!(order(&mut world), [3, 1, 2]);
}

#[test]
fn a_distant_deadline_gives_no_advantage_over_tasks_without_in_other_queues_and_kinds() {
    for (queue, kind) in [("default", "send"), ("mail", "noop")] {
        let mut world = World::new();
        let far = due(&world, 1, 7_200);
        world.submit(vec![far]);
        world.pass_ms(1_000);
        let mut plain = spec(2);
        (plain.queue, plain.kind) = (queue.into(), kind.into());
        world.submit(vec![plain]);
        world.join_with(1, 1, |worker| worker.kinds = vec!["noop".into(), "send".into()]);
        assert_eq!(world.grants(), [(1, 2)], "{queue}, {kind}");
    }
}

#[test]
fn patience_can_be_changed_while_tasks_wait() {
    let mut world = World::new();
    let tasks = vec![spec(1), due(&world, 2, 60)];
    world.submit(tasks);
    let mut settings = Settings::default();
    settings.ordering.patience_sec = 10.0;
    world.feed(Input::SettingsChanged(Box::new(settings)));
    assert_eq!(order(&mut world), [1, 2]);
}

#[test]
fn a_deadline_that_has_passed_goes_before_all_others_of_its_priority() {
    let mut world = World::new();
    let tasks = vec![spec(1), due(&world, 2, 1), due(&world, 3, -100), due(&world, 4, -10)];
    world.submit(tasks);
    assert_eq!(order(&mut world), [3, 4, 2, 1]);
}

#[test]
fn the_most_urgent_may_be_cancelled_and_the_next_takes_its_place() {
    let mut world = World::new();
    let mut tasks: Vec<TaskSpec> = (1..=5).map(|n| due(&world, n, 100 - n as i64)).collect();
    tasks.push(spec(6));
    world.submit(tasks);
    for seq in [5, 4, 2] {
        world.feed(Input::CancelRequested { seq: Seq(seq), reason: "asked".into() });
    }
    assert_eq!(order(&mut world), [3, 1, 6]);
    assert!(world.scheduler.is_idle());
}

#[test]
fn what_is_given_back_keeps_its_deadline_and_its_age() {
    let mut world = World::new();
    let tasks = vec![spec(1), due(&world, 2, 60), due(&world, 3, 50)];
    world.submit(tasks);
    world.pass_ms(1_000);
    world.submit(vec![spec(4)]);
    world.join(9, 4);
    assert_eq!(world.grants(), [(9, 3), (9, 2), (9, 1), (9, 4)]);
    world.feed(Input::WorkerDraining { worker: divvy_types::WorkerKey(9) });
    for seq in [1, 4, 2, 3] {
        world.end(9, seq, AttemptEnd::Other(AttemptOutcome::Released));
    }
    assert_eq!(order(&mut world), [3, 2, 1, 4]);
}

#[test]
fn an_old_task_with_a_distant_deadline_ages_even_behind_one_that_was_given_back() {
    let mut world = World::new();
    let mut far = due(&world, 1, 86_400);
    far.priority = 1;
    world.submit(vec![far]);
    world.pass_ms(4 * 60_000);
    let mut soon = due(&world, 2, 1);
    soon.priority = 1;
    world.submit(vec![soon]);
    world.join(9, 1);
    assert_eq!(world.grants(), [(9, 2)]);
    world.feed(Input::WorkerDraining { worker: divvy_types::WorkerKey(9) });
    world.end(9, 2, AttemptEnd::Other(AttemptOutcome::Released));
    let flood = (10..60).map(|number| {
        let mut task = spec(number);
        task.priority = 5;
        task
    });
    world.submit(flood.collect());
    let started = order(&mut world);
    let place = started.iter().position(|seq| *seq == 2);
    assert!(place.is_some_and(|place| place <= 31), "priority 1 has aged: {started:?}");
}

#[test]
fn deadlines_never_wait_in_the_store() {
    let options =
        Options { window_tasks: 10, lane_floor_rows: 1, lane_load_rows: 4, ..Options::default() };
    let mut world = World::with(options);
    world.submit((1..=50).map(spec).collect());
    let spilled = world.scheduler.counts().spilled;
    assert!(spilled > 0, "the window is full");
    let urgent = (51..=80).map(|number| due(&world, number, 1_000 - number as i64)).collect();
    world.submit(urgent);
    assert_eq!(world.scheduler.counts().spilled, spilled);
    let facts = world.facts();
    let lanes = facts.iter().filter_map(|fact| match fact {
        divvy_types::Fact::Submitted { spilled, .. } => *spilled,
        _ => None,
    });
    assert_eq!(lanes.collect::<Vec<Lane>>(), []);
    world.join(1, 30);
    let granted: Vec<u64> = world.grants().iter().map(|(_, seq)| *seq).collect();
    let latest_first: Vec<u64> = (51..=80).rev().collect();
    let (urgent, others): (Vec<u64>, Vec<u64>) = granted.iter().partition(|seq| **seq > 50);
    // Those without a deadline have ten minutes of patience, less than all of these.
    assert_eq!(urgent, latest_first[..urgent.len()], "{others:?} before them");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_mix_leaves_by_latest_start(
        tasks in prop::collection::vec((prop::option::of(-100i64..1_500), 0u64..400_000, any::<bool>()), 1..40),
        cancelled in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let mut world = World::new();
        let mut expected = Vec::new();
        for ((deadline, wait_ms, is_other), number) in tasks.iter().zip(1u64..) {
            world.pass_ms(*wait_ms + 1);
            let mut task = deadline.map_or_else(|| spec(number), |sec| due(&world, number, sec));
            if *is_other {
                task.queue = "mail".into();
            }
            let patience = 600 * 1_000_000;
            let by = task.deadline.map_or(world.now.0 + patience, |deadline| deadline.0);
            expected.push((by, task.deadline.is_none(), world.now, number));
            world.submit(vec![task]);
        }
        for index in cancelled {
            let seq = 1 + index.index(tasks.len()) as u64;
            world.feed(Input::CancelRequested { seq: Seq(seq), reason: "asked".into() });
            expected.retain(|(.., number)| *number != seq);
        }
        expected.sort_unstable();
        let expected: Vec<u64> = expected.into_iter().map(|(.., number)| number).collect();
        prop_assert_eq!(order(&mut world), expected);
    }
}
