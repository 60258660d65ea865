//! Tasks that were given to a worker and not begun move to others: by theft, by push, ahead of time.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::*;
use divvy_scheduler::{Action, Input};
use divvy_types::pulse::StolenBy;
use divvy_types::settings::Strategy as Way;
use divvy_types::{Fact, Machine, Name, Payload, Seq, TaskState, WorkerKey};
use proptest::prelude::*;

/// A worker with one slot and a place for nineteen tasks that wait for it, and twelve tasks on it.
fn hot_spot(change: impl FnOnce(&mut divvy_types::Settings)) -> World {
    let mut world = World::new();
    world.set(change);
    world.join_with(1, 20, |worker| worker.slots = 1);
    world.submit((1..=12).map(spec).collect());
    assert_eq!(world.grants().len(), 12);
    world
}

fn join_idle(world: &mut World, key: u64) {
    world.join_with(key, 4, |worker| worker.slots = 2);
}

/// Who has a task of whom, of moves with greater numbers.
fn moved(world: &World, after: u64) -> Vec<(&str, &str, StolenBy)> {
    let stolen = world.scheduler.stolen_after(after);
    stolen.map(|one| (one.from.as_str(), one.to.as_str(), one.by)).collect()
}

#[test]
fn an_idle_worker_asks_back_the_last_tasks_of_the_busiest_and_gets_them() {
    let mut world = hot_spot(|_| {});
    assert_eq!(world.worker(1).queue_length, 11);
    join_idle(&mut world, 2);
    assert_eq!(world.recalls(), [(1, 12, false), (1, 11, false), (1, 10, false)]);
    world.end(1, 12, released());
    assert_eq!(world.grants(), [(2, 12)]);
    world.end(1, 10, released());
    assert_eq!(world.grants(), [(2, 10)]);
    world.end(1, 11, finished());
    let metrics = world.scheduler.load_metrics();
    let counts = (metrics.total_steals, metrics.successful_steals, metrics.failed_steals);
    assert_eq!((counts, metrics.tasks_migrated), ((3, 2, 1), 2));
    assert_eq!(moved(&world, 0), [("worker-1", "worker-2", StolenBy::Pull); 2]);
    assert_eq!(moved(&world, 1).len(), 1, "only what is newer is told");
    assert_eq!(moved(&world, 2), []);
    assert!((metrics.success_rate - 2.0 / 3.0).abs() < 1e-9);
}

#[test]
fn a_thief_asks_again_when_it_is_idle_again_but_not_while_answers_are_due() {
    let mut world = hot_spot(|settings| {
        settings.load_balancing.thresholds.busy_threshold = 2;
        settings.load_balancing.thresholds.idle_threshold = 2;
    });
    join_idle(&mut world, 2);
    assert_eq!(world.recalls().len(), 3);
    world.submit(vec![spec(20)]);
    world.end(2, 20, finished());
    assert_eq!(world.recalls(), [], "its questions are open");
    for seq in [12, 11, 10] {
        world.end(1, seq, released());
        assert_eq!(world.grants(), [(2, seq)]);
    }
    world.end(2, 12, finished());
    assert_eq!(world.recalls(), [], "both slots were busy");
    world.end(2, 11, finished());
    assert_eq!(world.recalls(), [(1, 9, false), (1, 8, false), (1, 7, false)]);
}

#[test]
fn a_refused_theft_is_followed_by_another() {
    let mut world = hot_spot(|_| {});
    join_idle(&mut world, 2);
    for seq in [12, 11, 10] {
        world.end(1, seq, finished());
    }
    assert!(!world.recalls().is_empty(), "the last refusal frees the thief to ask again");
    assert!(world.recalls().iter().all(|(_, seq, _)| *seq < 10));
}

#[test]
fn the_oldest_go_first_if_recent_ones_are_not_preferred_and_the_limit_holds() {
    let mut world = hot_spot(|settings| {
        settings.load_balancing.work_stealing.prefer_recent_tasks = false;
        settings.load_balancing.work_stealing.max_steal_per_cycle = 2;
    });
    join_idle(&mut world, 2);
    assert_eq!(world.recalls(), [(1, 2, false), (1, 3, false)], "the first one runs");
}

#[test]
fn queues_up_to_the_busy_threshold_are_left_alone() {
    let mut world = World::new();
    world.join_with(1, 20, |worker| worker.slots = 1);
    world.submit((1..=6).map(spec).collect());
    join_idle(&mut world, 2);
    assert_eq!((world.worker(1).queue_length, world.recalls()), (5, vec![]));
    assert_eq!(world.scheduler.load_metrics().busy_agents, 0);
}

#[test]
fn high_priorities_and_tasks_that_the_thief_may_not_run_stay() {
    for preserved in [true, false] {
        let mut world = World::new();
        world.set(|settings| {
            settings.load_balancing.priority.preserve_high_priority = preserved;
            settings.load_balancing.work_stealing.max_steal_per_cycle = 20;
        });
        world.join_with(1, 30, |worker| {
            worker.slots = 1;
            worker.kinds = vec!["noop".into(), "rare".into()];
        });
        let tasks = (1..=20).map(|number| {
            let mut task = spec(number);
            task.priority = if number % 2 == 0 { 4 } else { 3 };
            task.kind = if number > 10 { "rare".into() } else { "noop".into() };
            task
        });
        world.submit(tasks.collect());
        world.join_with(2, 30, |worker| worker.slots = 1);
        let mut asked: Vec<u64> = world.recalls().iter().map(|(_, seq, _)| *seq).collect();
        asked.sort_unstable();
        assert!(!asked.is_empty());
        assert!(asked.iter().all(|seq| *seq <= 10), "{asked:?}");
        assert_eq!(asked.iter().any(|seq| seq % 2 == 0), !preserved, "{asked:?}");
    }
}

#[test]
fn what_has_begun_moves_only_if_that_is_allowed_and_costs_little() {
    for allowed in [false, true] {
        let mut world = World::new();
        world.set(|settings| {
            settings.load_balancing.thresholds.busy_threshold = 0;
            settings.load_balancing.thresholds.idle_threshold = 0;
            settings.load_balancing.work_stealing.allow_task_migration = allowed;
            settings.load_balancing.work_stealing.max_steal_per_cycle = 9;
        });
        world.join_with(1, 8, |worker| worker.slots = 3);
        world.submit(vec![spec(1), spec(2)]);
        world.now = world.now.plus_ms(5_000);
        world.feed(Input::WorkerSeen { worker: WorkerKey(1) });
        let token = world.scheduler.lease_token(Seq(2)).unwrap();
        let (worker, data) = (WorkerKey(1), Payload::null());
        world.feed(Input::CheckpointSaved { worker, seq: Seq(2), token, data });
        world.submit((3..=8).map(spec).collect());
        world.join_with(2, 20, |worker| worker.slots = 9);
        let begun: Vec<u64> =
            world.recalls().iter().filter(|recall| recall.2).map(|recall| recall.1).collect();
        // The first is old and has no checkpoint. At most half of a queue of five goes, queued ones first.
        assert_eq!(world.recalls().len(), 3);
        assert!(begun.is_empty(), "queued ones are enough");
        for seq in [8, 7, 6] {
            world.end(1, seq, released());
        }
        let two: Vec<(u64, u64, bool)> = [5, 4]
            .into_iter()
            .flat_map(|seq| {
                world.end(1, seq, finished());
                world.recalls()
            })
            .collect();
        let begun: BTreeSet<u64> = two.iter().filter(|r| r.2).map(|r| r.1).collect();
        assert!(begun.is_subset(&BTreeSet::from([2, 3])), "{two:?}");
        assert!(allowed || begun.is_empty());
    }
}

#[test]
fn a_begun_task_with_a_checkpoint_moves_when_the_queue_has_nothing_to_give() {
    for (allowed, expected) in [(false, vec![]), (true, vec![(1, 1, true)])] {
        let mut world = World::new();
        world.set(|settings| {
            settings.load_balancing.thresholds.busy_threshold = 1;
            settings.load_balancing.thresholds.idle_threshold = 1;
            settings.load_balancing.work_stealing.allow_task_migration = allowed;
        });
        world.join_with(1, 8, |worker| worker.slots = 1);
        let protected = (2..=5).map(|number| {
            let mut task = spec(number);
            task.priority = 5;
            task
        });
        world.submit(vec![spec(1)]);
        world.submit(protected.collect());
        let token = world.scheduler.lease_token(Seq(1)).unwrap();
        let (worker, data) = (WorkerKey(1), Payload::null());
        world.feed(Input::CheckpointSaved { worker, seq: Seq(1), token, data });
        world.now = world.now.plus_ms(5_000);
        join_idle(&mut world, 2);
        assert_eq!(world.recalls(), expected);
        if allowed {
            world.end(1, 1, released());
            let Some(Action::Grant(grant)) =
                world.actions.iter().find(|action| matches!(action, Action::Grant(_)))
            else {
                panic!("no grant")
            };
            assert_eq!((grant.worker.0, grant.seq.0, grant.attempt), (2, 1, 1));
            assert!(grant.checkpointed);
        }
    }
}

#[test]
fn without_a_strategy_tasks_stay_and_push_alone_does_not_pull() {
    for (way, steals) in
        [(Way::None, false), (Way::Push, false), (Way::Pull, true), (Way::Hybrid, true)]
    {
        let mut world = hot_spot(|settings| settings.load_balancing.strategy = way);
        join_idle(&mut world, 2);
        assert_eq!(!world.recalls().is_empty(), steals, "{way:?}");
    }
}

#[test]
fn a_severe_imbalance_is_pushed_at_the_end_of_the_interval_and_not_before() {
    let mut world = hot_spot(|settings| settings.load_balancing.strategy = Way::Push);
    join_idle(&mut world, 2);
    join_idle(&mut world, 3);
    for worker in [1, 2, 3].map(WorkerKey) {
        world.feed(Input::WorkerSeen { worker });
    }
    world.pass_ms(29_000);
    assert_eq!(world.recalls(), []);
    world.feed(Input::WorkerSeen { worker: WorkerKey(1) });
    let planned = world.scheduler.plan_rebalance(world.now);
    assert_eq!(planned.len(), 3);
    assert!(planned.iter().all(|planned| planned.from == "worker-1"));
    assert_eq!(planned[0].to, "worker-2");
    world.pass_ms(1_000);
    assert_eq!(world.recalls(), [(1, 12, false), (1, 11, false), (1, 10, false)]);
    for seq in [12, 11, 10] {
        world.end(1, seq, released());
    }
    let metrics = world.scheduler.load_metrics();
    assert_eq!((metrics.rebalance_cycles, metrics.tasks_migrated), (1, 3));
    assert!(moved(&world, 0).iter().all(|(_, _, by)| *by == StolenBy::Push));
    let holders: BTreeSet<String> = [10, 11, 12].map(|seq| world.holder(seq).unwrap()).into();
    assert_eq!(holders, BTreeSet::from(["worker-2".to_owned(), "worker-3".to_owned()]));
}

#[test]
fn below_the_ratio_nothing_is_pushed_unless_it_is_severe() {
    for (ratio, pushed) in [(12.0, false), (10.0, true)] {
        let mut world = hot_spot(|settings| {
            settings.load_balancing.strategy = Way::Push;
            settings.load_balancing.thresholds.severe_imbalance_ratio = ratio;
        });
        join_idle(&mut world, 2);
        world.feed(Input::RebalanceRequested);
        assert_eq!(!world.recalls().is_empty(), pushed, "{ratio}");
    }
}

#[test]
fn a_request_rebalances_even_if_the_strategy_does_not() {
    let mut world = hot_spot(|settings| settings.load_balancing.strategy = Way::None);
    join_idle(&mut world, 2);
    world.feed(Input::RebalanceRequested);
    assert_eq!(world.recalls().len(), 3);
}

#[test]
fn ahead_of_time_long_tasks_leave_a_worker_that_is_slow_at_them() {
    for predictive in [false, true] {
        let mut world = World::new();
        world.set(|settings| {
            settings.load_balancing.strategy = Way::Push;
            settings.load_balancing.work_stealing.predictive = predictive;
            settings.load_balancing.work_stealing.max_steal_per_cycle = 10;
        });
        for (key, kinds) in [(1, ["long", "x"]), (2, ["short", "long"])] {
            world.join_with(key, 12, |worker| {
                worker.slots = 1;
                worker.kinds = kinds.map(Name::from).into();
            });
        }
        // Both learn how long things take: a second and a half, and a hundredth of one.
        for number in 1..=6 {
            let mut task = spec(number);
            (task.kind, task.queue) = ("long".into(), "default".into());
            world.submit(vec![task]);
            let (worker, _) = world.grants()[0];
            world.now = world.now.plus_ms(1_500);
            world.feed(Input::WorkerSeen { worker: WorkerKey(worker) });
            world.end(worker, number, finished());
        }
        let kind = |number: u64, kind: &str| {
            let mut task = spec(number);
            task.kind = kind.into();
            task
        };
        // Four on each, evenly by number: but the tasks of the second worker are done in no time.
        for number in 10..13 {
            world.submit(vec![kind(number, "short")]);
            world.now = world.now.plus_ms(10);
            world.end(2, number, finished());
        }
        world.submit((20..25).map(|number| kind(number, "short")).collect());
        world.submit((30..34).map(|number| kind(number, "long")).collect());
        let on_first = (30..34).filter(|seq| world.holder(*seq).unwrap() == "worker-1").count();
        assert!(on_first >= 3, "the first worker has most of the long ones");
        let planned = world.scheduler.plan_rebalance(world.now);
        assert_eq!(!planned.is_empty(), predictive, "{planned:?}");
        for planned in planned {
            assert_eq!((planned.kind.as_str(), planned.to.as_str()), ("long", "worker-2"));
        }
    }
}

#[test]
fn nothing_looks_at_the_load_while_no_queue_is_long() {
    let mut world = hot_spot(|_| {});
    assert!(world.scheduler.next_deadline().is_some());
    for seq in 1..=12 {
        world.end(1, seq, finished());
    }
    // Once each for the look at the load and at the lines, for leases and for what is held; none of them again.
    let mut wakes = 0;
    while let Some(at) = world.scheduler.next_deadline() {
        wakes += 1;
        world.now = world.now.max(at);
        assert!(world.feed(Input::TimePassed).is_empty());
    }
    assert!(wakes <= 4, "an idle scheduler wanted to be woken {wakes} times");
}

#[test]
fn what_a_lost_worker_had_not_begun_is_given_back_uncounted_and_in_order() {
    let mut world = hot_spot(|_| {});
    let mut cancelled = spec(13);
    cancelled.priority = 1;
    world.submit(vec![cancelled]);
    world.feed(Input::CancelRequested { seq: Seq(13), reason: "asked".into() });
    world.leave(1);
    let facts = world.facts();
    let failed = facts.iter().filter(|fact| matches!(fact, Fact::AttemptFailed { .. }));
    assert_eq!(failed.count(), 1, "one had begun");
    assert_eq!(world.cancel_reason(13), Some("asked".to_owned()));
    world.join(2, 20);
    let expected: Vec<(u64, u64)> = (1..=12).map(|seq| (2, seq)).collect();
    assert_eq!(world.grants(), expected);
    for action in &world.actions {
        if let Action::Grant(grant) = action {
            assert_eq!(grant.attempt, if grant.seq == Seq(1) { 2 } else { 1 });
        }
    }
}

#[test]
fn a_thief_that_leaves_or_a_victim_that_leaves_loses_nothing() {
    for gone in [1, 2] {
        let mut world = hot_spot(|_| {});
        join_idle(&mut world, 2);
        let asked = world.recalls();
        assert_eq!(asked.len(), 3);
        world.leave(gone);
        if gone == 2 {
            for (_, seq, _) in asked {
                world.end(1, seq, released());
            }
        }
        join_idle(&mut world, 3);
        let metrics = world.scheduler.load_metrics();
        assert!(metrics.successful_steals + metrics.failed_steals >= 3, "{metrics:?}");
        let counts = world.scheduler.counts();
        assert_eq!(counts.ready + counts.leased, 12);
    }
}

/// A cluster with every worker's own idea of what has begun.
#[derive(Clone, Debug)]
enum Event {
    Submit {
        count: u64,
        kind: u8,
        priority: u8,
    },
    /// A worker ends the attempt at this place among those that it holds.
    End {
        worker: usize,
        place: usize,
    },
    /// It answers the oldest question to it.
    Answer {
        worker: usize,
        give: bool,
    },
    Leave(usize),
    Join {
        kinds: u8,
        credit: u32,
        slots: u32,
    },
    Pass(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1u64..12, 0u8..2, 1u8..=5)
            .prop_map(|(count, kind, priority)| Event::Submit { count, kind, priority }),
        6 => (any::<usize>(), any::<usize>()).prop_map(|(worker, place)| Event::End { worker, place }),
        6 => (any::<usize>(), any::<bool>()).prop_map(|(worker, give)| Event::Answer { worker, give }),
        1 => any::<usize>().prop_map(Event::Leave),
        3 => (1u8..4, 1u32..16, 1u32..4)
            .prop_map(|(kinds, credit, slots)| Event::Join { kinds, credit, slots }),
        2 => (1u64..5_000).prop_map(Event::Pass),
    ]
}

struct Cluster {
    world: World,
    submitted: u64,
    finished: BTreeSet<u64>,
    kinds: BTreeMap<u64, BTreeSet<Name>>,
    held: BTreeMap<u64, BTreeSet<u64>>,
    asked: Vec<(u64, u64)>,
    last_key: u64,
    thefts: u64,
}

impl Cluster {
    fn new(begun_too: bool, predictive: bool) -> Self {
        let mut world = World::new();
        world.set(|settings| {
            settings.poison_after.0 = 1_000;
            let balancing = &mut settings.load_balancing;
            balancing.thresholds.busy_threshold = 1;
            balancing.thresholds.idle_threshold = 1;
            balancing.thresholds.severe_imbalance_ratio = 1.5;
            balancing.thresholds.rebalance_interval_sec = 1.0;
            balancing.work_stealing.allow_task_migration = begun_too;
            balancing.work_stealing.predictive = predictive;
        });
        Self {
            world,
            submitted: 0,
            finished: BTreeSet::new(),
            kinds: BTreeMap::new(),
            held: BTreeMap::new(),
            asked: Vec::new(),
            last_key: 0,
            thefts: 0,
        }
    }

    fn spec_of(&self, seq: u64) -> (Name, u8) {
        let spec = self.world.scheduler.spec(Seq(seq)).expect("an open task");
        (spec.kind.clone(), spec.priority)
    }

    /// Takes in what the scheduler wants done.
    fn note(&mut self) {
        for (worker, seq) in self.world.grants() {
            let (kind, _) = self.spec_of(seq);
            assert!(self.kinds[&worker].contains(&kind), "a worker got what it cannot run");
            assert!(self.held.values().all(|held| !held.contains(&seq)), "a task is held twice");
            self.held.entry(worker).or_default().insert(seq);
        }
        for (worker, seq, _) in self.world.recalls() {
            assert!(self.held[&worker].contains(&seq), "it is asked for what it does not hold");
            assert!(self.spec_of(seq).1 < 4, "a protected task is stolen");
            let (kind, _) = self.spec_of(seq);
            let able =
                self.kinds.iter().any(|(key, kinds)| *key != worker && kinds.contains(&kind));
            assert!(able, "nobody else could run it");
            self.asked.push((worker, seq));
            self.thefts += 1;
        }
    }

    fn worker(&self, which: usize) -> Option<u64> {
        let keys: Vec<u64> = self.kinds.keys().copied().collect();
        (!keys.is_empty()).then(|| keys[which % keys.len()])
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Submit { count, kind, priority } => {
                let first = self.submitted + 1;
                self.submitted += count;
                let tasks = (first..=self.submitted).map(|number| {
                    let mut task = spec(number);
                    task.kind = Name::from(format!("kind-{kind}"));
                    task.priority = priority;
                    task.retry.limit = 1_000;
                    task
                });
                self.world.submit(tasks.collect());
            }
            Event::End { worker, place } => {
                let Some(worker) = self.worker(worker) else { return };
                let held: Vec<u64> = self.held[&worker].iter().copied().collect();
                let Some(seq) = held.get(place % held.len().max(1)).copied() else { return };
                self.held.get_mut(&worker).expect("a connected worker").remove(&seq);
                assert!(self.finished.insert(seq), "a task finished twice");
                self.world.end(worker, seq, finished());
            }
            Event::Answer { worker, give } => {
                let Some(worker) = self.worker(worker) else { return };
                let Some(at) = self.asked.iter().position(|(of, _)| *of == worker) else { return };
                let (_, seq) = self.asked.remove(at);
                if !give || !self.held[&worker].contains(&seq) {
                    return;
                }
                self.held.get_mut(&worker).expect("a connected worker").remove(&seq);
                self.world.end(worker, seq, released());
            }
            Event::Leave(which) => {
                let Some(worker) = self.worker(which) else { return };
                self.kinds.remove(&worker);
                self.held.remove(&worker);
                self.asked.retain(|(of, _)| *of != worker);
                self.world.leave(worker);
            }
            Event::Join { kinds, credit, slots } => {
                self.last_key += 1;
                let kinds: Vec<Name> = (0..2)
                    .filter(|kind| kinds >> kind & 1 == 1)
                    .map(|kind| Name::from(format!("kind-{kind}")))
                    .collect();
                self.kinds.insert(self.last_key, kinds.iter().cloned().collect());
                self.held.insert(self.last_key, BTreeSet::new());
                self.world.join_with(self.last_key, credit, |worker| {
                    worker.kinds = kinds;
                    worker.slots = slots;
                });
            }
            Event::Pass(ms) => {
                for key in self.kinds.keys().copied().collect::<Vec<_>>() {
                    self.world.feed(Input::WorkerSeen { worker: WorkerKey(key) });
                }
                self.world.pass_ms(ms);
            }
        }
        self.note();
    }

    fn check(&self) {
        let counts = self.world.scheduler.counts();
        let open = counts.ready + counts.leased;
        assert_eq!(self.submitted, self.finished.len() as u64 + open, "a task got lost");
        let held: usize = self.held.values().map(BTreeSet::len).sum();
        assert_eq!(counts.leased, held as u64);
        let metrics = self.world.scheduler.load_metrics();
        assert_eq!(metrics.total_steals, self.thefts);
        assert!(metrics.tasks_migrated <= metrics.successful_steals);
        assert!(metrics.successful_steals + metrics.failed_steals <= metrics.total_steals);
        for (key, held) in &self.held {
            let worker = self.world.worker(*key);
            assert_eq!(u64::from(worker.leased), held.len() as u64);
            assert_eq!(worker.queue_length, worker.leased.saturating_sub(worker.slots));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn stealing_loses_and_doubles_nothing_and_moves_nothing_protected(
        events in prop::collection::vec(event(), 1..120),
        begun_too in any::<bool>(),
        predictive in any::<bool>(),
    ) {
        let mut cluster = Cluster::new(begun_too, predictive);
        for event in events {
            cluster.step(event);
            cluster.check();
        }
        // Whatever is left is run out by one good worker.
        cluster.step(Event::Join { kinds: 3, credit: 50, slots: 50 });
        for _ in 0..2_000 {
            let Some(worker) = cluster.held.iter().find(|(_, held)| !held.is_empty()) else { break };
            let which = cluster.kinds.keys().position(|key| key == worker.0).unwrap();
            cluster.step(Event::End { worker: which, place: 0 });
            cluster.check();
        }
        prop_assert_eq!(cluster.finished.len() as u64, cluster.submitted);
        let metrics = cluster.world.scheduler.load_metrics();
        prop_assert_eq!(metrics.total_steals, metrics.successful_steals + metrics.failed_steals);
        prop_assert!(cluster.world.scheduler.is_idle());
        prop_assert_eq!(cluster.world.state(1), None::<TaskState>);
    }
}
