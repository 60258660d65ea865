//! How tasks get into lanes and out of them, how classes come and go, and what a pause does.
//!
//! Which lane is served next is decided in `pick`.

use divvy_types::{Fact, Name, Seq, TaskSpec, TaskState, Timestamp};

use crate::Scheduler;
use crate::classes::Entry;
use crate::table::Row;

/// Where in a lane a task goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Behind those that wait.
    Back,
    /// Before them: it has waited its turn once.
    Front,
}

impl Scheduler {
    /// The class of a spec; a new one if need be.
    pub(crate) fn class_of(&mut self, spec: &TaskSpec) -> u32 {
        if let Some(class) = self.classes.find(spec) {
            return class;
        }
        self.sweep_classes();
        let queue = self.queues.intern(&spec.queue);
        self.queues.get_mut(queue).classes += 1;
        let index = self.classes.add(spec, queue);
        self.class_added(index);
        index
    }

    fn sweep_classes(&mut self) {
        for index in self.classes.unused() {
            let class = self.classes.remove(index);
            self.class_removed(index, &class);
            self.queues.get_mut(class.queue).classes -= 1;
            self.queues.drop_if_unused(class.queue);
        }
    }

    /// Makes a task ready as of `ready_at` and puts it into its lane.
    pub(crate) fn make_ready(&mut self, row: Row, now: Timestamp, ready_at: Timestamp, end: End) {
        self.set_state(row, TaskState::Ready, now);
        self.tasks[row].ready_at = ready_at;
        self.enqueue(row, end);
    }

    /// Puts a task that is ready into its lane.
    pub(crate) fn enqueue(&mut self, row: Row, end: End) {
        let task = &self.tasks[row];
        let entry = Entry { ready_at: task.ready_at, seq: task.seq, row };
        let (index, band) = (task.class, task.band());
        self.ready_tasks += 1;
        self.ready_bytes += task.payload_bytes();
        let class = self.classes.get_mut(index);
        match end {
            End::Back => class.bands[band].push_back(entry),
            End::Front => class.bands[band].push_front(entry),
        }
        if !self.queues.get(class.queue).paused {
            self.classes.runnable.set(index, true);
            self.mark_class(index);
        }
    }

    /// Takes a ready task out of its lane; the caller changes its state first, so that its entry is void.
    pub(crate) fn unqueue(&mut self, row: Row) {
        let (index, band) = (self.tasks[row].class, self.tasks[row].band());
        debug_assert_ne!(self.tasks[row].state, TaskState::Ready);
        self.classes.get_mut(index).bands[band].left(&self.tasks);
        self.left_lane(row);
    }

    /// What both ways out of a lane have in common.
    pub(crate) fn left_lane(&mut self, row: Row) {
        let task = &self.tasks[row];
        self.ready_tasks -= 1;
        self.ready_bytes -= task.payload_bytes();
        let class = task.class;
        if self.classes.get(class).ready() == 0 {
            self.classes.runnable.set(class, false);
        }
        if !self.spills.is_empty() {
            let lane = divvy_types::Lane::of(&self.tasks[row].spec);
            self.refill(lane);
        }
    }

    pub(crate) fn mark_class(&mut self, index: u32) {
        let class = self.classes.get_mut(index);
        if !class.dirty {
            class.dirty = true;
            self.dirty_classes.push(index);
        }
    }

    pub(crate) fn came_due(&mut self, now: Timestamp, seq: Seq) {
        let Some(row) = self.tasks.row_of(seq) else { return };
        if self.tasks[row].state == TaskState::Scheduled {
            let due = self.tasks[row].ready_at;
            self.make_ready(row, now, due, End::Back);
        }
    }

    pub(crate) fn queue_paused(&mut self, name: Name, paused: bool) {
        let queue = self.queues.intern(&name);
        if self.queues.get(queue).paused == paused {
            self.queues.drop_if_unused(queue);
            return;
        }
        self.queues.get_mut(queue).paused = paused;
        // During recovery the store tells of a pause that it has recorded.
        if !self.recovering {
            self.record(Fact::QueuePaused { queue: name, paused });
        }
        let classes: Vec<u32> = self
            .classes
            .iter()
            .filter(|(_, class)| class.queue == queue)
            .map(|(index, _)| index)
            .collect();
        for index in classes {
            let runnable = !paused && self.classes.get(index).ready() > 0;
            self.classes.runnable.set(index, runnable);
            if runnable {
                self.mark_class(index);
            }
        }
        if !paused {
            self.refill_all();
        }
        self.queues.drop_if_unused(queue);
    }
}
