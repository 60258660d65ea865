//! Who gets what, and when: order, priorities, ageing, capabilities, credit, pauses.

use crate::support::*;
use divvy_scheduler::{Action, Input, Options};
use divvy_types::{Seq, TaskState, WaitReason};

#[test]
fn one_task_and_ten_thousand_idle_workers_make_one_grant_and_no_other_message() {
    let mut world = World::new();
    for key in 1..=10_000 {
        assert!(world.join(key, 4).is_empty(), "an idle worker causes an action");
    }
    world.submit(vec![spec(1)]);
    assert_eq!(world.grants().len(), 1);
    let others = world
        .actions
        .iter()
        .filter(|a| !matches!(a, Action::Record(_) | Action::Announce(_) | Action::Grant(_)));
    assert_eq!(others.count(), 0);
}

#[test]
fn a_worker_gets_no_more_than_its_credit_and_each_report_frees_a_place() {
    let mut world = World::new();
    world.join(1, 2);
    world.submit((1..=4).map(spec).collect());
    assert_eq!(world.grants(), [(1, 1), (1, 2)]);
    world.end(1, 2, finished());
    assert_eq!(world.grants(), [(1, 3)]);
    world.end(1, 1, finished());
    assert_eq!(world.grants(), [(1, 4)]);
}

#[test]
fn tasks_spread_over_the_least_loaded_workers() {
    let mut world = World::new();
    world.join(1, 8);
    world.join(2, 4);
    world.submit((1..=6).map(spec).collect());
    let to_first = world.grants().iter().filter(|(worker, _)| *worker == 1).count();
    assert_eq!((to_first, world.grants().len()), (4, 6), "{:?}", world.grants());
}

#[test]
fn higher_priority_goes_first_until_the_lower_has_waited_its_bound() {
    let mut world = World::new();
    let low = |number| {
        let mut task = spec(number);
        task.priority = 1;
        task
    };
    let high = |number| {
        let mut task = spec(number);
        task.priority = 5;
        task
    };
    world.submit(vec![low(1), high(2)]);
    world.join(1, 1);
    assert_eq!(world.grants(), [(1, 2)]);
    // Four steps of a minute: one that became ready four minutes and a moment later has to wait behind it.
    world.now = world.now.plus_ms(4 * 60_000 - 1);
    world.submit(vec![high(3)]);
    world.now = world.now.plus_ms(2);
    world.submit(vec![high(4)]);
    world.end(1, 2, finished());
    assert_eq!(world.grants(), [(1, 3)]);
    world.end(1, 3, finished());
    assert_eq!(world.grants(), [(1, 1)]);
    world.end(1, 1, finished());
    assert_eq!(world.grants(), [(1, 4)]);
}

#[test]
fn a_batch_is_ordered_by_priority_even_when_a_worker_waits() {
    let mut world = World::new();
    world.join(1, 1);
    let mut urgent = spec(2);
    urgent.priority = 5;
    world.submit(vec![spec(1), urgent]);
    assert_eq!(world.grants(), [(1, 2)]);
}

#[test]
fn a_task_goes_only_to_a_worker_with_its_kind_queue_and_capabilities() {
    let mut world = World::new();
    let mut task = spec(1);
    task.queue = "video".into();
    task.needs = vec!["gpu".into(), "ffmpeg".into()];
    world.submit(vec![task]);
    let wait = |world: &World| world.scheduler.status(Seq(1)).unwrap().wait.unwrap();
    assert!(matches!(wait(&world), WaitReason::NoWorker { workers: 0, .. }));
    world.join_with(1, 1, |worker| worker.kinds = vec!["other".into()]);
    world.join_with(2, 1, |worker| worker.queues = vec!["mail".into()]);
    assert!(matches!(wait(&world), WaitReason::NoWorker { workers: 2, .. }));
    world.join_with(3, 1, |worker| worker.capabilities = vec!["ffmpeg".into()]);
    assert_eq!(
        wait(&world),
        WaitReason::MissingCapability { missing: vec!["gpu".into()], nearest: "worker-3".into() }
    );
    world.join_with(4, 1, |worker| {
        worker.queues = vec!["mail".into(), "video".into()];
        worker.capabilities = vec!["gpu".into(), "ffmpeg".into(), "more".into()];
    });
    assert_eq!(world.grants(), [(4, 1)]);
    assert_eq!(world.scheduler.status(Seq(1)).unwrap().wait, None);
}

#[test]
fn a_busy_worker_is_named_as_the_reason_with_the_place_in_the_lane() {
    let mut world = World::new();
    world.join(1, 1);
    world.submit((1..=4).map(spec).collect());
    let wait = world.scheduler.status(Seq(4)).unwrap().wait;
    assert_eq!(wait, Some(WaitReason::WorkersBusy { position: Some(2), workers: 1 }));
    world.feed(Input::CancelRequested { seq: Seq(2), reason: "no".into() });
    let wait = world.scheduler.status(Seq(4)).unwrap().wait;
    assert_eq!(wait, Some(WaitReason::WorkersBusy { position: Some(1), workers: 1 }));
}

#[test]
fn a_paused_queue_grants_nothing_until_it_is_resumed() {
    let mut world = World::new();
    world.join(1, 10);
    world.feed(Input::QueuePaused { queue: "default".into(), paused: true });
    assert_eq!(world.fact_names(), ["QueuePaused"]);
    world.submit(vec![spec(1)]);
    assert_eq!(world.grants(), []);
    let wait = world.scheduler.status(Seq(1)).unwrap().wait;
    assert_eq!(wait, Some(WaitReason::QueuePaused { queue: "default".into() }));
    assert!(world.scheduler.queues(world.now)[0].paused);
    world.feed(Input::QueuePaused { queue: "default".into(), paused: true });
    assert!(world.actions.is_empty(), "a pause is recorded once");
    world.feed(Input::QueuePaused { queue: "default".into(), paused: false });
    assert_eq!(world.grants(), [(1, 1)]);
}

#[test]
fn a_task_with_a_time_waits_for_it_or_runs_when_someone_says_so() {
    let mut world = World::new();
    world.join(1, 10);
    let (mut first, mut second) = (spec(1), spec(2));
    first.run_at = Some(world.now.plus_ms(5_000));
    second.run_at = Some(world.now.plus_ms(60_000));
    world.submit(vec![first, second]);
    assert_eq!((world.grants().len(), world.state(1)), (0, Some(TaskState::Scheduled)));
    assert_eq!(
        divvy_types::Machine::next_deadline(&world.scheduler),
        Some(world.now.plus_ms(5_000))
    );
    world.pass_ms(4_999);
    assert_eq!(world.grants(), []);
    world.pass_ms(1);
    assert_eq!(world.grants(), [(1, 1)]);
    world.feed(Input::RunNowRequested { seq: Seq(2) });
    assert_eq!(world.grants(), [(1, 2)]);
}

#[test]
fn a_draining_worker_gets_nothing_more_and_what_it_gives_back_goes_first() {
    let mut world = World::new();
    world.join(1, 2);
    world.submit((1..=3).map(spec).collect());
    world.feed(Input::WorkerDraining { worker: divvy_types::WorkerKey(1) });
    world.end(1, 2, divvy_scheduler::AttemptEnd::Other(divvy_types::AttemptOutcome::Released));
    assert_eq!((world.grants(), world.fact_names()), (vec![], vec![]));
    world.join(2, 1);
    assert_eq!(world.grants(), [(2, 2)]);
    let grant =
        world.actions.iter().find_map(|a| if let Action::Grant(g) = a { Some(g) } else { None });
    assert_eq!(grant.map(|grant| grant.attempt), Some(1), "giving back is not an attempt");
}

#[test]
fn a_paused_worker_keeps_what_it_has_and_takes_more_when_it_is_resumed() {
    let mut world = World::new();
    world.join(1, 2);
    world.submit(vec![spec(1)]);
    let pause = |paused| Input::WorkerPaused { worker: divvy_types::WorkerKey(1), paused };
    world.feed(pause(true));
    world.submit(vec![spec(2)]);
    assert_eq!(world.grants(), []);
    world.feed(pause(true));
    assert_eq!(world.scheduler.workers()[0].leased, 1, "what it holds stays");
    world.feed(pause(false));
    assert_eq!(world.grants(), [(1, 2)]);
    world.feed(Input::WorkerDraining { worker: divvy_types::WorkerKey(1) });
    world.feed(pause(false));
    world.submit(vec![spec(3)]);
    world.end(1, 1, finished());
    assert_eq!(world.grants(), [], "a drain is for good");
}

#[test]
fn memory_of_cancelled_tasks_in_a_lane_is_given_back() {
    let mut world = World::with(Options::default());
    for round in 0..100 {
        let numbers = round * 1_000 + 1..=round * 1_000 + 1_000;
        world.submit(numbers.clone().map(spec).collect());
        for number in numbers {
            world.feed(Input::CancelRequested { seq: Seq(number), reason: "no".into() });
        }
    }
    assert!(world.scheduler.is_idle());
    assert_eq!(world.scheduler.counts(), Default::default());
    world.submit(vec![spec(1_000_000)]);
    world.join(1, 1);
    assert_eq!(world.grants(), [(1, 1_000_000)]);
}

#[test]
fn a_task_with_another_priority_stands_where_its_age_puts_it() {
    let mut world = World::new();
    let with = |number: u64, priority: u8| {
        let mut task = spec(number);
        task.priority = priority;
        task
    };
    world.submit(vec![with(1, 3), with(2, 3)]);
    world.pass_ms(10);
    world.submit(vec![with(3, 5), with(4, 1)]);
    for (seq, priority) in [(1, 5), (4, 5), (2, 1)] {
        world.feed(Input::PriorityChanged { seq: Seq(seq), priority });
    }
    let facts = world
        .actions
        .iter()
        .filter(|action| matches!(action, Action::Record(divvy_types::Fact::Reprioritised { .. })));
    assert_eq!(facts.count(), 1, "each change is recorded with the step that makes it");
    world.join(1, 1);
    let mut order = Vec::new();
    for _ in 0..4 {
        let (_, seq) = world.grants()[0];
        order.push(seq);
        if order.len() == 1 {
            world.feed(Input::PriorityChanged { seq: Seq(seq), priority: 1 });
            assert!(world.actions.is_empty(), "who runs keeps what it was given out with");
        }
        world.end(1, seq, finished());
    }
    assert_eq!(order, [1, 3, 4, 2]);
}
