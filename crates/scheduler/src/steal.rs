//! How tasks that workers were given and have not begun move to other workers.

use divvy_types::Timestamp;
use divvy_types::view::{LoadMetrics, Move};

use crate::Scheduler;

impl Scheduler {
    /// Evens the load out, as far as the settings allow.
    pub(crate) fn rebalance(&mut self, _now: Timestamp) {}

    /// What a rebalance would do now.
    pub fn plan_rebalance(&self, _now: Timestamp) -> Vec<Move> {
        Vec::new()
    }

    /// How tasks moved so far.
    pub fn load_metrics(&self) -> LoadMetrics {
        LoadMetrics::default()
    }
}
