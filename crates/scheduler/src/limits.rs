//! Limits on how often tasks may start and how many may run at once.

use divvy_types::Timestamp;
use divvy_types::view::LimitView;

use crate::Scheduler;

impl Scheduler {
    /// How full each limit is, key by key.
    pub fn limit_views(&self, _now: Timestamp) -> Vec<LimitView> {
        Vec::new()
    }
}
