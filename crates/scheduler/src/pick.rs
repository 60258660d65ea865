//! Who gets what: the best task for a worker, and the best worker for a task.
//!
//! A task that becomes ready goes into its lane; at the end of the step, lanes that got something are matched with
//! waiting workers. So after every step no worker waits that could run a ready task, a flood of submissions never
//! searches for workers in vain, and an idle worker causes no action. The cost of a pick grows with the lanes that
//! the worker serves and that are not empty, never with tasks.

use divvy_types::view::PlacedBy;
use divvy_types::{Seq, TaskState, Timestamp, Token};

use crate::table::Row;
use crate::timers::Timer;
use crate::workers::Note;
use crate::{Action, Grant, Scheduler};

impl Scheduler {
    /// Matches what the step left to be matched.
    pub(crate) fn dispatch(&mut self, now: Timestamp) {
        if self.recovering || self.stopping {
            return;
        }
        while let Some(index) = self.dirty_classes.pop() {
            self.classes.get_mut(index).dirty = false;
            while self.classes.runnable.contains(index) {
                let Some(worker) = self.worker_for_class(now, index) else { break };
                if !self.grant_next(now, worker, PlacedBy::Score) {
                    break;
                }
            }
        }
        while let Some(index) = self.dirty_workers.pop() {
            // A worker that left within the step may still be listed.
            let Some(worker) = self.workers.at_mut(index) else { continue };
            worker.dirty = false;
            while self.workers.get(index).is_waiting()
                && self.grant_next(now, index, PlacedBy::Turn)
            {}
            self.pull(now, index);
        }
        self.arm_look(now);
    }

    pub(crate) fn mark_worker(&mut self, index: u32) {
        let worker = self.workers.get_mut(index);
        if !worker.dirty {
            worker.dirty = true;
            self.dirty_workers.push(index);
        }
    }

    /// Grants the worker the best task that it can run, if there is one.
    fn grant_next(&mut self, now: Timestamp, worker: u32, by: PlacedBy) -> bool {
        let Some((class, band, row)) = self.best_for(worker) else { return false };
        self.classes.get_mut(class).bands[band].pop_head();
        self.left_lane(row);
        self.grants += 1;
        let token = Token::new(self.options.epoch, self.grants);
        self.lease(now, row, worker, token);
        self.note_grant(now, row, worker, by);
        let task = &self.tasks[row];
        let spec = task.spec.clone();
        let parents = task
            .links
            .as_ref()
            .map_or_else(Vec::new, |links| links.parents.iter().map(|e| e.seq).collect());
        let (seq, attempt, checkpointed) = (task.seq, task.attempts + 1, task.checkpointed);
        let holder = self.workers.get(worker);
        let (key, name) = (holder.key, holder.name.clone());
        self.actions.push_back(Action::Grant(Grant {
            worker: key,
            seq,
            token,
            attempt,
            spec: spec.clone(),
            parents,
            checkpointed,
        }));
        self.announce(now, &spec, TaskState::Leased, Some(name), None);
        true
    }

    /// The head of lane with the smallest `ready_at + (5 − priority) × ageing`, among the lanes that the worker serves.
    fn best_for(&mut self, worker: u32) -> Option<(u32, usize, Row)> {
        let group = self.workers.group(self.workers.get(worker).group);
        let ageing = (self.settings.ordering.ageing_sec * 1e6) as u64;
        let mut best: Option<((u64, Seq), u32, usize, Row)> = None;
        for block in 0..group.classes.blocks() {
            for index in group.classes.common_block(&self.classes.runnable, block) {
                let open = self.open_bands(worker, index);
                let bands = self.classes.get_mut(index).bands.iter_mut().take(open);
                for (band, lane) in bands.enumerate() {
                    if lane.live == 0 {
                        continue;
                    }
                    let Some(head) = lane.head(&self.tasks) else { continue };
                    let handicap = (4 - band as u64).saturating_mul(ageing);
                    let rank = (head.ready_at.0.saturating_add(handicap), head.seq);
                    if best.as_ref().is_none_or(|(least, ..)| rank < *least) {
                        best = Some((rank, index, band, head.row));
                    }
                }
            }
        }
        best.map(|(_, class, band, row)| (class, band, row))
    }

    /// Puts a task into a worker's hands under a token.
    pub(crate) fn lease(&mut self, now: Timestamp, row: Row, index: u32, token: Token) {
        self.set_state(row, TaskState::Leased, now);
        let task = &mut self.tasks[row];
        task.token = token;
        task.worker = index;
        task.stopping = false;
        let (seq, held) = (task.seq, task.held);
        if let Some(timeout) = task.spec.timeout_ms {
            let limit = now.plus_ms(timeout).plus_ms(self.options.stop_grace_ms);
            self.timers.add(limit, Timer::Overdue(seq));
        }
        let tasks = &self.tasks;
        let worker = self.workers.get_mut(index);
        if worker.leased == 0 {
            worker.holding_since = now;
        }
        worker.leased += 1;
        worker.tidy_notes(|note| {
            tasks.at(note.row).is_some_and(|task| task.token == note.token && task.worker == index)
        });
        let note = Note { at: now, seq, row, token };
        let key = worker.key;
        if held {
            worker.old.push(note);
        } else {
            worker.young.push_back(note);
        }
        self.take_place(now, note, index);
        let worker = self.workers.get_mut(index);
        if !held && !std::mem::replace(&mut worker.held_timer, true) {
            self.timers.add(now.plus_ms(self.options.held_after_ms), Timer::Held(key));
        }
        if !std::mem::replace(&mut worker.lease_timer, true) {
            self.timers.add(now.plus_ms(self.options.lease_ms), Timer::Lease(key));
        }
        self.workers.load_changed(index);
    }
}
