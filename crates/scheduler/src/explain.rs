//! Why a task is where it is.

use divvy_types::view::Explanation;
use divvy_types::{Seq, Timestamp};

use crate::Scheduler;

impl Scheduler {
    /// Everything that is known about why a task in memory waits or runs where it does.
    pub fn explain(&self, _now: Timestamp, seq: Seq) -> Option<Explanation> {
        let status = self.status(seq)?;
        let spec = self.spec(seq)?;
        Some(Explanation {
            id: spec.id,
            state: status.state,
            wait_text: status.wait.as_ref().map(ToString::to_string),
            wait: status.wait,
            position: None,
            estimated_start: None,
            estimated_run_ms: self.estimate_us(spec).map(|us| us / 1_000),
            deadline: spec.deadline,
            late: false,
            placement: self.placement_of(seq),
            candidates: self.candidates(seq),
        })
    }
}
