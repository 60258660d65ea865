//! Which workers may run a task: what they have against what it needs.

use crate::support::*;
use divvy_scheduler::Input;
use divvy_types::{Matching, Name, TaskSpec, TaskState, WaitReason, WorkerKey};

fn needing(number: u64, needs: &[&str]) -> TaskSpec {
    let mut spec = spec(number);
    spec.needs = needs.iter().map(|need| Name::from(*need)).collect();
    spec
}

fn matched(number: u64, needs: &[&str], matching: Matching) -> TaskSpec {
    let mut spec = needing(number, needs);
    spec.matching = Some(matching);
    spec
}

fn join(world: &mut World, key: u64, credit: u32, capabilities: &[&str]) {
    world.join_with(key, credit, |worker| {
        worker.capabilities = capabilities.iter().map(|text| Name::from(*text)).collect();
    });
}

fn wait(world: &World, seq: u64) -> WaitReason {
    let status = world.scheduler.status(divvy_types::Seq(seq)).expect("an open task");
    status.wait.expect("a task that waits")
}

#[test]
fn presence_equality_and_minimum_decide_who_may_run_a_task() {
    let offers: [&[&str]; 4] =
        [&[], &["ffmpeg"], &["gpu=1", "region=eu"], &["gpu=4", "region=us", "ffmpeg"]];
    for (needs, able) in [
        (&[][..], &[1, 2, 3, 4][..]),
        (&["ffmpeg"], &[2, 4]),
        (&["gpu"], &[3, 4]),
        (&["gpu=1"], &[3]),
        (&["gpu>=2"], &[4]),
        (&["gpu>=2", "region=eu"], &[]),
        (&["gpu>=1", "region=eu"], &[3]),
        (&["gpu>=5"], &[]),
    ] {
        for (key, capabilities) in (1..).zip(offers) {
            let mut world = World::new();
            join(&mut world, key, 1, capabilities);
            world.submit(vec![needing(1, needs)]);
            let ran = world.state(1) == Some(TaskState::Leased);
            assert_eq!(ran, able.contains(&key), "{needs:?} on {capabilities:?}");
        }
    }
}

#[test]
fn a_worker_that_comes_later_gets_the_tasks_that_it_can_run_and_no_others() {
    let mut world = World::new();
    world.submit(vec![needing(1, &["gpu>=2"]), needing(2, &["gpu"]), needing(3, &["nvenc"])]);
    join(&mut world, 1, 9, &["gpu=1"]);
    assert_eq!(world.grants(), [(1, 2)]);
    join(&mut world, 2, 9, &["gpu=1", "gpu=2"]);
    assert_eq!(world.grants(), [(2, 1)], "of two capabilities with one name the last holds");
    let WaitReason::MissingCapability { missing, .. } = wait(&world, 3) else { panic!("why") };
    assert_eq!(missing, ["nvenc"]);
}

#[test]
fn of_workers_that_lack_the_same_the_one_with_more_of_it_is_nearest() {
    let mut world = World::new();
    join(&mut world, 1, 1, &["gpu=1"]);
    join(&mut world, 2, 1, &["gpu=2"]);
    join(&mut world, 3, 1, &[]);
    world.submit(vec![needing(1, &["gpu>=8"])]);
    let WaitReason::MissingCapability { nearest, .. } = wait(&world, 1) else { panic!("why") };
    assert_eq!(nearest, "worker-2");
}

#[test]
fn without_fallback_a_task_waits_for_a_worker_that_has_it_all() {
    for matching in [Matching::Exact, Matching::BestFit] {
        let mut world = World::new();
        join(&mut world, 1, 4, &["ffmpeg"]);
        world.submit(vec![matched(1, &["ffmpeg", "gpu"], matching)]);
        assert!(matches!(wait(&world, 1), WaitReason::MissingCapability { .. }));
        join(&mut world, 2, 4, &["ffmpeg", "gpu=1"]);
        assert_eq!(world.grants(), [(2, 1)]);
    }
}

#[test]
fn with_fallback_the_nearest_worker_takes_it_while_nobody_has_it_all() {
    let mut world = World::new();
    world.submit(vec![matched(1, &["ffmpeg", "gpu"], Matching::Fallback)]);
    join(&mut world, 1, 1, &[]);
    assert_eq!(world.grants(), [(1, 1)], "one that lacks everything is the nearest of one");
    join(&mut world, 2, 1, &["ffmpeg"]);
    world.submit((2..=3).map(|n| matched(n, &["ffmpeg", "gpu"], Matching::Fallback)).collect());
    assert_eq!(world.grants(), [(2, 2)]);
    assert!(matches!(wait(&world, 3), WaitReason::WorkersBusy { workers: 1, .. }));
    world.end(1, 1, finished());
    assert_eq!(world.grants(), [], "a nearer worker is connected, though busy");
    join(&mut world, 3, 1, &["ffmpeg", "gpu=1"]);
    assert_eq!(world.grants(), [(3, 3)]);
    world.submit(vec![matched(4, &["ffmpeg", "gpu"], Matching::Fallback)]);
    world.end(2, 2, finished());
    assert_eq!(world.grants(), [], "someone has it all, though busy");
}

#[test]
fn fallback_begins_again_when_the_last_worker_that_has_it_all_goes_or_drains() {
    for drains in [false, true] {
        let mut world = World::new();
        join(&mut world, 1, 1, &["gpu=1"]);
        join(&mut world, 2, 1, &["ffmpeg"]);
        world.submit((1..=2).map(|n| matched(n, &["gpu"], Matching::Fallback)).collect());
        assert_eq!((world.grants(), world.state(2)), (vec![(1, 1)], Some(TaskState::Ready)));
        if drains {
            world.feed(Input::WorkerDraining { worker: WorkerKey(1) });
            assert_eq!(world.grants(), [(2, 2)]);
        } else {
            world.leave(1);
            assert_eq!(world.grants(), [(2, 1)], "what it lost comes first");
        }
    }
}

#[test]
fn a_group_of_draining_workers_counts_again_when_one_of_its_kind_joins() {
    let mut world = World::new();
    join(&mut world, 1, 1, &["gpu=1"]);
    join(&mut world, 2, 2, &[]);
    world.submit(vec![matched(1, &["gpu"], Matching::Fallback)]);
    world.feed(Input::WorkerDraining { worker: WorkerKey(1) });
    world.submit(vec![matched(2, &["gpu"], Matching::Fallback)]);
    assert_eq!(world.grants(), [(2, 2)]);
    join(&mut world, 3, 1, &["gpu=1"]);
    world.submit((3..=4).map(|n| matched(n, &["gpu"], Matching::Fallback)).collect());
    assert_eq!(world.grants(), [(3, 3)]);
    assert_eq!(world.state(4), Some(TaskState::Ready));
}

#[test]
fn high_priorities_never_fall_back_and_do_not_keep_lower_ones_from_it() {
    let mut world = World::new();
    join(&mut world, 1, 9, &[]);
    let tasks = (1..=5).map(|priority| {
        let mut task = matched(u64::from(priority), &["gpu"], Matching::Fallback);
        task.priority = priority;
        task
    });
    world.submit(tasks.collect());
    let mut granted: Vec<u64> = world.grants().iter().map(|(_, seq)| *seq).collect();
    granted.sort_unstable();
    assert_eq!(granted, [1, 2, 3]);
    assert!(matches!(wait(&world, 5), WaitReason::MissingCapability { .. }));
    world.set(|settings| settings.load_balancing.priority.high_priority_threshold = 5);
    assert_eq!(world.grants(), [(1, 4)]);
}

#[test]
fn the_settings_decide_for_tasks_that_do_not_say() {
    let mut world = World::new();
    join(&mut world, 1, 9, &[]);
    world.submit(vec![needing(1, &["gpu"]), matched(2, &["gpu"], Matching::Exact)]);
    assert_eq!(world.grants(), []);
    let fallback = |matching| {
        move |settings: &mut divvy_types::Settings| {
            settings.load_balancing.capabilities.matching_strategy = matching;
        }
    };
    world.set(fallback(Matching::Fallback));
    assert_eq!(world.grants(), [(1, 1)]);
    world.set(fallback(Matching::BestFit));
    world.submit(vec![needing(3, &["gpu"])]);
    assert_eq!(world.grants(), []);
}

#[test]
fn a_worker_that_does_not_serve_the_kind_or_the_queue_is_never_the_nearest() {
    let mut world = World::new();
    world.join_with(1, 9, |worker| worker.kinds = vec!["other".into()]);
    world.join_with(2, 9, |worker| worker.queues = vec!["mail".into()]);
    world.submit(vec![matched(1, &["gpu"], Matching::Fallback)]);
    assert_eq!(world.grants(), []);
    assert!(matches!(wait(&world, 1), WaitReason::NoWorker { .. }));
}
