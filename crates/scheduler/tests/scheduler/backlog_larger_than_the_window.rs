//! A backlog that does not fit: it waits in the store, comes back in order, and shuts out no one.

use std::collections::BTreeMap;

use crate::support::*;
use divvy_scheduler::{Action, Input, Options, RecoveredTask};
use divvy_types::{Fact, Lane, Seq, TaskSpec, TaskState, WaitReason};

/// A world with a store for the spill. Loads are answered when the test says so.
struct Spilling {
    world: World,
    stored: BTreeMap<Lane, BTreeMap<Seq, TaskSpec>>,
    loads: Vec<(Lane, Option<Seq>, usize)>,
    granted: Vec<u64>,
    most_ready: u64,
}

impl Spilling {
    fn new() -> Self {
        let options = Options {
            window_tasks: 20,
            lane_load_rows: 8,
            lane_floor_rows: 4,
            ..Options::default()
        };
        Self {
            world: World::with(options),
            stored: BTreeMap::new(),
            loads: Vec::new(),
            granted: Vec::new(),
            most_ready: 0,
        }
    }

    /// Carries out what the last input led to.
    fn look(&mut self) {
        for action in &self.world.actions {
            match action {
                Action::Record(Fact::Submitted { seq, spec, spilled: Some(lane), .. }) => {
                    self.stored.entry(*lane).or_default().insert(*seq, (**spec).clone());
                }
                Action::Record(Fact::Unspilled { lane, upto }) => {
                    self.stored
                        .get_mut(lane)
                        .expect("a lane with tasks")
                        .retain(|seq, _| seq > upto);
                }
                Action::Record(Fact::Cancelled { seq, spilled: Some(lane), .. }) => {
                    self.stored.get_mut(lane).expect("a lane with tasks").remove(seq);
                }
                Action::LoadSpilled { lane, after, rows } => {
                    self.loads.push((*lane, *after, *rows))
                }
                Action::Grant(grant) => self.granted.push(grant.seq.0),
                _ => {}
            }
        }
        self.most_ready = self.most_ready.max(self.world.scheduler.counts().ready);
    }

    fn feed(&mut self, input: Input) {
        self.world.feed(input);
        self.look();
    }

    fn submit(&mut self, specs: Vec<TaskSpec>) {
        self.world.submit(specs);
        self.look();
    }

    fn read(&self, (lane, after, rows): (Lane, Option<Seq>, usize)) -> (Vec<RecoveredTask>, bool) {
        let stored = &self.stored[&lane];
        let behind: Vec<&TaskSpec> = stored
            .iter()
            .filter(|(seq, _)| after.is_none_or(|after| **seq > after))
            .map(|(_, spec)| spec)
            .collect();
        (
            behind.iter().take(rows).map(|spec| recovered((*spec).clone())).collect(),
            behind.len() <= rows,
        )
    }

    fn answer_loads(&mut self) {
        while let Some(load) = self.loads.pop() {
            let (tasks, exhausted) = self.read(load);
            self.feed(Input::SpilledLoaded { lane: load.0, tasks, exhausted });
        }
    }

    fn run_all(&mut self, worker: u64) {
        let mut at = 0;
        loop {
            self.answer_loads();
            let Some(number) = self.granted.get(at).copied() else { return };
            at += 1;
            self.world.end(worker, number, finished());
            self.look();
        }
    }
}

#[test]
fn all_of_it_runs_once_in_order_within_the_window() {
    let mut spilling = Spilling::new();
    spilling.submit((1..=500).map(spec).collect());
    assert_eq!(spilling.world.scheduler.counts().ready, 20);
    assert_eq!(spilling.world.scheduler.counts().spilled, 480);
    let queue = &spilling.world.scheduler.queues(spilling.world.now)[0];
    assert_eq!((queue.ready, &queue.ready_by_priority), (500, &vec![0, 0, 500, 0, 0]));
    let wait = spilling.world.scheduler.wait_reason_for_spilled(&spec(400));
    assert!(matches!(wait, WaitReason::NoWorker { .. }));
    spilling.world.join(1, 3);
    spilling.look();
    spilling.run_all(1);
    assert_eq!(spilling.granted, (1..=500).collect::<Vec<u64>>());
    assert!(spilling.world.scheduler.is_idle());
    assert_eq!(spilling.world.scheduler.counts(), Default::default());
    assert!(spilling.most_ready <= 20, "{} tasks were in memory", spilling.most_ready);
    // The next one finds room and does not take the way over the store.
    spilling.submit(vec![spec(501)]);
    assert_eq!(spilling.granted.last(), Some(&501));
}

#[test]
fn tasks_that_spill_while_a_load_is_under_way_are_not_forgotten() {
    let mut spilling = Spilling::new();
    spilling.submit((1..=24).map(spec).collect());
    spilling.world.join(1, 18);
    spilling.look();
    let load = spilling.loads.pop().expect("the lane runs low");
    let (tasks, exhausted) = spilling.read(load);
    assert!(exhausted);
    spilling.submit((25..=30).map(spec).collect());
    assert_eq!(spilling.world.scheduler.counts().spilled, 10);
    spilling.feed(Input::SpilledLoaded { lane: load.0, tasks, exhausted });
    assert_eq!(spilling.world.scheduler.counts().spilled, 6);
    spilling.run_all(1);
    assert_eq!(spilling.granted, (1..=30).collect::<Vec<u64>>());
    assert!(spilling.world.scheduler.is_idle());
}

#[test]
fn a_backlog_that_nobody_serves_does_not_shut_out_others() {
    let mut spilling = Spilling::new();
    let other = |number| {
        let mut task = spec(number);
        task.kind = "other".into();
        task
    };
    spilling.submit((1..=100).map(other).collect());
    spilling.submit((101..=150).map(spec).collect());
    spilling.world.join(1, 2);
    spilling.look();
    spilling.run_all(1);
    assert_eq!(spilling.granted, (101..=150).collect::<Vec<u64>>());
    assert_eq!(
        spilling.world.scheduler.counts().ready + spilling.world.scheduler.counts().spilled,
        100
    );
}

#[test]
fn a_paused_queue_loads_nothing_and_a_recovered_lane_loads_when_work_begins() {
    let mut spilling = Spilling::new();
    spilling.world =
        World::recovering(Options { window_tasks: 20, lane_load_rows: 8, ..Options::default() });
    let lane = Lane::of(&spec(1));
    spilling.stored.insert(lane, (1..=30).map(|number| (Seq(number), spec(number))).collect());
    spilling.feed(Input::QueuePaused { queue: "default".into(), paused: true });
    spilling.feed(Input::LaneRecovered { lane, count: 30, sample: spec(1).into() });
    spilling.feed(Input::RecoveryEnded);
    assert_eq!((spilling.loads.len(), spilling.world.scheduler.counts().spilled), (0, 30));
    spilling.feed(Input::QueuePaused { queue: "default".into(), paused: false });
    assert_eq!(spilling.loads.len(), 1);
    spilling.world.join(1, 4);
    spilling.look();
    spilling.run_all(1);
    assert_eq!(spilling.granted, (1..=30).collect::<Vec<u64>>());
}

#[test]
fn a_task_in_the_store_blocks_its_dependents_and_its_cancel_reaches_them() {
    let mut spilling = Spilling::new();
    spilling.submit((1..=40).map(spec).collect());
    spilling.submit(vec![after(spec(50), &[(39, false)]), after(spec(51), &[(40, false)])]);
    assert_eq!(spilling.world.state(50), Some(TaskState::Blocked));
    let lane = Lane::of(&spec(40));
    let cancel = |number: u64| Input::SpilledCancelled {
        seq: Seq(number),
        task: spec(number).id,
        lane,
        member: None,
        reason: "asked".into(),
    };
    spilling.feed(cancel(40));
    assert_eq!(spilling.world.fact_names(), ["Cancelled 40", "Cancelled 51"]);
    assert_eq!(spilling.world.scheduler.counts().spilled, 19);
    // One that is cancelled while it is being read must not run.
    spilling.world.join(1, 18);
    spilling.look();
    let load = spilling.loads.pop().expect("the lane runs low");
    let (tasks, exhausted) = spilling.read(load);
    assert!(tasks.iter().any(|task| task.open.seq == Seq(22)));
    spilling.feed(cancel(22));
    spilling.feed(Input::SpilledLoaded { lane, tasks, exhausted });
    spilling.run_all(1);
    let expected: Vec<u64> = (1..=39).filter(|number| *number != 22).chain([50]).collect();
    assert_eq!(spilling.granted, expected);
    assert!(spilling.world.scheduler.is_idle());
    assert_eq!(spilling.world.scheduler.counts(), Default::default());
}
