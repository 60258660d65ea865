//! The machine of one pool: samples in, decisions out.

use std::collections::VecDeque;

use divvy_types::Timestamp;
use divvy_types::pools::Pool;
use serde::{Deserialize, Serialize};

use crate::costs::Costs;
use crate::decision::{Change, Decision, Flapping};
use crate::explain::Explanation;
use crate::sample::Sample;

/// Decides for one pool.
#[derive(Clone, Debug)]
pub struct Scaler {
    pool: Pool,
    memory: Memory,
}

/// All that a scaler has learnt: what a restarted server needs to go on as before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    last: Decision,
    sample: Sample,
    changes: VecDeque<Change>,
    costs: Costs,
    set: Option<u32>,
    paused: bool,
}

impl Scaler {
    /// Starts without any memory. The pool has passed [`Pool::check`].
    pub fn new(pool: Pool) -> Self {
        Self::resume(pool, Memory::default())
    }

    /// Goes on with what was learnt before.
    pub fn resume(pool: Pool, memory: Memory) -> Self {
        Self { pool, memory }
    }

    /// What was learnt, to be kept.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The settings.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Takes other settings from now on; what was learnt stays.
    pub fn reload(&mut self, pool: Pool) {
        self.pool = pool;
    }

    /// Holds a number that was set by hand, within the bounds of the pool, until it is unset.
    pub fn set(&mut self, now: Timestamp, workers: Option<u32>) -> &Decision {
        self.memory.set = workers;
        self.memory.last.at = now;
        &self.memory.last
    }

    /// The number that was set by hand.
    pub fn is_set(&self) -> Option<u32> {
        self.memory.set
    }

    /// Stops changing anything, or goes on. Bounds of the pool still hold.
    pub fn pause(&mut self, paused: bool) {
        self.memory.paused = paused;
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        self.memory.paused
    }

    /// Takes a sample and decides.
    pub fn decide(&mut self, sample: &Sample) -> &Decision {
        self.memory.sample = sample.clone();
        self.memory.last.at = sample.at;
        &self.memory.last
    }

    /// The last decision.
    pub fn last(&self) -> &Decision {
        &self.memory.last
    }

    /// The changes so far, oldest first.
    pub fn changes(&self) -> impl DoubleEndedIterator<Item = &Change> + ExactSizeIterator {
        self.memory.changes.iter()
    }

    /// What it costs.
    pub fn costs(&self) -> &Costs {
        &self.memory.costs
    }

    /// Whether the fleet goes up and down again and again.
    pub fn flapping(&self) -> Option<Flapping> {
        None
    }

    /// Why so many; nothing before the first sample.
    pub fn explain(&self) -> Option<Explanation> {
        None
    }
}
