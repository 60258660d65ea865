//! What takes long is not given ahead.
//!
//! Workers are given a few tasks more than they have slots for, so that the next one begins as soon as a slot is free.
//! For short tasks that saves a wait. A task that takes long gains nothing by it, and may wait in line behind another
//! one while a second worker has nothing to do. So tasks of a kind that is expected to run for more than [`LONG_US`] go
//! only to workers with a free slot. Before the first result of a kind its tasks are given ahead.
//!
//! What waits in line behind tasks that take long, because it was given before that was known, may be stolen whatever
//! the length of the line; see `steal`.

use divvy_types::Timestamp;

use crate::Scheduler;
use crate::places::UNMEASURED;
use crate::table::Task;

/// What runs for longer takes long, in microseconds.
pub(crate) const LONG_US: u64 = 2_000_000;

impl Scheduler {
    /// Whether tasks of a class are expected to take long.
    pub(crate) fn takes_long(&self, class: u32) -> bool {
        self.learning.long_kinds() > 0 && self.learning.takes_long(self.fits.get(class).kind)
    }

    /// Whether a worker that waits may be given tasks of a class without leaving them in line for long.
    pub(crate) fn has_place_for(&self, worker: u32, class: u32) -> bool {
        !self.takes_long(class) || self.workers.get(worker).has_free_slot()
    }

    /// Tasks of a kind are not expected to take long any more: workers without a free slot may have them.
    pub(crate) fn became_short(&mut self, kind: u32) {
        let classes: Vec<u32> = self
            .classes
            .iter()
            .map(|(class, _)| class)
            .filter(|class| self.fits.get(*class).kind == kind)
            .collect();
        for class in classes {
            self.mark_class(class);
        }
    }

    /// Whether whatever runs on a worker takes long, so that nothing in its line begins soon.
    pub(crate) fn is_stuck(&self, now: Timestamp, index: u32) -> bool {
        let worker = self.workers.get(index);
        let mut running = worker
            .young
            .iter()
            .chain(&worker.old)
            .filter(|note| self.runs(note, index) && !self.is_queued(note, index));
        running.all(|note| self.runs_long(now, &self.tasks[note.row]))
    }

    /// Whether a task that runs is expected to take long in all, or has already.
    fn runs_long(&self, now: Timestamp, task: &Task) -> bool {
        let begun = if task.begun == UNMEASURED { task.since } else { task.begun };
        now.0.saturating_sub(begun.0) >= LONG_US
            || self.estimate_us(&task.spec).is_some_and(|run_us| run_us > LONG_US)
    }
}
