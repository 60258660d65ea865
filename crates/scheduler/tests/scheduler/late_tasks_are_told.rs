//! The admission test: a task with a deadline is expected to be late when too much work stands before it.

use crate::support::*;
use divvy_scheduler::{Newcomer, Options};
use divvy_types::{Seq, TaskSpec, Timestamp};

/// How long a task of the kind `noop` takes in these worlds.
const RUN_MS: u64 = 10_000;

/// A world where the run time of the kind is known, with one worker of so many slots that is free.
fn world(slots: u32) -> World {
    world_with(Options::default(), slots)
}

fn world_with(options: Options, slots: u32) -> World {
    let mut world = World::with(options);
    world.join(1, slots);
    for number in 9_001..9_021 {
        world.submit(vec![spec(number)]);
        world.pass_ms(RUN_MS);
        world.end(1, number, finished());
    }
    world
}

fn due(world: &World, number: u64, after_ms: u64) -> TaskSpec {
    TaskSpec {
        terms: divvy_types::Terms {
            deadline: Some(world.now.plus_ms(after_ms)),
            ..divvy_types::Terms::default()
        }
        .into(),
        ..spec(number)
    }
}

/// The numbers of those that are expected to be late, and in how many seconds they are done.
fn late(world: &World, specs: &[TaskSpec]) -> Vec<(u64, u64)> {
    let new: Vec<_> =
        specs.iter().map(|spec| Newcomer { spec, blocked: !spec.after.is_empty() }).collect();
    let late = world.scheduler.expected_late_among(world.now, &new).into_iter();
    late.map(|(place, end)| (specs[place].id.0 as u64, seconds(world, end))).collect()
}

fn seconds(world: &World, end: Timestamp) -> u64 {
    ((end.0 - world.now.0) as f64 / 1e6).round() as u64
}

#[test]
fn a_backlog_before_it_makes_a_task_late_and_no_backlog_does_not() {
    let mut world = world(1);
    let task = due(&world, 100, 60_000);
    assert_eq!(late(&world, std::slice::from_ref(&task)), [], "the worker is free");
    // One runs, nine wait and are more urgent.
    let backlog = (1..=10).map(|number| due(&world, number, 30_000)).collect();
    world.submit(backlog);
    assert_eq!(late(&world, std::slice::from_ref(&task)), [(100, 105)]);
    let patient = due(&world, 101, 110_000);
    assert_eq!(late(&world, &[patient]), []);
    // The same test on a task that was taken in says the same.
    world.submit(vec![task]);
    let end = world.scheduler.expected_late(world.now, Seq(100)).expect("it is late");
    assert_eq!(seconds(&world, end), 105);
    assert!(world.scheduler.explain(world.now, Seq(100)).unwrap().late);
}

#[test]
fn more_slots_and_a_higher_priority_make_up_for_a_backlog() {
    let mut narrow = world(1);
    narrow.submit((1..=12).map(spec).map(|spec| TaskSpec { priority: 4, ..spec }).collect());
    let mut wide = world(4);
    wide.submit((1..=12).map(spec).map(|spec| TaskSpec { priority: 4, ..spec }).collect());
    let task = due(&narrow, 100, 60_000);
    let urgent = TaskSpec { priority: 5, ..due(&narrow, 101, 60_000) };
    assert_eq!(late(&narrow, &[task]), [(100, 125)]);
    assert_eq!(late(&narrow, &[urgent]), []);
    let task = due(&wide, 100, 60_000);
    assert_eq!(late(&wide, &[task]), []);
}

#[test]
fn tasks_without_a_deadline_count_from_when_their_patience_ends() {
    let mut world = world(1);
    world.submit((1..=100).map(spec).collect());
    // They have ten minutes of patience: due before that goes before them, due after that waits for all.
    let (soon, far) = (due(&world, 101, 300_000), due(&world, 102, 900_000));
    assert_eq!(late(&world, &[soon, far.clone()]), [(102, 1_015)]);
    world.submit(vec![far]);
    let end = world.scheduler.expected_late(world.now, Seq(102)).expect("it is late");
    assert_eq!(seconds(&world, end), 1_005);
}

#[test]
fn the_tasks_of_a_batch_stand_in_each_others_way() {
    let world = world(2);
    let batch: Vec<TaskSpec> = (1..=8).map(|number| due(&world, number, 28_000)).collect();
    // Two at a time take ten seconds; of equal deadlines the first in the batch goes first.
    let places: Vec<u64> = late(&world, &batch).into_iter().map(|(number, _)| number).collect();
    assert_eq!(places, [5, 6, 7, 8]);
    let mut reversed: Vec<TaskSpec> =
        (1..=8).map(|number| due(&world, number, 28_000 - number)).collect();
    reversed.push(TaskSpec { kind: "other".into(), ..due(&world, 9, 1_000) });
    let places: Vec<u64> = late(&world, &reversed).into_iter().map(|(number, _)| number).collect();
    assert_eq!(places, [1, 2, 3, 4], "the last are the most urgent; nobody runs the other kind");
}

#[test]
fn what_cannot_start_yet_is_late_only_if_it_could_not_be_in_time_at_best() {
    let mut world = world(1);
    let backlog = (1..=10).map(|number| due(&world, number, 1_000)).collect();
    world.submit(backlog);
    let mut later = due(&world, 100, 25_000);
    later.run_at = Some(world.now.plus_ms(20_000));
    let mut latest = later.clone();
    latest.run_at = Some(world.now.plus_ms(10_000));
    let blocked = after(due(&world, 102, 15_000), &[(1, false)]);
    let hopeless = after(due(&world, 103, 5_000), &[(1, false)]);
    assert_eq!(late(&world, &[later, latest, blocked, hopeless]), [(100, 30), (103, 10)]);
}

#[test]
fn a_deadline_in_the_past_is_late_even_where_nothing_is_known() {
    let world = World::new();
    let mut past = spec(1);
    past.deadline = Some(Timestamp(world.now.0 - 1));
    assert_eq!(late(&world, &[past, due(&world, 2, 0)]), [(1, 0)]);
}

#[test]
fn a_rate_limit_and_what_it_keeps_are_counted() {
    let mut world = world(4);
    world.set(|settings| {
        let limit = divvy_types::settings::Limit {
            rate: Some("1/m".parse().expect("a rate")),
            ..divvy_types::settings::Limit::default()
        };
        settings.limits.insert("api".into(), limit);
    });
    let limited = |spec: TaskSpec| {
        let mut spec = spec;
        spec.limits = vec!["api".into()];
        spec
    };
    world.pass_ms(120_000);
    world.submit(vec![limited(spec(1)), limited(spec(2))]);
    assert_eq!(world.grants(), [(1, 1)], "the other is kept");
    let task = limited(due(&world, 100, 30_000));
    assert_eq!(late(&world, std::slice::from_ref(&task)), [(100, 70)], "a minute for the limit");
    let free = due(&world, 101, 30_000);
    assert_eq!(late(&world, &[free]), []);
    // More urgent ones that are kept too stand before it, though in nobody else's way: 40 runs and half of one by 4.
    let kept = (3..=42).map(|number| limited(due(&world, number, 1))).collect();
    world.submit(kept);
    assert_eq!(late(&world, &[task]), [(100, 111)]);
}

#[test]
fn a_long_backlog_is_looked_at_in_part_and_counted_whole() {
    let options = Options { window_tasks: 200_000, ..Options::default() };
    let mut world = world_with(options, 1);
    let backlog = (1..=50_000).map(|number| due(&world, number, number)).collect();
    world.submit(backlog);
    let task = due(&world, 100_000, 60_000 + RUN_MS);
    let [(_, end)] = late(&world, &[task])[..] else { panic!("it is late") };
    let share = end as f64 / (50_000 * RUN_MS / 1_000) as f64;
    assert!((0.95..1.05).contains(&share), "{share}");
    // The latest starts are spread evenly: who is due in the middle has half of them before it.
    let task = due(&world, 100_000, 25_000);
    let [(_, end)] = late(&world, &[task])[..] else { panic!("it is late") };
    let share = end as f64 / (25_000 * RUN_MS / 1_000) as f64;
    assert!((0.9..1.1).contains(&share), "{share}");
}
