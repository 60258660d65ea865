//! Which of several free workers gets a task.

use divvy_types::Timestamp;

use crate::Scheduler;
use crate::table::Row;

impl Scheduler {
    /// The waiting worker that suits a ready task best, if any can run it.
    pub(crate) fn choose_worker(&mut self, _now: Timestamp, row: Row) -> Option<u32> {
        let class = self.tasks[row].class;
        self.workers.least_loaded(&self.classes.get(class).groups)
    }
}
