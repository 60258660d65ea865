//! Which attempts of a worker have presumably begun, and which wait there for a slot.
//!
//! A worker says how many slots it has, not what it runs. It begins what it is given while it has a slot free; the
//! rest waits there in line, higher priorities first and then by age, and when an attempt ends the next in line
//! begins. Workers with several tiers may deviate a little; nothing that must be right depends on this. What waits in
//! line is the worker's *queue*: it can be stolen, and it is not counted as an attempt when the worker is lost.

use divvy_types::Timestamp;

use crate::Scheduler;
use crate::queues::Line;
use crate::table::{NOBODY, Row};
use crate::workers::Note;

/// Stands for the beginning of an attempt that waits in its worker's line, or of a task without one.
pub(crate) const QUEUED: Timestamp = Timestamp(0);
/// Stands for a beginning that was not seen.
pub(crate) const UNMEASURED: Timestamp = Timestamp(1);

/// Lines are not tidied below this length.
const TIDY_MIN: usize = 32;

impl Scheduler {
    /// Puts a lease that a worker just got into a slot or in line there.
    pub(crate) fn take_place(&mut self, now: Timestamp, note: Note, index: u32) {
        let task = &mut self.tasks[note.row];
        let band = task.band();
        let worker = self.workers.get_mut(index);
        if worker.begun < worker.slots.max(1) {
            worker.begun += 1;
            task.begun = now;
            return;
        }
        task.begun = QUEUED;
        let class = task.class;
        self.queues.queued(self.classes.get(class).queue, Line::Joined);
        self.traffic_lined(class, true);
        let worker = self.workers.get_mut(index);
        let line = &mut worker.lines[band];
        line.push_back(note);
        if line.len() >= TIDY_MIN && line.len() as u64 > 2 * u64::from(worker.leased) {
            let mut line = std::mem::take(line);
            line.retain(|note| self.is_queued(note, index));
            self.workers.get_mut(index).lines[band] = line;
        }
    }

    /// The lease of a task has ended: its slot goes to the next in line.
    pub(crate) fn leave_place(&mut self, row: Row, begun: Timestamp, index: u32) {
        if begun == QUEUED {
            self.leave_line(row);
            return;
        }
        let now = self.now;
        self.workers.get_mut(index).begun -= 1;
        for band in (0..self.workers.get(index).lines.len()).rev() {
            while let Some(note) = self.workers.get_mut(index).lines[band].pop_front() {
                if self.is_queued(&note, index) {
                    self.tasks[note.row].begun = now;
                    self.leave_line(note.row);
                    self.workers.get_mut(index).begun += 1;
                    if self.tasks[note.row].held {
                        // It was recorded while it waited in line.
                        self.record_holder(note.row, index);
                    }
                    return;
                }
            }
        }
    }

    fn leave_line(&mut self, row: Row) {
        let class = self.tasks[row].class;
        self.queues.queued(self.classes.get(class).queue, Line::Left);
        self.traffic_lined(class, false);
    }

    /// Whether a note is of an attempt that still waits in line at a worker.
    pub(crate) fn is_queued(&self, note: &Note, index: u32) -> bool {
        self.tasks.at(note.row).is_some_and(|task| {
            task.token == note.token && task.worker == index && task.begun == QUEUED
        })
    }

    /// Sets when an attempt that was taken over from an earlier connection began, unless it waits in line.
    pub(crate) fn began_before(&mut self, row: Row, begun: Timestamp) {
        let task = &mut self.tasks[row];
        if task.worker != NOBODY && task.begun != QUEUED {
            task.begun = if begun == QUEUED { UNMEASURED } else { begun };
        }
    }
}
