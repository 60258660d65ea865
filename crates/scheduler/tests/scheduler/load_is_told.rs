//! What the scheduler tells of the load as a whole.

use crate::support::*;
use divvy_scheduler::Input;
use divvy_types::{Seq, Timestamp, WaitReason, WorkerKey};

#[test]
fn what_a_worker_holds_beyond_its_slots_is_its_queue() {
    let mut world = World::new();
    world.join_with(1, 5, |worker| worker.slots = 2);
    world.join(2, 1);
    world.submit((1..=6).map(spec).collect());
    let loads = world.scheduler.worker_loads();
    let figures: Vec<(u32, u32, u32)> =
        loads.iter().map(|load| (load.slots, load.leased, load.queue_length)).collect();
    assert_eq!(figures, [(2, 5, 3), (1, 1, 0)]);
    let statuses = (1..=6).map(|seq| world.scheduler.status(Seq(seq)).unwrap());
    let queued: Vec<WaitReason> = statuses.filter_map(|status| status.wait).collect();
    let waits = WaitReason::AtWorker { worker: "worker-1".into() };
    assert_eq!(queued, [waits.clone(), waits.clone(), waits], "three have not begun");
    let (all, queues) = (world.scheduler.counts(), world.scheduler.queues(Timestamp(0)));
    assert_eq!((all.leased, all.queued), (6, 3));
    assert_eq!((queues[0].leased, queues[0].queued), (6, 3));
    world.feed(Input::WorkerDraining { worker: WorkerKey(2) });
    assert!(world.scheduler.worker_loads()[1].draining);
}

#[test]
fn what_is_ready_in_a_queue_is_told_by_priority() {
    let mut world = World::new();
    let task = |number: u64, priority: u8, queue: &str| {
        let mut task = spec(number);
        (task.priority, task.queue) = (priority, queue.into());
        task
    };
    let mut kept = task(6, 2, "mail");
    kept.fair_key = Some("acme".into());
    world.submit(vec![
        task(1, 5, "mail"),
        task(2, 5, "mail"),
        task(3, 1, "mail"),
        task(4, 3, "late"),
        task(5, 2, "mail"),
        kept,
    ]);
    let told = |world: &World| -> Vec<(u64, Vec<u64>)> {
        let queues = world.scheduler.queues(world.now).into_iter();
        queues.map(|queue| (queue.ready, queue.ready_by_priority)).collect()
    };
    assert_eq!(told(&world), [(1, vec![0, 0, 1, 0, 0]), (5, vec![1, 2, 0, 0, 2])]);
    // What a worker has is not ready any more.
    world.join(1, 3);
    let ready: Vec<u64> = told(&world).iter().map(|(_, counts)| counts.iter().sum()).collect();
    assert_eq!(ready.iter().sum::<u64>(), 3, "{ready:?}");
}

#[test]
fn ready_tasks_that_nobody_can_run_are_told_with_the_reason() {
    let mut world = World::new();
    let mut needy = spec(1);
    needy.needs = vec!["gpu".into()];
    let mut other = spec(2);
    other.kind = "other".into();
    let mut second = spec(3);
    second.kind = "other".into();
    let mut held = spec(4);
    held.queue = "paused".into();
    world.feed(Input::QueuePaused { queue: "paused".into(), paused: true });
    world.submit(vec![needy, other, second, held]);
    assert_eq!(world.scheduler.stranded(10).len(), 2, "all but the one that is paused");
    world.join(1, 1);
    let stranded = world.scheduler.stranded(10);
    let kinds: Vec<(&str, u64)> =
        stranded.iter().map(|stranded| (stranded.kind.as_str(), stranded.ready)).collect();
    assert_eq!(kinds, [("other", 2), ("noop", 1)]);
    assert!(matches!(stranded[0].wait, WaitReason::NoWorker { .. }), "{stranded:?}");
    assert!(matches!(stranded[1].wait, WaitReason::MissingCapability { .. }), "{stranded:?}");
    assert_eq!(world.scheduler.stranded(1).len(), 1);
    world.join_with(2, 8, |worker| {
        worker.kinds = vec!["noop".into(), "other".into()];
        worker.capabilities = vec!["gpu".into()];
    });
    assert!(world.scheduler.stranded(10).is_empty());
}

#[test]
fn deadlines_that_have_passed_or_cannot_be_met_are_counted() {
    let mut world = World::new();
    let with_deadline = |number, deadline: Timestamp| {
        let mut task = spec(number);
        task.deadline = Some(deadline);
        task
    };
    let soon = world.now.plus_ms(1_000);
    world.submit(vec![with_deadline(1, soon), with_deadline(2, soon.plus_ms(60_000)), spec(3)]);
    assert_eq!(world.scheduler.deadlines_at_risk(world.now), 0);
    world.pass_ms(2_000);
    assert_eq!(world.scheduler.deadlines_at_risk(world.now), 1);
    world.join(1, 1);
    assert_eq!(world.scheduler.deadlines_at_risk(world.now), 1, "it runs, and is late still");
}
