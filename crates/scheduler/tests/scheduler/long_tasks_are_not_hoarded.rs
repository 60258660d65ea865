//! Tasks of a kind that takes long go to workers with a free slot only, and leave lines where they would wait.

use crate::support::*;
use divvy_scheduler::Input;
use divvy_types::settings::Strategy as Way;
use divvy_types::{Seq, TaskState, WaitReason, WorkerKey};

/// One slot, and places for two tasks that wait for it.
fn join_narrow(world: &mut World, key: u64) {
    world.join_with(key, 3, |worker| worker.slots = 1);
}

/// Lets time pass in which everyone is heard of.
fn pass_alive(world: &mut World, ms: u64, workers: &[u64]) {
    world.now = world.now.plus_ms(ms);
    for worker in workers {
        world.feed(Input::WorkerSeen { worker: WorkerKey(*worker) });
    }
    world.feed(Input::TimePassed);
}

/// A worker that has learnt how long tasks take, and holds nothing.
fn taught(run_ms: u64) -> World {
    let mut world = World::new();
    join_narrow(&mut world, 1);
    for number in 901..=903 {
        world.submit(vec![spec(number)]);
        pass_alive(&mut world, run_ms, &[1]);
        world.end(1, number, finished());
    }
    world
}

#[test]
fn short_tasks_are_given_ahead_and_long_ones_are_not() {
    for (run_ms, given) in [(100, 3), (1_900, 3), (2_100, 1), (40_000, 1)] {
        let mut world = taught(run_ms);
        world.submit((1..=5).map(spec).collect());
        assert_eq!(world.grants().len(), given, "{run_ms} ms");
        assert_eq!(world.worker(1).queue_length as usize, given - 1);
    }
}

#[test]
fn a_long_task_goes_to_the_next_worker_with_a_free_slot() {
    let mut world = taught(10_000);
    world.submit((1..=4).map(spec).collect());
    assert_eq!(world.grants(), [(1, 1)]);
    join_narrow(&mut world, 2);
    assert_eq!(world.grants(), [(2, 2)]);
    pass_alive(&mut world, 10_000, &[1, 2]);
    world.end(1, 1, finished());
    assert_eq!(world.grants(), [(1, 3)]);
    world.end(2, 2, finished());
    assert_eq!(world.grants(), [(2, 4)]);
}

#[test]
fn what_is_short_is_given_ahead_behind_what_is_long() {
    let mut world = taught(10_000);
    world.leave(1);
    world.join_with(2, 3, |worker| {
        worker.slots = 1;
        worker.kinds = vec!["noop".into(), "quick".into()];
    });
    world.submit((1..=2).map(spec).collect());
    assert_eq!(world.grants(), [(2, 1)]);
    let mut quick = spec(3);
    quick.kind = "quick".into();
    world.submit(vec![quick]);
    assert_eq!(world.grants(), [(2, 3)], "a long one before it does not keep it");
}

#[test]
fn when_a_kind_turns_out_to_be_short_after_all_it_is_given_ahead_again() {
    let mut world = taught(2_500);
    join_narrow(&mut world, 2);
    world.submit((1..=30).map(spec).collect());
    let mut ended = 0;
    while world.worker(2).queue_length == 0 && ended < 25 {
        let seq = (1..=30).find(|seq| world.holder(*seq).as_deref() == Some("worker-1"));
        world.end(1, seq.expect("it has one"), finished());
        ended += 1;
    }
    assert!(ended < 25, "nothing was given ahead after {ended} tasks that took no time");
    assert_eq!((world.worker(1).queue_length, world.worker(2).queue_length), (2, 2));
}

#[test]
fn a_task_that_waits_for_a_free_slot_says_so() {
    let mut world = taught(10_000);
    world.submit((1..=2).map(spec).collect());
    let told = world.scheduler.explain(world.now, Seq(2)).expect("an open task");
    let wait = world.scheduler.status(Seq(2)).and_then(|status| status.wait);
    assert!(matches!(wait, Some(WaitReason::WorkersBusy { .. })), "{wait:?}");
    assert!(!told.candidates[0].free, "it has a place, but not for this");
}

#[test]
fn after_a_cold_start_an_idle_worker_takes_from_the_line_of_one_that_has_run_for_long() {
    let mut world = World::new();
    join_narrow(&mut world, 1);
    world.submit((1..=3).map(spec).collect());
    assert_eq!(world.grants().len(), 3, "nothing is known of the kind");
    join_narrow(&mut world, 2);
    assert_eq!(world.recalls(), [], "it may be short");
    pass_alive(&mut world, 1_999, &[1, 2]);
    assert_eq!(world.recalls(), []);
    pass_alive(&mut world, 1, &[1, 2]);
    assert_eq!(world.recalls(), [(1, 3, false)], "as many as it has free slots");
    world.end(1, 3, released());
    assert_eq!(world.grants(), [(2, 3)]);
    // Its slot is busy, so the rest stays.
    pass_alive(&mut world, 10_000, &[1, 2]);
    assert_eq!(world.recalls(), []);
    world.end(2, 3, finished());
    assert_eq!(world.recalls(), [(1, 2, false)]);
    world.end(1, 2, released());
    assert_eq!(world.grants(), [(2, 2)]);
}

#[test]
fn a_line_behind_what_is_known_to_take_long_is_taken_from_at_once() {
    let mut world = World::new();
    join_narrow(&mut world, 1);
    world.submit((1..=3).map(spec).collect());
    world.join_with(2, 3, |worker| worker.slots = 2);
    pass_alive(&mut world, 1_500, &[1, 2]);
    // A third one shows how long they take.
    world.join_with(3, 1, |worker| worker.name = "teacher".into());
    world.feed(Input::WorkerDraining { worker: WorkerKey(2) });
    world.submit(vec![spec(4)]);
    assert_eq!(world.grants(), [(3, 4)]);
    world.leave(2);
    pass_alive(&mut world, 400, &[1, 3]);
    assert_eq!(world.recalls(), []);
    pass_alive(&mut world, 5_000, &[1, 3]);
    world.end(3, 4, finished());
    assert_eq!(world.recalls(), [(1, 3, false)]);
}

#[test]
fn lines_that_move_on_or_are_protected_stay() {
    // A slot with a short task lets the line move on.
    let mut world = taught(10_000);
    world.leave(1);
    world.join_with(2, 8, |worker| {
        worker.slots = 2;
        worker.kinds = vec!["noop".into(), "quick".into()];
    });
    let quick = |number: u64| {
        let mut task = spec(number);
        task.kind = "quick".into();
        task
    };
    world.submit(vec![spec(1), quick(2), quick(3)]);
    assert_eq!(world.worker(2).queue_length, 1);
    world.join_with(3, 3, |worker| worker.kinds = vec!["quick".into()]);
    assert_eq!(world.recalls(), []);
    // High priorities are not stolen, and nothing is without a strategy that pulls.
    for (priority, way, stolen) in [
        (3, Way::Hybrid, true),
        (5, Way::Hybrid, false),
        (3, Way::Push, false),
        (3, Way::None, false),
    ] {
        let mut world = World::new();
        world.set(|settings| settings.load_balancing.strategy = way);
        join_narrow(&mut world, 1);
        let tasks = (1..=3).map(|number| {
            let mut task = spec(number);
            task.priority = priority;
            task
        });
        world.submit(tasks.collect());
        join_narrow(&mut world, 2);
        pass_alive(&mut world, 2_000, &[1, 2]);
        assert_eq!(!world.recalls().is_empty(), stolen, "{priority} {way:?}");
    }
}

#[test]
fn chunks_of_a_cold_start_end_up_on_all_workers() {
    let mut world = World::new();
    world.join_with(1, 8, |worker| worker.slots = 2);
    world.submit((1..=8).map(spec).collect());
    assert_eq!(world.worker(1).leased, 8);
    let mut asked = Vec::new();
    for key in 2..=4 {
        world.join_with(key, 8, |worker| worker.slots = 2);
        asked.extend(world.recalls());
    }
    for _ in 0..8 {
        while let Some((worker, seq, _)) = asked.pop() {
            world.end(worker, seq, released());
            asked.extend(world.recalls());
        }
        world.pass_ms(1_000);
        asked.extend(world.recalls());
    }
    for key in 1..=4 {
        assert_eq!((world.worker(key).leased, world.worker(key).queue_length), (2, 0), "{key}");
    }
    assert!((1..=8).all(|seq| world.state(seq) == Some(TaskState::Leased)));
}
