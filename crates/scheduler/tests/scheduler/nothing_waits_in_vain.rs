//! Random workers that fail, die, drain and come back, tasks short and long, and thefts. After every step no task may wait
//! that a worker with room for it may run, and none may go back to where it failed while another could run it, but for
//! the half minute in which it waits for others. At the end nothing may stay in line behind what takes long.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::*;
use divvy_scheduler::Input;
use divvy_types::view::WorkerView;
use divvy_types::{FailureVerdict, Machine, Name, Seq, TaskState, Timestamp, WorkerKey};
use proptest::prelude::*;

const KINDS: [&str; 2] = ["noop", "encode"];
const PATIENCE_MS: u64 = 30_000;
const LONG_MS: u64 = 2_000;

#[derive(Clone, Debug)]
enum Event {
    Submit { count: u64, kind: usize },
    Join { name: u64, kinds: usize, credit: u32, slots: u32 },
    Leave(usize),
    Drain(usize),
    Finish(usize),
    Fail { which: usize, wait_ms: u64 },
    Answer(usize),
    Pass(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let wait = prop_oneof![Just(0u64), 1u64..5_000];
    let time = prop_oneof![3 => 1u64..500, 2 => 500u64..5_000, 1 => 5_000u64..40_000];
    prop_oneof![
        4 => (1u64..5, 0..2usize).prop_map(|(count, kind)| Event::Submit { count, kind }),
        3 => (0u64..4, 0..3usize, 1u32..6, 1u32..3)
            .prop_map(|(name, kinds, credit, slots)| Event::Join { name, kinds, credit, slots }),
        1 => any::<usize>().prop_map(Event::Leave),
        1 => any::<usize>().prop_map(Event::Drain),
        4 => any::<usize>().prop_map(Event::Finish),
        6 => (any::<usize>(), wait).prop_map(|(which, wait_ms)| Event::Fail { which, wait_ms }),
        3 => any::<usize>().prop_map(Event::Answer),
        5 => time.prop_map(Event::Pass),
    ]
}

struct Member {
    name: Name,
    kinds: BTreeSet<Name>,
    draining: bool,
}

struct Crowd {
    world: World,
    members: BTreeMap<u64, Member>,
    submitted: u64,
    last_key: u64,
    /// Who holds what.
    held: BTreeMap<u64, u64>,
    /// Where tasks failed, and until when that counts once they are ready.
    failed_on: BTreeMap<u64, (Name, Timestamp)>,
    asked: Vec<(u64, u64)>,
}

impl Crowd {
    fn new() -> Self {
        let mut world = World::new();
        world.set(|settings| {
            settings.poison_after.0 = 1_000;
            // Nobody is quarantined, so that nothing but the rules in question keeps a task.
            settings.load_balancing.capabilities.consider_history = false;
        });
        Self {
            world,
            members: BTreeMap::new(),
            submitted: 0,
            last_key: 0,
            held: BTreeMap::new(),
            failed_on: BTreeMap::new(),
            asked: Vec::new(),
        }
    }

    fn kind_of(&self, seq: u64) -> Name {
        self.world.scheduler.spec(Seq(seq)).expect("an open task").kind.clone()
    }

    /// Whether a task is kept for others than this worker.
    fn is_kept(&self, seq: u64, worker: u64) -> bool {
        let own = &self.members[&worker].name;
        let kind = self.kind_of(seq);
        let mut others = self.members.values();
        let other = others.any(|m| m.name != *own && !m.draining && m.kinds.contains(&kind));
        let failed = self.failed_on.get(&seq);
        other && failed.is_some_and(|(name, until)| name == own && *until > self.world.now)
    }

    fn note(&mut self) {
        for (worker, seq) in self.world.grants() {
            assert!(!self.is_kept(seq, worker), "{seq} went back to {worker}, where it failed");
            assert!(self.held.insert(seq, worker).is_none());
            // Its half minute ended with this step, and with that all that kept it.
            let now = self.world.now;
            if self.failed_on.get(&seq).is_some_and(|(_, until)| *until <= now) {
                self.failed_on.remove(&seq);
            }
        }
        self.asked.extend(self.world.recalls().iter().map(|(worker, seq, _)| (*worker, *seq)));
        self.world.actions.clear();
        // What may go anywhere once may do so until it fails again.
        let now = self.world.now;
        let world = &self.world;
        self.failed_on
            .retain(|seq, (_, until)| *until > now || world.state(*seq) != Some(TaskState::Ready));
    }

    fn failed(&mut self, seq: u64, worker: u64, wait_ms: u64) {
        let until = self.world.now.plus_ms(wait_ms).plus_ms(PATIENCE_MS);
        self.failed_on.insert(seq, (self.members[&worker].name.clone(), until));
    }

    fn member(&self, which: usize) -> Option<u64> {
        self.members.keys().nth(which % self.members.len().max(1)).copied()
    }

    fn lease(&self, which: usize) -> Option<(u64, u64)> {
        let lease = self.held.iter().nth(which % self.held.len().max(1));
        lease.map(|(seq, worker)| (*seq, *worker))
    }

    fn step(&mut self, event: &Event) {
        match *event {
            Event::Submit { count, kind } => {
                let first = self.submitted + 1;
                self.submitted += count;
                let tasks = (first..=self.submitted).map(|number| {
                    let mut task = spec(number);
                    task.kind = KINDS[kind].into();
                    task.retry.limit = 1_000;
                    task
                });
                self.world.submit(tasks.collect());
            }
            Event::Join { name, kinds, credit, slots } => self.join(name, kinds, credit, slots),
            Event::Leave(which) => {
                let Some(worker) = self.member(which) else { return };
                self.leave(worker);
            }
            Event::Drain(which) => {
                let Some(worker) = self.member(which) else { return };
                self.members.get_mut(&worker).expect("a member").draining = true;
                self.world.feed(Input::WorkerDraining { worker: WorkerKey(worker) });
            }
            Event::Finish(which) => {
                let Some((seq, worker)) = self.lease(which) else { return };
                self.held.remove(&seq);
                self.world.end(worker, seq, finished());
                self.failed_on.remove(&seq);
            }
            Event::Fail { which, wait_ms } => {
                let Some((seq, worker)) = self.lease(which) else { return };
                self.held.remove(&seq);
                self.failed(seq, worker, wait_ms);
                self.world.end(worker, seq, failure(FailureVerdict::RetryAfterMs(wait_ms)));
            }
            Event::Answer(which) => {
                if !self.asked.is_empty() {
                    let (worker, seq) = self.asked.remove(which % self.asked.len());
                    self.give_back(worker, seq);
                }
            }
            Event::Pass(ms) => {
                // In steps, so that nobody is given up for silence.
                for _ in 0..ms.div_ceil(10_000) {
                    self.pass(ms.min(10_000));
                }
            }
        }
        self.note();
    }

    fn pass(&mut self, ms: u64) {
        for key in self.members.keys().copied().collect::<Vec<_>>() {
            self.world.feed(Input::WorkerSeen { worker: WorkerKey(key) });
            self.note();
        }
        // Whenever the scheduler asked for it, so that nothing that is due is seen late.
        let end = self.world.now.plus_ms(ms);
        loop {
            let next = self.world.scheduler.next_deadline().filter(|next| *next < end);
            self.world.now = next.unwrap_or(end).max(self.world.now);
            self.world.feed(Input::TimePassed);
            self.note();
            if next.is_none() {
                return;
            }
        }
    }

    fn join(&mut self, name: u64, kinds: usize, credit: u32, slots: u32) {
        self.last_key += 1;
        let name = Name::from(format!("worker-{name}"));
        let kinds: Vec<Name> = match KINDS.get(kinds) {
            Some(kind) => vec![(*kind).into()],
            None => KINDS.map(Name::from).into(),
        };
        let member =
            Member { name: name.clone(), kinds: kinds.iter().cloned().collect(), draining: false };
        self.members.insert(self.last_key, member);
        self.world.join_with(self.last_key, credit, |worker| {
            (worker.name, worker.kinds, worker.slots) = (name, kinds, slots);
        });
    }

    fn leave(&mut self, worker: u64) {
        let queued = self.world.worker(worker).queue_length as usize;
        let gone: Vec<u64> =
            self.held.iter().filter(|held| *held.1 == worker).map(|held| *held.0).collect();
        let before: Vec<u32> = gone.iter().map(|seq| self.attempts(*seq)).collect();
        self.held.retain(|_, holder| *holder != worker);
        self.asked.retain(|(of, _)| *of != worker);
        let name = self.members.remove(&worker).expect("a member").name;
        self.world.leave(worker);
        let mut lost = 0;
        for (seq, before) in gone.iter().zip(before) {
            // What had begun counts as an attempt; it may run again by now, and that counts too.
            let again = u32::from(self.world.state(*seq) == Some(TaskState::Leased));
            if self.attempts(*seq) - again == before {
                lost += 1;
                let until = self.world.now.plus_ms(PATIENCE_MS);
                self.failed_on.insert(*seq, (name.clone(), until));
            } else if let Some(failed) = self.failed_on.get_mut(seq) {
                failed.1 = self.world.now.plus_ms(PATIENCE_MS);
            }
        }
        assert_eq!(gone.len() - lost, queued, "what waited for a slot is not lost");
    }

    /// Attempts that were begun and count, with one that runs.
    fn attempts(&self, seq: u64) -> u32 {
        self.world.scheduler.status(Seq(seq)).expect("an open task").attempts
    }

    fn give_back(&mut self, worker: u64, seq: u64) {
        if self.held.get(&seq) != Some(&worker) {
            return;
        }
        self.held.remove(&seq);
        if let Some(failed) = self.failed_on.get_mut(&seq) {
            failed.1 = self.world.now.plus_ms(PATIENCE_MS);
        }
        self.world.end(worker, seq, released());
        self.note();
    }

    fn views(&self) -> BTreeMap<u64, WorkerView> {
        self.world.scheduler.workers().into_iter().map(|worker| (worker.key, worker)).collect()
    }

    /// What must hold after every step.
    fn check(&self) {
        let workers = self.views();
        let mut long = BTreeMap::new();
        for seq in 1..=self.submitted {
            if self.world.state(seq) != Some(TaskState::Ready) {
                continue;
            }
            let kind = self.kind_of(seq);
            let long = *long.entry(kind.clone()).or_insert_with(|| {
                let told = self.world.scheduler.explain(self.world.now, Seq(seq));
                let run_ms = told.and_then(|told| told.estimated_run_ms);
                run_ms.is_some_and(|run_ms| run_ms >= LONG_MS)
            });
            for (key, member) in &self.members {
                let worker = &workers[key];
                let room = if long { worker.credit.min(worker.slots) } else { worker.credit };
                let waits = !member.draining && worker.leased < room;
                let in_vain = waits && member.kinds.contains(&kind) && !self.is_kept(seq, *key);
                assert!(!in_vain, "{seq} waits, and {} has room for it", member.name);
            }
        }
    }

    /// Nothing ends any more, and all questions are answered: what waits in line anywhere must come to whoever is free.
    fn check_lines(&mut self) {
        for _ in 0..40 {
            // What is given back must find its way: nothing may go to and fro within a moment.
            for _ in 0..=self.submitted {
                let Some((worker, seq)) = self.asked.pop() else { break };
                self.give_back(worker, seq);
            }
            assert!(self.asked.is_empty(), "tasks go to and fro");
            self.pass(2_000);
        }
        let workers = self.views();
        let crowded = workers.iter().filter(|(_, worker)| worker.queue_length > 0);
        for victim in crowded.map(|(key, _)| key) {
            let held: Vec<u64> =
                self.held.iter().filter(|held| held.1 == victim).map(|held| *held.0).collect();
            for (thief, member) in &self.members {
                let worker = &workers[thief];
                let free = !member.draining && worker.leased < worker.slots.min(worker.credit);
                let able = held.iter().all(|seq| {
                    member.kinds.contains(&self.kind_of(*seq))
                        && self.failed_on.get(seq).is_none_or(|(name, _)| *name != member.name)
                });
                assert!(!free || !able, "{thief} is free, and {held:?} are at {victim}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, max_shrink_iters: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_fails_dies_or_takes_long(events in prop::collection::vec(event(), 1..80)) {
        let mut crowd = Crowd::new();
        for event in &events {
            crowd.step(event);
            crowd.check();
        }
        crowd.check_lines();
        // One good worker is enough for all that is left, wherever it failed.
        for key in crowd.members.keys().copied().collect::<Vec<_>>() {
            crowd.leave(key);
            crowd.note();
        }
        crowd.step(&Event::Join { name: 0, kinds: 2, credit: 2, slots: 2 });
        for _ in 0..2_000 {
            if crowd.world.scheduler.is_idle() {
                break;
            }
            crowd.check();
            if crowd.held.is_empty() {
                crowd.pass(1_000);
            }
            crowd.step(&Event::Finish(0));
        }
        prop_assert!(crowd.world.scheduler.is_idle(), "something never ends");
    }
}
