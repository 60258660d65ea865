//! A pool in simulated time: samples are made from a few numbers, and workers follow decisions at once.

use std::collections::BTreeMap;

use divvy_autoscale::{Decision, Fleet, KindLoad, Sample, Scaler};
use divvy_types::pools::{Policy, Pool, WorkerType};
use divvy_types::{Name, Timestamp};

/// Seconds between two samples.
pub(crate) const STEP: u64 = 15;

/// A pool that is played.
pub(crate) struct Play {
    pub(crate) scaler: Scaler,
    pub(crate) at: u64,
    pub(crate) fleet: BTreeMap<Name, Fleet>,
    pub(crate) run_sec: f64,
    pub(crate) cpu: Option<f64>,
}

/// A pool with one free type that starts at once, and no pace.
pub(crate) fn pool(policy: Policy) -> Pool {
    let mut pool = Pool { policy, max: 100, types: vec![WorkerType::default()], ..Pool::default() };
    (pool.down.cool_down_sec, pool.down.window_sec) = (0.0, 0.0);
    pool
}

pub(crate) fn at(second: u64) -> Timestamp {
    Timestamp(second * 1_000_000)
}

impl Play {
    pub(crate) fn new(pool: Pool) -> Self {
        let fleet = BTreeMap::new();
        Self { scaler: Scaler::new(pool), at: 0, fleet, run_sec: 1.0, cpu: None }
    }

    /// So many workers are there from the beginning.
    pub(crate) fn with(mut self, workers: u32) -> Self {
        self.fleet.insert("worker".into(), Fleet { running: workers, ..Fleet::default() });
        self
    }

    pub(crate) fn sample(&self, arrived: u64, waiting: u64) -> Sample {
        let kind =
            KindLoad { arrived, waiting, run_sec: Some(self.run_sec), ..KindLoad::default() };
        Sample {
            at: at(self.at),
            kinds: [("work".into(), kind)].into(),
            fleet: self.fleet.clone(),
            cpu: self.cpu,
            ..Sample::default()
        }
    }

    /// The next sample; the workers follow what is decided.
    pub(crate) fn tick(&mut self, arrived: u64, waiting: u64) -> Decision {
        self.at += STEP;
        let sample = self.sample(arrived, waiting);
        self.follow(&sample)
    }

    pub(crate) fn follow(&mut self, sample: &Sample) -> Decision {
        let decision = self.scaler.decide(sample).clone();
        self.fleet.values_mut().for_each(|fleet| fleet.running = 0);
        for (name, wanted) in &decision.wanted {
            self.fleet.entry(name.clone()).or_default().running = *wanted;
        }
        decision
    }

    /// The same, for so many samples; the last total.
    pub(crate) fn ticks(&mut self, count: u64, arrived: u64, waiting: u64) -> u32 {
        (0..count).map(|_| self.tick(arrived, waiting).total()).last().unwrap_or(0)
    }

    pub(crate) fn total(&self) -> u32 {
        self.scaler.last().total()
    }
}
