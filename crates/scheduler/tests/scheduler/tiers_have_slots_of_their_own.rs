//! A worker whose kinds have slots of their own: tasks of one tier neither fill nor charge another.

use crate::support::*;
use divvy_scheduler::{Action, Input, Options};
use divvy_types::{Fact, Name, Seq, TaskSpec, TaskState, WorkerHello, WorkerKey, WorkerTier};

fn tier(kind: &str, credit: u32, slots: u32) -> WorkerTier {
    WorkerTier { kinds: vec![Name::from(kind)], credit, slots }
}

/// A worker that runs many small tasks and one large one at once.
fn join(world: &mut World, key: u64) {
    join_as(world, key, |_| {});
}

fn join_as(world: &mut World, key: u64, change: impl FnOnce(&mut WorkerHello<Seq>)) {
    world.join_with(key, 66, |worker| {
        worker.kinds = vec!["encode".into(), "noop".into()];
        worker.slots = 65;
        worker.tiers = vec![tier("noop", 64, 64), tier("encode", 2, 1)];
        change(worker);
    });
}

fn encode(number: u64) -> TaskSpec {
    TaskSpec { kind: "encode".into(), ..spec(number) }
}

#[test]
fn one_full_tier_does_not_keep_tasks_from_another() {
    let mut world = World::new();
    join(&mut world, 1);
    world.submit((1..=9).map(encode).collect());
    assert_eq!(world.grants(), [(1, 1), (1, 2)], "no more than the tier takes");
    world.submit((10..=12).map(spec).collect());
    assert_eq!(world.grants(), [(1, 10), (1, 11), (1, 12)]);
    world.end(1, 10, finished());
    assert_eq!(world.grants(), [], "a place of the other tier is no place for it");
    world.end(1, 1, finished());
    assert_eq!(world.grants(), [(1, 3)]);
}

#[test]
fn who_comes_later_gets_what_others_have_no_slot_for() {
    let mut world = World::new();
    join(&mut world, 1);
    world.submit((1..=9).map(encode).collect());
    join(&mut world, 2);
    assert_eq!(world.grants(), [(2, 3), (2, 4)]);
}

#[test]
fn a_lost_worker_charges_only_what_ran_in_a_slot() {
    let mut world = World::new();
    join(&mut world, 1);
    world.submit(vec![encode(1), encode(2), spec(3)]);
    world.leave(1);
    let charged: Vec<u64> = world.facts().iter().filter_map(|fact| lost(fact)).collect();
    assert_eq!(charged.len(), 2, "{charged:?}");
    assert!(charged.contains(&1) && charged.contains(&3));
    assert_eq!(world.state(2), Some(TaskState::Ready), "it waited there, and waits here now");
    assert_eq!(world.scheduler.worker_count(), 0);
}

fn lost(fact: &Fact) -> Option<u64> {
    match fact {
        Fact::AttemptFailed { seq, .. } => Some(seq.0),
        _ => None,
    }
}

#[test]
fn a_silent_worker_is_given_up_once_with_all_that_it_holds() {
    let mut world = World::with(Options { lease_ms: 1_000, ..Options::default() });
    join(&mut world, 1);
    world.submit(vec![encode(1), spec(2)]);
    world.pass_ms(900);
    world.feed(Input::WorkerSeen { worker: WorkerKey(1) });
    world.pass_ms(900);
    assert!(world.facts().is_empty(), "one sign of life is for all of it");
    world.pass_ms(200);
    let drops = world.actions.iter().filter(|action| matches!(action, Action::DropWorker { .. }));
    assert_eq!(drops.count(), 1);
    assert_eq!(world.facts().iter().filter_map(|fact| lost(fact)).count(), 2);
}

#[test]
fn what_runs_on_goes_back_to_its_tier() {
    let mut world = World::new();
    join(&mut world, 1);
    world.submit(vec![encode(1), encode(2)]);
    let held = [1, 2].map(|seq| (seq, world.scheduler.lease_token(Seq(seq)).unwrap()));
    // The same process on a new connection.
    join_as(&mut world, 2, |worker| {
        worker.name = "worker-1".into();
        worker.held = held.map(|(seq, token)| (Seq(seq), token)).to_vec();
    });
    assert_eq!(world.stops(), []);
    let queues: Vec<u32> = world.worker(2).tiers.iter().map(|tier| tier.leased).collect();
    assert_eq!(queues, [0, 2]);
    world.leave(1);
    world.submit(vec![encode(3)]);
    assert_eq!(world.grants(), [], "its tier is full");
    world.end(2, 1, finished());
    assert_eq!(world.grants(), [(2, 3)]);
}

#[test]
fn a_waiting_task_is_stolen_for_the_right_tier() {
    let mut world = World::new();
    world.set(|settings| {
        settings.load_balancing.thresholds.busy_threshold = 1;
        settings.load_balancing.thresholds.idle_threshold = 1;
    });
    world.join_with(1, 20, |worker| {
        worker.kinds = vec!["encode".into()];
        worker.slots = 1;
    });
    world.submit((1..=6).map(encode).collect());
    join(&mut world, 2);
    assert_eq!(world.recalls().len(), 2, "as many as its tier takes: {:?}", world.recalls());
    let stolen = world.recalls()[0].1;
    world.end(1, stolen, released());
    assert_eq!(world.grants(), [(2, stolen)]);
    assert_eq!(world.worker(2).tiers[1].leased, 1);
}

#[test]
fn people_see_one_worker_with_its_tiers() {
    let mut world = World::new();
    join(&mut world, 1);
    world.submit(vec![encode(1), encode(2), spec(3)]);
    world.end(1, 3, finished());
    assert_eq!(world.scheduler.worker_count(), 1);
    let worker = world.worker(1);
    assert_eq!(worker.kinds, ["encode", "noop"].map(Name::from));
    assert_eq!((worker.credit, worker.slots, worker.leased), (66, 65, 2));
    assert_eq!((worker.queue_length, worker.finished), (1, 1));
    let tiers: Vec<_> = worker.tiers.iter().map(|t| (t.slots, t.leased, t.queue_length)).collect();
    assert_eq!(tiers, [(64, 0, 0), (1, 2, 1)]);
    let loads = world.scheduler.worker_loads();
    assert_eq!((loads.len(), loads[0].slots, loads[0].queue_length), (1, 65, 1));
    let metrics = world.scheduler.load_metrics();
    assert_eq!((metrics.agent_count, metrics.busy_agents + metrics.idle_agents), (1, 1));
    let explained = world.scheduler.explain(world.now, Seq(1)).unwrap();
    assert_eq!(explained.candidates.len(), 1);
    assert!(explained.candidates[0].serves);
}
