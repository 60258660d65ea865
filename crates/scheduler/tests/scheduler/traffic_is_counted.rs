//! What comes, waits, runs and ends is counted as tasks move, whatever way they take.

use divvy_scheduler::{ClassLoad, Input, Options, wait_bucket_end_us};
use divvy_types::settings::Limit;
use divvy_types::{FailureVerdict, RetryPolicy, Seq, Settings, Timestamp};

use crate::support::*;

/// Arrived, ended, waiting and running over all classes.
fn figures(world: &World) -> (u64, u64, u64, u64) {
    let loads = world.scheduler.class_loads();
    let sum = |of: fn(&ClassLoad<'_>) -> u64| loads.iter().map(of).sum();
    (
        sum(|load| load.arrived),
        sum(|load| load.ended),
        sum(|load| load.waiting),
        sum(|load| load.running),
    )
}

#[test]
fn what_waits_at_a_worker_waits_and_what_has_begun_runs() {
    let mut world = World::new();
    world.submit((1..=5).map(spec).collect());
    assert_eq!(figures(&world), (5, 0, 5, 0));
    world.join_with(1, 3, |worker| worker.slots = 1);
    assert_eq!(figures(&world), (5, 0, 4, 1), "two of three leases wait in line");
    world.end(1, 1, finished());
    assert_eq!(figures(&world), (5, 1, 3, 1));
    assert_eq!(world.scheduler.arrivals(), 5);
}

#[test]
fn what_is_given_back_does_not_arrive_again_and_a_retry_does() {
    let mut world = World::new();
    let mut task = spec(1);
    task.retry = RetryPolicy { base_ms: 1_000, jitter_percent: 0, ..RetryPolicy::default() };
    world.submit(vec![task]);
    world.join(1, 1);
    world.end(1, 1, released());
    assert_eq!(figures(&world), (1, 0, 0, 1), "given back, and granted again");
    world.end(1, 1, failure(FailureVerdict::Retry));
    assert_eq!(figures(&world), (1, 1, 0, 0), "it waits for its time");
    world.pass_ms(60_000);
    assert_eq!(figures(&world), (2, 1, 0, 1));
    world.end(1, 1, finished());
    assert_eq!(figures(&world), (2, 2, 0, 0));
}

#[test]
fn what_a_limit_or_a_pause_keeps_is_told_apart() {
    let mut world = World::new();
    let held = |world: &World| -> (u64, u64) {
        let loads = world.scheduler.class_loads();
        (loads.iter().map(|load| load.waiting).sum(), loads.iter().map(|load| load.held).sum())
    };
    let limit = Limit { concurrency: Some(1), ..Limit::default() };
    let settings = Settings { limits: [("api".into(), limit)].into(), ..Settings::default() };
    world.feed(Input::SettingsChanged(Box::new(settings)));
    let limited = |number| {
        let mut task = spec(number);
        task.limits = vec!["api".into()];
        task
    };
    world.join(1, 8);
    world.submit((1..=4).map(limited).collect());
    assert_eq!(held(&world), (3, 3), "one runs, and the limit keeps the others");
    world.feed(Input::QueuePaused { queue: "later".into(), paused: true });
    let mut paused = spec(5);
    paused.queue = "later".into();
    world.submit(vec![paused]);
    assert_eq!(held(&world), (4, 4));
    world.feed(Input::QueuePaused { queue: "later".into(), paused: false });
    assert_eq!(held(&world), (3, 3), "it runs");
}

#[test]
fn what_waits_in_the_store_waits_and_arrives_once() {
    let options = Options { window_tasks: 10, lane_floor_rows: 2, ..Options::default() };
    let mut world = World::with(options);
    world.submit((1..=100).map(spec).collect());
    assert_eq!(figures(&world), (100, 0, 100, 0));
}

#[test]
fn deadlines_of_ready_tasks_are_told_in_steps_and_run_times_with_their_spread() {
    let mut world = World::new();
    let start = world.now;
    let due = |number: u64| {
        let mut task = spec(number);
        task.deadline = Some(start.plus_ms(60_000 * number));
        task
    };
    world.submit(vec![due(2), due(1), spec(3), due(4)]);
    let steps: Vec<(Timestamp, u64)> = world.scheduler.class_loads()[0].due().collect();
    assert_eq!(steps.len(), 3);
    for ((at, count), minutes) in steps.iter().zip([1, 2, 4]) {
        let deadline = start.plus_ms(60_000 * minutes);
        assert!(*at <= deadline && deadline.since(*at).as_secs() < 2, "{at:?}");
        assert_eq!(*count, 1);
    }
    assert_eq!(world.scheduler.class_loads()[0].run, None);
    world.join(1, 1);
    for _ in 0..4 {
        world.pass_ms(2_000);
        let running: Vec<u64> =
            (1..=4).filter(|seq| world.scheduler.holder(Seq(*seq)).is_some()).collect();
        world.end(1, running[0], finished());
    }
    let loads = world.scheduler.class_loads();
    let run = loads[0].run.expect("four have ended");
    assert!((1.9..2.1).contains(&run.mean_sec) && run.p95_sec >= run.mean_sec * 0.99, "{run:?}");
    assert_eq!(loads[0].due().count(), 0);
}

#[test]
fn workers_tell_what_they_offer_and_how_full_they_are() {
    let mut world = World::new();
    world.join_with(1, 4, |worker| {
        worker.slots = 4;
        worker.capabilities = vec!["pool=encoders".into(), "type=small".into()];
    });
    let mut tasks: Vec<_> = (1..=2).map(spec).collect();
    tasks[0].affinity = Some("a".into());
    world.submit(tasks);
    let workers = world.scheduler.worker_traffic();
    assert_eq!(workers.len(), 1);
    assert_eq!((workers[0].running, workers[0].queued, workers[0].keys), (2, 0, 1));
    assert_eq!((workers[0].busy, workers[0].tiers[0].1), (0.5, 4));
    assert!(workers[0].capabilities.contains(&"pool=encoders".into()));
}

#[test]
fn each_queue_counts_what_was_done_in_it_and_how_long_it_waited() {
    let mut world = World::new();
    let in_queue = |number: u64, queue: &str| {
        let mut task = spec(number);
        task.queue = queue.into();
        task.retry = RetryPolicy { base_ms: 1_000, limit: 1, ..RetryPolicy::default() };
        task
    };
    world.submit(vec![in_queue(1, "mail"), in_queue(2, "mail"), in_queue(3, "other")]);
    world.pass_ms(1_000);
    world.join(1, 3);
    world.end(1, 1, finished());
    world.end(1, 2, failure(FailureVerdict::Retry));
    world.end(1, 3, failure(FailureVerdict::Dead));
    let tally = |name: &str| {
        let (_, tally) = world.scheduler.tallies().find(|(queue, _)| *queue == name).unwrap();
        (
            tally.submitted,
            tally.done,
            tally.retried,
            tally.failed,
            tally.waits.0.iter().sum::<u64>(),
        )
    };
    assert_eq!(tally("mail"), (2, 1, 1, 0, 2));
    assert_eq!(tally("other"), (1, 0, 0, 1, 1));
    let waits = world.scheduler.waits();
    let bucket = waits.0.iter().position(|count| *count > 0).unwrap();
    assert_eq!(waits.0[bucket], 3);
    let (from, to) = (wait_bucket_end_us(bucket - 1), wait_bucket_end_us(bucket));
    assert!(from < 1_000_000 && 1_000_000 <= to, "they waited a second, not {from} to {to} us");
}

#[test]
fn another_priority_is_no_new_arrival() {
    let mut world = World::new();
    world.submit((1..=2).map(spec).collect());
    world.feed(Input::PriorityChanged { seq: Seq(2), priority: 5 });
    assert_eq!((figures(&world), world.scheduler.arrivals()), ((2, 0, 2, 0), 2));
}
