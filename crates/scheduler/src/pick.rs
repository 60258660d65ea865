//! Who gets what: the best task for a worker, and the best worker for a task.
//!
//! A task that becomes ready goes into its stream; at the end of the step, classes that got something are matched with
//! waiting workers. So after every step no worker waits that could run a ready task, a flood of submissions never
//! searches for workers in vain, and an idle worker causes no action. The cost of a pick grows with the classes that
//! the worker serves and that have something to run, never with tasks.
//!
//! **Order.** Of the tasks that a worker can run, which leaves out those of paused queues and those kept by a limit:
//! 1. *Priority.* The highest goes first. A lower one whose oldest task has waited one ageing time for each step
//!    between them takes part: then starts are divided 16 : 8 : 4 : 2 : 1 between priorities 5 to 1. So nothing
//!    starves: after `4 × ageing`, priority 1 gets at least one of 31 starts, however much of priority 5 comes in.
//! 2. *Queue.* By weight if any queue has one; those that are level, and all of them if none has a weight, by the
//!    most urgent task.
//! 3. *Slack.* The most urgent task is the one whose deadline leaves the least time to spare. One without a deadline
//!    counts as if it had to start within the patience time after it became ready, and one with a deadline counts by
//!    that alone, however long it has waited. If the most urgent task of the queue has a deadline, it goes.
//! 4. *Fair share.* Otherwise the key that is the furthest behind its share of the queue. Of streams that are level,
//!    the one with the oldest task; of a stream, the most urgent task.
//! 5. *Age.* Who became ready first; a task that is given back keeps its age.

use std::sync::Arc;

use divvy_types::settings::{FairBy, Ordering};
use divvy_types::view::{PlacedBy, TaskChange};
use divvy_types::{TaskState, Timestamp, Token};

use crate::bands::Front;
use crate::shares::TASK_COST;
use crate::streams::NONE;
use crate::table::Row;
use crate::timers::Timer;
use crate::workers::Note;
use crate::{Action, Grant, Scheduler};

/// How far each priority has got, lowest first, where they compete.
#[derive(Debug)]
pub(crate) struct Turns {
    /// How much waiting makes up for one step of priority.
    ageing_us: u64,
    /// Within what time tasks without deadlines count as having to start.
    pub(crate) patience_us: u64,
    pass: [u64; 5],
    time: u64,
    /// No task that may be served is older than this, by band.
    oldest: [Timestamp; 5],
}

/// What a start costs the highest priority; each step below costs twice as much.
const TURN_COST: u64 = 1;

impl Turns {
    pub(crate) fn new(ordering: &Ordering) -> Self {
        let (pass, time, oldest) = ([0; 5], 0, [Timestamp(0); 5]);
        let mut turns = Self { ageing_us: 0, patience_us: 0, pass, time, oldest };
        turns.redefine(ordering);
        turns
    }

    /// Uses these settings from now on.
    pub(crate) fn redefine(&mut self, ordering: &Ordering) {
        self.ageing_us = (ordering.ageing_sec * 1e6) as u64;
        self.patience_us = (ordering.patience_sec * 1e6) as u64;
    }

    /// Something of this age may be served in this band.
    pub(crate) fn seen(&mut self, band: usize, oldest: Timestamp) {
        self.oldest[band] = self.oldest[band].min(oldest);
    }

    /// The band whose turn it is among these.
    fn next(&mut self, bands: &[bool; 5]) -> usize {
        let contenders = (0..5).rev().filter(|band| bands[*band]);
        let time = self.time;
        let chosen = contenders.min_by_key(|band| self.pass[*band].max(time)).unwrap_or(0);
        self.time = self.pass[chosen].max(time);
        self.pass[chosen] = self.time + (TURN_COST << (4 - chosen));
        chosen
    }
}

impl Scheduler {
    /// Matches what the step left to be matched.
    pub(crate) fn dispatch(&mut self, now: Timestamp) {
        if self.recovering || self.stopping {
            return;
        }
        loop {
            // First, so that who waited for a limit takes part in what follows.
            self.wake_limited(now);
            while let Some(index) = self.dirty_classes.pop() {
                self.classes.get_mut(index).dirty = false;
                while let Some(worker) = self.worker_for_class(now, index) {
                    if !self.grant_next(now, worker, PlacedBy::Score) {
                        break;
                    }
                }
            }
            while let Some(index) = self.dirty_workers.pop() {
                // A worker that left within the step may still be listed.
                if self.workers.at_mut(index).is_none() {
                    continue;
                }
                while self.workers.get(index).is_waiting()
                    && self.grant_next(now, index, PlacedBy::Turn)
                {}
                self.workers.get_mut(index).dirty = false;
                self.workers.load_changed(index);
                self.pull(now, index);
            }
            if !self.limits.any_freed() {
                break;
            }
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
        let Some(index) = self.best_for(now, worker) else { return false };
        let patience = self.patience_us();
        let stream = self.streams.get_mut(index);
        let Some((entry, is_timed)) = stream.head(patience) else { return false };
        stream.pop(is_timed);
        let (id, row) = (stream.id, entry.row);
        if id.limits != NONE {
            let facts = self.limits.take(id.limits, now);
            self.actions.extend(facts.into_iter().map(Action::Record));
        }
        self.charge(row, id.key);
        self.grants += 1;
        let token = Token::new(self.options.epoch, self.grants);
        if std::mem::replace(&mut self.tasks[row].given_back, false) {
            self.record_granted(row, token);
        }
        self.lease(now, row, worker, token);
        let waited_us = self.note_grant(now, row, worker, by);
        self.relist(index, now);
        self.left_stream(row);
        let task = &self.tasks[row];
        let spec = task.spec.clone();
        let parents = task
            .links
            .as_ref()
            .map_or_else(Vec::new, |links| links.parents.iter().map(|e| e.seq).collect());
        let (seq, attempt, checkpointed) = (task.seq, task.attempts + 1, task.checkpointed);
        let holder = self.workers.get(worker);
        let (key, name) = (holder.key.worker, holder.name.clone());
        self.actions.push_back(Action::Grant(Grant {
            worker: key,
            seq,
            token,
            attempt,
            spec: Arc::clone(&spec),
            parents,
            checkpointed,
            waited_us,
        }));
        self.announce(|| TaskChange {
            worker: Some(name),
            token: Some(token),
            ..TaskChange::of(&spec, TaskState::Leased, now)
        });
        true
    }

    pub(crate) fn patience_us(&self) -> u64 {
        self.turns.patience_us
    }

    /// Charges queue and fair key for a start.
    fn charge(&mut self, row: Row, key: u32) {
        let queue = self.shares.get(key).queue;
        self.queues.charge(queue);
        if !self.shares.is_shared(queue) {
            return;
        }
        let cost = match self.queues.get(queue).fair_by {
            FairBy::Tasks => TASK_COST,
            FairBy::Time => {
                let expected = self.estimate_us(&self.tasks[row].spec).unwrap_or(TASK_COST).max(1);
                let charged_ms = u32::try_from(expected.div_ceil(1_000)).unwrap_or(u32::MAX);
                self.tasks[row].charged_ms = charged_ms;
                u64::from(charged_ms) * 1_000
            }
        };
        self.shares.charge(key, cost);
    }

    /// Corrects what a fair key was charged, now that the run time is known.
    pub(crate) fn correct_share(&mut self, now: Timestamp, row: Row) {
        let charged_ms = std::mem::take(&mut self.tasks[row].charged_ms);
        if charged_ms == 0 {
            return;
        }
        let task = &self.tasks[row];
        let queue = self.classes.get(task.class).queue;
        if let Some(key) = self.shares.find(queue, task.spec.fair_key.as_ref()) {
            let ran_us = now.0.saturating_sub(task.since.0);
            self.shares.correct(key, u64::from(charged_ms) * 1_000, ran_us);
        }
    }

    /// The stream whose turn it is, among those that the worker can serve.
    fn best_for(&mut self, now: Timestamp, worker: u32) -> Option<u32> {
        let (top, first) =
            (0..5).rev().find_map(|band| Some((band, self.choose_stream(now, worker, band)?)))?;
        let mut contenders = self.aged_below(now, worker, top);
        if !contenders.contains(&true) {
            return Some(first);
        }
        contenders[top] = true;
        let band = self.turns.next(&contenders);
        if band == top {
            return Some(first);
        }
        self.choose_stream(now, worker, band).or(Some(first))
    }

    /// Lower priorities that take part, because something that the worker can run has waited long enough.
    fn aged_below(&mut self, now: Timestamp, worker: u32, top: usize) -> [bool; 5] {
        let ageing = self.turns.ageing_us;
        let mut aged = [false; 5];
        for (band, aged) in aged.iter_mut().enumerate().take(top) {
            let needed = (top - band) as u64 * ageing;
            let waited = |oldest: Timestamp| now.0.saturating_sub(oldest.0) >= needed;
            if !waited(self.turns.oldest[band]) {
                continue;
            }
            let fronts = self.classes.runnable[band].iter();
            let oldest = fronts.filter_map(|class| Some(self.front(class, band)?.oldest.0)).min();
            self.turns.oldest[band] = oldest.unwrap_or(now);
            *aged = oldest.is_some_and(waited)
                && self.oldest_for(now, worker, band).is_some_and(waited);
        }
        aged
    }

    /// When the oldest task of a priority became ready that the worker can run.
    fn oldest_for(&mut self, now: Timestamp, worker: u32, band: usize) -> Option<Timestamp> {
        loop {
            let fronts = self.served(worker, band).filter_map(|class| self.front(class, band));
            let (oldest, stream) = fronts.map(|front| front.oldest).min()?;
            if self.is_current(stream, now) {
                return Some(oldest);
            }
        }
    }

    fn front(&self, class: u32, band: usize) -> Option<Front> {
        self.classes.get(class).bands[band].front()
    }

    /// Classes that have something of a priority for workers of this group.
    #[inline]
    fn runnable(&self, worker: u32, band: usize) -> impl Iterator<Item = u32> {
        let group = self.workers.group(self.workers.get(worker).group);
        group.classes.common(&self.classes.runnable[band])
    }

    /// Those of them that this worker may be given now.
    fn served(&self, worker: u32, band: usize) -> impl Iterator<Item = u32> {
        self.runnable(worker, band).filter(move |class| self.may_run(worker, *class, band))
    }

    fn choose_stream(&mut self, now: Timestamp, worker: u32, band: usize) -> Option<u32> {
        loop {
            let (deciding, stream) = self.first_stream(worker, band)?;
            if self.is_current(deciding, now)
                && (stream == deciding || self.is_current(stream, now))
            {
                return Some(stream);
            }
        }
    }

    /// Whether a stream stands where it should; puts it there if not. Since it was listed, its key may have been
    /// served elsewhere, or its limit may have filled up.
    fn is_current(&mut self, stream: u32, now: Timestamp) -> bool {
        let found = self.streams.get(stream);
        let queue = self.classes.get(found.id.class).queue;
        if found.id.limits == NONE && !self.shares.is_shared(queue) {
            return true;
        }
        let before = found.listed;
        self.relist(stream, now);
        self.streams.get(stream).listed == before
    }

    /// The stream that is first by what is listed, and the stream of the most urgent task, which decided so.
    fn first_stream(&self, worker: u32, band: usize) -> Option<(u32, u32)> {
        let (mut least, mut best) = ((u64::MAX, u64::MAX, true), None);
        for class in self.runnable(worker, band) {
            let share = if self.queues.weighted {
                self.queues.get(self.classes.get(class).queue).tag
            } else {
                0
            };
            // Of equal age, what was begun before goes first, as it would in its old stream.
            let fresh = !self.classes.avoiding.contains(class);
            let rank = (share, self.classes.urgency(class, band), fresh);
            // Asked last, because it costs more than to compare.
            if (best.is_none() || rank < least) && self.may_run(worker, class, band) {
                (least, best) = (rank, Some(class));
            }
        }
        let class = best?;
        let queue = self.classes.get(class).queue;
        let (_, urgent, is_timed) = self.front(class, band)?.urgency(self.patience_us());
        if is_timed || !self.shares.is_shared(queue) {
            return Some((urgent, urgent));
        }
        let of_queue =
            self.served(worker, band).filter(|class| self.classes.get(*class).queue == queue);
        let shares = of_queue.filter_map(|class| Some(self.front(class, band)?.share));
        shares.min().map(|(_, _, stream)| (urgent, stream))
    }

    /// The first task of a class and priority, to find a worker for.
    pub(crate) fn head_of(&mut self, class: u32, band: usize, now: Timestamp) -> Option<Row> {
        let patience = self.patience_us();
        while self.classes.runnable[band].contains(class)
            && let Some(front) = self.front(class, band)
        {
            let (_, urgent, is_timed) = front.urgency(patience);
            let stream = if is_timed { urgent } else { front.share.2 };
            if self.streams.get(stream).id.limits != NONE {
                self.relist(stream, now);
                if self.streams.get(stream).listed.is_none() {
                    continue;
                }
            }
            return self.streams.get(stream).head(patience).map(|(entry, _)| entry.row);
        }
        None
    }

    /// Puts a task into a worker's hands under a token.
    pub(crate) fn lease(&mut self, now: Timestamp, row: Row, index: u32, token: Token) {
        self.set_state(row, TaskState::Leased, now);
        let task = &mut self.tasks[row];
        task.token = token;
        task.worker = index;
        task.stopping = false;
        let (seq, held) = (task.seq, task.held);
        if !task.spec.limits.is_empty() {
            let spec = task.spec.clone();
            self.limits.begin(&spec.limits, &self.settings, now);
        }
        let task = &self.tasks[row];
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
