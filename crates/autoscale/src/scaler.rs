//! The machine of one pool: samples in, decisions out.

use std::collections::VecDeque;

use divvy_types::pools::Pool;

use crate::decision::{Change, Decision};
use crate::sample::Sample;

/// Changes that are remembered.
const CHANGES_MAX: usize = 1_000;

/// Decides for one pool.
#[derive(Clone, Debug)]
pub struct Scaler {
    pool: Pool,
    changes: VecDeque<Change>,
    last: Decision,
}

impl Scaler {
    /// Starts without any memory.
    pub fn new(pool: Pool) -> Self {
        Self { pool, changes: VecDeque::with_capacity(CHANGES_MAX), last: Decision::default() }
    }

    /// Takes other settings from now on; what was learnt stays.
    pub fn reload(&mut self, pool: Pool) {
        self.pool = pool;
    }

    /// Takes a sample and decides.
    pub fn decide(&mut self, sample: &Sample) -> &Decision {
        self.last.at = sample.at;
        &self.last
    }

    /// The last decision.
    pub fn last(&self) -> &Decision {
        &self.last
    }

    /// The changes so far, oldest first.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter()
    }
}
