//! A world in which workers finish what they are given after a while, with a list of what started when.

use std::collections::BTreeMap;

use divvy_scheduler::{Input, Options};
use divvy_types::{Machine, Seq, Settings, TaskSpec, Timestamp, WorkerHello};

use crate::support::{World, finished};

pub(crate) struct Start {
    /// Microseconds since the beginning.
    pub(crate) at: u64,
    pub(crate) seq: u64,
}

pub(crate) struct Timeline {
    pub(crate) world: World,
    pub(crate) starts: Vec<Start>,
    pub(crate) settings: Settings,
    /// How long a task runs, by its number.
    pub(crate) run_us: fn(u64) -> u64,
    begin: Timestamp,
    running: BTreeMap<(Timestamp, u64), u64>,
}

impl Timeline {
    pub(crate) fn new(run_us: fn(u64) -> u64) -> Self {
        // Nobody is given up for silence here.
        let options = Options { lease_ms: u64::from(u32::MAX), ..Options::default() };
        let world = World::with(options);
        let begin = world.now;
        Self {
            world,
            starts: Vec::new(),
            settings: Settings::default(),
            run_us,
            begin,
            running: BTreeMap::new(),
        }
    }

    pub(crate) fn feed(&mut self, input: Input) {
        self.world.feed(input);
        let now = self.world.now;
        for (worker, seq) in self.world.grants() {
            self.starts.push(Start { at: now.0 - self.begin.0, seq });
            self.running.insert((Timestamp(now.0 + (self.run_us)(seq)), seq), worker);
        }
    }

    pub(crate) fn set(&mut self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.settings);
        self.settings.check().expect("valid settings");
        self.feed(Input::SettingsChanged(Box::new(self.settings.clone())));
    }

    pub(crate) fn submit(&mut self, specs: Vec<TaskSpec>) {
        let tasks = specs.into_iter().map(crate::support::submission).collect();
        self.feed(Input::TasksSubmitted(tasks));
    }

    /// A worker that runs the usual kind.
    pub(crate) fn join(
        &mut self,
        key: u64,
        credit: u32,
        change: impl FnOnce(&mut WorkerHello<Seq>),
    ) {
        let mut hello = WorkerHello {
            name: format!("worker-{key}").into(),
            kinds: vec!["noop".into()],
            credit,
            slots: credit,
            ..WorkerHello::default()
        };
        change(&mut hello);
        self.feed(Input::WorkerJoined(divvy_types::WorkerKey(key), hello));
    }

    pub(crate) fn cancel(&mut self, seq: u64) {
        self.feed(Input::CancelRequested { seq: Seq(seq), reason: "asked".into() });
    }

    /// Lets time pass up to so many microseconds since the beginning.
    pub(crate) fn run_until(&mut self, end_us: u64) {
        let end = Timestamp(self.begin.0 + end_us);
        while self.step(end) {}
        self.world.now = end;
        self.feed(Input::TimePassed);
    }

    /// Lets time pass until so many tasks have started.
    pub(crate) fn run_starts(&mut self, count: usize) {
        while self.starts.len() < count {
            assert!(self.step(Timestamp(u64::MAX)), "{} have started", self.starts.len());
        }
        self.starts.truncate(count);
    }

    /// The next thing that happens, up to this time.
    fn step(&mut self, end: Timestamp) -> bool {
        let timer = self.world.scheduler.next_deadline();
        let ends = self.running.keys().next().copied();
        let Some(next) = timer.into_iter().chain(ends.map(|(at, _)| at)).min() else {
            return false;
        };
        if next > end {
            return false;
        }
        self.world.now = self.world.now.max(next);
        match ends.filter(|(at, _)| *at <= next) {
            Some(ends) => {
                let worker = self.running.remove(&ends).expect("it runs");
                let seq = Seq(ends.1);
                let token = self.world.scheduler.lease_token(seq).expect("a lease");
                let worker = divvy_types::WorkerKey(worker);
                let end = finished();
                let report = divvy_scheduler::AttemptEnded { worker, seq, token, end, log: None };
                self.feed(Input::AttemptEnded(report));
            }
            None => self.feed(Input::TimePassed),
        }
        true
    }

    /// When tasks started, in the order of their starts, in whole seconds.
    pub(crate) fn seconds(&self) -> Vec<(u64, u64)> {
        self.starts.iter().map(|start| (start.at / 1_000_000, start.seq)).collect()
    }

    pub(crate) fn started(&self) -> Vec<u64> {
        self.starts.iter().map(|start| start.seq).collect()
    }
}
