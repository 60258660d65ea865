//! A retry goes elsewhere: a task is not given back to the worker that it failed on while another one could run it.
//!
//! What failed may be the fault of the worker: a broken tool, a full disk. A worker that fails at once is free at once,
//! so it would get the retry too, again and again, until the attempts are used up. So after a failure, or after the
//! loss of its worker, a task is in a class that avoids this worker, by name. All other workers see it in its usual
//! turn; the one that it failed on passes it over and gets what comes behind it. This holds
//! - only while another active worker may take the task and does not rest from its kind: who is the only one gets it at
//!   once;
//! - for [`ELSEWHERE_MS`] after it became ready again: if the others are busy for longer, whoever is free gets it.
//!
//! Kept in memory only: a restarted server has forgotten where tasks failed. Costs nothing for a task that never
//! failed. How often a worker fails a kind is judged in `quarantine`.

use divvy_types::{Name, Seq, TaskState, Timestamp, WaitReason};

use crate::Scheduler;
use crate::lanes::End;
use crate::table::{Row, Task};
use crate::timers::Timer;

/// How long a ready task waits at most for another worker than the one that it failed on.
const ELSEWHERE_MS: u64 = 30_000;

impl Scheduler {
    /// Whether a worker is not to be given tasks of this class for now, because it does badly.
    pub(crate) fn is_kept_from(&self, worker: u32, class: u32) -> bool {
        (self.classes.avoiding.contains(class) && self.is_avoided(worker, class))
            || self.is_quarantined(worker, class)
    }

    /// Whether tasks of this class failed on the worker, and another one could run them.
    fn is_avoided(&self, worker: u32, class: u32) -> bool {
        let Some(name) = &self.classes.get(class).avoids else { return false };
        let worker = self.workers.get(worker);
        worker.name == *name && self.others_ready(class, worker.known)
    }

    /// An attempt of a task failed on a worker. The task is not ready.
    pub(crate) fn failed_on(&mut self, row: Row, worker: &Name) {
        if worker.is_empty() {
            return;
        }
        let spec = self.tasks[row].spec.clone();
        let class = match self.classes.find_avoiding(&spec, Some(worker)) {
            Some(class) => class,
            None => self.add_class(&spec, Some(worker)),
        };
        self.change_class(row, class);
    }

    fn change_class(&mut self, row: Row, class: u32) {
        let before = std::mem::replace(&mut self.tasks[row].class, class);
        self.classes.get_mut(class).uses += 1;
        self.classes.get_mut(before).uses -= 1;
        self.traffic_changed_class(row, before, class);
    }

    /// A task becomes ready: if its class avoids a worker, that ends in a while.
    pub(crate) fn hold_back(&mut self, row: Row, now: Timestamp) {
        let task = &mut self.tasks[row];
        if self.classes.get(task.class).avoids.is_some() {
            let until = now.plus_ms(ELSEWHERE_MS);
            task.links().kept_until = until;
            self.timers.add(until, Timer::Anywhere(task.seq));
            self.kept += 1;
        }
    }

    /// A task is not ready any more.
    pub(crate) fn hold_no_more(&mut self, row: Row) {
        if self.kept == 0 {
            return;
        }
        let task = &mut self.tasks[row];
        let Some(links) = &mut task.links else { return };
        let until = std::mem::take(&mut links.kept_until);
        if until != Timestamp::default() {
            self.timers.remove(until, Timer::Anywhere(task.seq));
            self.kept -= 1;
        }
    }

    /// A ready task has waited long enough for another worker: any may have it.
    pub(crate) fn let_anywhere(&mut self, now: Timestamp, seq: Seq) {
        let Some(row) = self.tasks.row_of(seq) else { return };
        if self.tasks[row].state != TaskState::Ready {
            return;
        }
        self.hold_no_more(row);
        let task = &self.tasks[row];
        let (spec, before, bytes) = (task.spec.clone(), task.stream, task.payload_bytes());
        let class = self.class_of(&spec);
        self.change_class(row, class);
        // It enters before it leaves, so that its queue and its fair key do not seem to have been without tasks.
        self.enter_stream(row, End::Front, now);
        self.streams.get_mut(before).left(&self.tasks);
        self.relist(before, now);
        self.one_less_in(before, bytes);
    }

    /// Why a ready task waits although the worker that it failed on has a place for it.
    pub(crate) fn wait_for_another(&self, task: &Task) -> Option<WaitReason> {
        let until = task.links.as_ref()?.kept_until;
        let name = self.classes.get(task.class).avoids.as_ref()?;
        let mut active = self.classes.get(task.class).groups.iter().flat_map(|group| {
            self.workers.group(group).active.iter().map(|index| (*index, self.workers.get(*index)))
        });
        let waits = active.any(|(index, worker)| {
            worker.name == *name
                && worker.is_waiting()
                && self.has_place_for(index, task.class)
                && self.is_avoided(index, task.class)
        });
        waits.then(|| WaitReason::Elsewhere { worker: name.clone(), until })
    }
}
