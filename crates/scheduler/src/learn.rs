//! What is learnt of workers and kinds: how often attempts work, how long they take, and who should rest.

use divvy_types::{TaskSpec, Timestamp};

use crate::Scheduler;
use crate::table::Row;

/// How an attempt ended, as far as it says something about its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Worked,
    Failed,
}

impl Scheduler {
    /// An attempt ended on the worker that still holds it.
    pub(crate) fn learn(&mut self, _now: Timestamp, _row: Row, _seen: Seen) {}

    /// How long a task is expected to run, in microseconds, on no worker in particular.
    pub(crate) fn estimate_us(&self, _spec: &TaskSpec) -> Option<u64> {
        None
    }

    /// Whether a worker is not to be given tasks of this class for now.
    pub(crate) fn is_benched(&self, _worker: u32, _class: u32) -> bool {
        false
    }
}
