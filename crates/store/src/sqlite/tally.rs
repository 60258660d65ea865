//! How many kept tasks are in each final state, counted as facts are written, so that nobody has to scan for it.
//!
//! The numbers are shared with the readers of this process. They are counted anew at each open: from the hot tables
//! and from the sums that each day file keeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use divvy_types::TaskState;

/// The final states, in the order of their codes from 1.
pub(super) const FINAL: [TaskState; 3] = [TaskState::Done, TaskState::Dead, TaskState::Cancelled];

/// The code of a final state in the files.
pub(super) fn code(state: TaskState) -> i64 {
    match state {
        TaskState::Done => 1,
        TaskState::Dead => 2,
        TaskState::Cancelled => 3,
        other => unreachable!("{other} is not final, so it is never written"),
    }
}

/// The final state of a code.
pub(super) fn state(code: i64) -> Option<TaskState> {
    let index = usize::try_from(code).ok()?.checked_sub(1)?;
    FINAL.get(index).copied()
}

/// Shared counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally(Arc<[AtomicU64; 3]>);

/// Changes that take effect when the group is durable.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delta([i64; 3]);

impl Tally {
    pub(super) fn apply(&self, delta: Delta) {
        for (count, change) in self.0.iter().zip(delta.0) {
            if change >= 0 {
                count.fetch_add(change.unsigned_abs(), Ordering::Relaxed);
            } else {
                let less = |n: u64| Some(n.saturating_sub(change.unsigned_abs()));
                // The closure always returns a value, so the update cannot fail.
                let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
            }
        }
    }

    pub(super) fn read(&self) -> Vec<(TaskState, u64)> {
        FINAL
            .iter()
            .zip(self.0.iter())
            .map(|(state, count)| (*state, count.load(Ordering::Relaxed)))
            .collect()
    }
}

impl Delta {
    pub(super) fn add(&mut self, state: TaskState, change: i64) {
        self.0[(code(state) - 1) as usize] += change;
    }
}
