//! Workers and what they hold: how they join and leave, how leases are renewed, run out and are taken over, and which
//! attempts are recorded as held.
//!
//! A lease is renewed by any sign of life of its worker and needs no message of its own. A worker without leases may
//! be silent for as long as its connection lasts; what a broken connection means is decided in `away`. Timers are per
//! worker, so short attempts cost none.
//!
//! Of all attempts of a task that workers may still have after a crash of the server, only the last can be gone on
//! with. A first grant is not recorded; any grant that follows one of which no fact tells is recorded at once, by its
//! token alone, and an attempt that is adopted as held. So an attempt without a record is the first of its server start, and
//! only attempts of the start before this one are adopted; if a token is recorded, only the attempt with that one is.
//!
//! When a worker is lost, what it has presumably begun counts as an attempt; what waited there for a slot is given back
//! uncounted.

use divvy_types::{
    Fact, Name, Seq, TaskId, TaskState, Timestamp, Token, WorkerHello, WorkerKey, WorkerTier,
};

use crate::lanes::End;
use crate::places::{QUEUED, UNMEASURED};
use crate::profile::Profile;
use crate::table::{NOBODY, Row, Task};
use crate::timers::Timer;
use crate::workers::{Note, TierKey, Worker};
use crate::{Action, Scheduler};

impl Scheduler {
    pub(crate) fn worker_joined(
        &mut self,
        now: Timestamp,
        worker: WorkerKey,
        hello: WorkerHello<Seq>,
    ) {
        self.worker_left(now, worker);
        let tiers = tiers_of(&hello);
        if !self.came_back(now, worker, &hello, &tiers) {
            for (number, tier) in (0..).zip(&tiers) {
                self.tier_joined(now, TierKey { worker, tier: number }, &hello, tier);
            }
        }
        for (seq, token) in hello.held {
            if !self.take_over(now, seq, token, worker) {
                let task = self.tasks.find(seq);
                let cancel = task.filter(|task| task.stopping && task.token == token);
                let cancel = cancel.and_then(|task| task.links.as_ref()?.cancel.clone());
                let reason = cancel.unwrap_or(Name::const_new("no longer yours"));
                let task = task.map_or(TaskId(0), |task| task.spec.id);
                self.actions.push_back(Action::StopAttempt { worker, seq, task, token, reason });
            }
        }
    }

    fn tier_joined(
        &mut self,
        now: Timestamp,
        key: TierKey,
        hello: &WorkerHello<Seq>,
        tier: &WorkerTier,
    ) {
        let (group, new) = self.workers.intern_group(Profile::of(hello, tier));
        if new {
            self.group_added(group);
        }
        let identity = (hello.name.clone(), hello.instance.clone());
        let mut worker = Worker::new(key, identity, group, now);
        worker.credit = tier.credit;
        worker.slots = tier.slots;
        worker.known = self.learning.meet(&worker.name);
        let index = self.workers.add(worker);
        if self.workers.group(group).active.len() == 1 {
            self.activity_began(group);
        }
        self.mark_worker(index);
    }

    /// Lets a worker go on with an attempt of an earlier connection, if nothing has replaced it.
    fn take_over(&mut self, now: Timestamp, seq: Seq, token: Token, worker: WorkerKey) -> bool {
        let Some(row) = self.tasks.row_of(seq) else { return false };
        let task = &self.tasks[row];
        let Some(index) = self.workers.tier_for(worker, &task.spec.kind) else { return false };
        match task.state {
            TaskState::Leased if task.token == token && task.worker == NOBODY => {
                self.adopt_unclaimed(now, row, index);
                true
            }
            // The same process on a new connection, which took everything that it held with it, or must move each.
            TaskState::Leased if task.token == token => {
                let (holder, joined) = (self.workers.get(task.worker), self.workers.get(index));
                let same = holder.name == joined.name && holder.instance == joined.instance;
                if !same || task.stopping {
                    return false;
                }
                if holder.key.worker == worker {
                    return true;
                }
                let (held, begun) = (task.held, task.begun);
                self.end_lease(row);
                self.tasks[row].held = held;
                self.lease(now, row, index, token);
                self.began_before(row, begun);
                true
            }
            TaskState::Ready | TaskState::Scheduled => self.adopt_waiting(now, row, token, index),
            _ => false,
        }
    }

    /// Gives an attempt that was running when the server stopped back to its worker.
    pub(crate) fn adopt_unclaimed(&mut self, now: Timestamp, row: Row, index: u32) {
        let Task { token, held, begun, .. } = self.tasks[row];
        self.end_lease(row);
        self.tasks[row].held = held;
        self.lease(now, row, index, token);
        self.began_before(row, begun);
    }

    /// Adopts an attempt that had run too shortly before a restart to be recorded as held. Its token must be the one that
    /// is recorded as granted last. If none is, it must be from the start before this one, and no attempt may be known
    /// to have failed: it could have been this one.
    fn adopt_waiting(&mut self, now: Timestamp, row: Row, token: Token, index: u32) -> bool {
        let task = &mut self.tasks[row];
        let last = if task.token == Token::default() {
            token.epoch() + 1 == self.options.epoch && task.attempts == 0 && !task.retried
        } else {
            // What was granted in this start has been given back since.
            task.token == token && task.given_back && token.epoch() < self.options.epoch
        };
        if !task.recovered || !last {
            return false;
        }
        task.given_back = false;
        let (state, due, seq) = (task.state, task.ready_at, task.seq);
        self.lease_held(now, row, index, token);
        if state == TaskState::Ready {
            self.unqueue(row, now);
        } else {
            self.timers.remove(due, Timer::Due(seq));
            self.tasks[row].ready_at = due.min(now);
        }
        true
    }

    pub(crate) fn worker_seen(&mut self, now: Timestamp, key: WorkerKey) {
        self.workers.seen(key, now);
    }

    pub(crate) fn worker_draining(&mut self, key: WorkerKey) {
        for index in self.tiers_of(key) {
            self.workers.get_mut(index).draining = true;
            self.stop_offering(index);
        }
    }

    /// Lets a worker rest, or ends its rest.
    pub(crate) fn worker_paused(&mut self, key: WorkerKey, paused: bool) {
        for index in self.tiers_of(key) {
            let was_resting = self.workers.get(index).is_resting();
            self.workers.get_mut(index).paused = paused;
            match (was_resting, self.workers.get(index).is_resting()) {
                (false, true) => self.stop_offering(index),
                (true, false) => self.offer_again(index),
                _ => {}
            }
        }
    }

    pub(crate) fn worker_left(&mut self, now: Timestamp, key: WorkerKey) {
        self.worker_draining(key);
        for index in self.tiers_of(key) {
            self.tier_left(now, index);
        }
    }

    pub(crate) fn tiers_of(&self, key: WorkerKey) -> Vec<u32> {
        self.workers.tiers_of(key).collect()
    }

    fn tier_left(&mut self, now: Timestamp, index: u32) {
        let name = self.workers.get(index).name.clone();
        // Told apart before the first one ends, because then the next in line would seem to begin.
        let leases: Vec<(Row, bool)> = self
            .leases_of(index)
            .iter()
            .map(|note| (note.row, self.is_queued(note, index)))
            .collect();
        for (row, queued) in leases {
            if !queued {
                self.lost(now, row, &name);
            } else if self.tasks[row].stopping {
                self.cancel_stopped(now, row);
            } else {
                self.give_back(now, row);
            }
        }
        let (worker, group) = self.workers.remove(index);
        self.learning.part(worker.known);
        if let Some(group) = group {
            self.group_removed(worker.group, &group);
        }
    }

    /// What a worker holds. Each that is given back goes to the front of its lane, so the last one granted comes first.
    pub(crate) fn leases_of(&self, index: u32) -> Vec<Note> {
        let worker = self.workers.get(index);
        let notes = worker.old.iter().chain(&worker.young);
        let mut notes: Vec<Note> = notes.filter(|note| self.runs(note, index)).copied().collect();
        notes.sort_unstable_by_key(|note| std::cmp::Reverse(note.token));
        notes
    }

    /// Offers a worker no more tasks.
    pub(crate) fn stop_offering(&mut self, index: u32) {
        self.workers.deactivate(index);
        let group = self.workers.get(index).group;
        if self.workers.group(group).active.is_empty() {
            self.activity_ended(group);
        }
        self.mark_kept_out();
    }

    /// Puts a task that was not begun back to where it came from.
    pub(crate) fn give_back(&mut self, now: Timestamp, row: Row) {
        let ready_at = self.tasks[row].ready_at;
        self.end_without_fact(row);
        self.make_ready(row, now, ready_at, End::Front);
    }

    /// Ends the lease of a task whose attempt is given back, and does not count. If it is recorded as held, that nobody
    /// holds it any more is recorded too: a restart would wait for its worker, and count it as lost.
    pub(crate) fn end_without_fact(&mut self, row: Row) {
        let (held, token) = (self.tasks[row].held, self.tasks[row].token);
        self.end_lease(row);
        self.tasks[row].given_back = true;
        if held {
            self.record_granted(row, token);
        }
    }

    pub(crate) fn runs(&self, note: &Note, worker: u32) -> bool {
        self.tasks
            .at(note.row)
            .is_some_and(|task| task.token == note.token && task.worker == worker)
    }

    /// Ends the lease of a task, whoever holds it, and returns the holder's name. The task's state is the caller's.
    pub(crate) fn end_lease(&mut self, row: Row) -> Name {
        let task = &mut self.tasks[row];
        let (seq, since) = (task.seq, task.since);
        let index = std::mem::replace(&mut task.worker, NOBODY);
        task.held = false;
        if std::mem::replace(&mut task.stopping, false) {
            let links = task.links();
            links.cancel = None;
            let stop_by = links.stop_by;
            self.timers.remove(stop_by, Timer::StopGrace(seq));
        }
        if !task.spec.limits.is_empty() {
            self.limits.end(&task.spec.limits);
        }
        if index == NOBODY {
            self.timers.remove(since.plus_ms(self.options.lease_ms), Timer::Unclaimed(seq));
            task.begun = QUEUED;
            return task.links().holder.take().unwrap_or_default();
        }
        if let Some(timeout) = task.spec.timeout_ms {
            let limit = since.plus_ms(timeout).plus_ms(self.options.stop_grace_ms);
            self.timers.remove(limit, Timer::Overdue(seq));
        }
        let (token, begun) = (task.token, std::mem::replace(&mut task.begun, QUEUED));
        self.trial_over(row, index);
        self.recall_over(seq, token);
        self.workers.get_mut(index).leased -= 1;
        self.leave_place(row, begun, index);
        let worker = self.workers.get(index);
        let (name, waiting) = (worker.name.clone(), worker.is_waiting());
        if waiting {
            self.mark_worker(index);
        }
        self.workers.load_changed(index);
        name
    }

    /// Records attempts of a worker that have run for a while.
    pub(crate) fn note_held(&mut self, now: Timestamp, key: TierKey) {
        let Some(index) = self.workers.index_of(key) else { return };
        self.workers.get_mut(index).held_timer = false;
        while let Some(note) = self.workers.get(index).young.front().copied() {
            let due = note.at.plus_ms(self.options.held_after_ms);
            let runs = self.runs(&note, index);
            let worker = self.workers.get_mut(index);
            if runs && due > now {
                worker.held_timer = true;
                self.timers.add(due, Timer::Held(key));
                return;
            }
            worker.young.pop_front();
            if runs {
                worker.old.push(note);
                self.record_held(note, index);
            }
        }
    }

    fn record_held(&mut self, note: Note, index: u32) {
        self.tasks[note.row].held = true;
        self.record_holder(note.row, index);
    }

    /// Records who runs an attempt, and since when.
    pub(crate) fn record_holder(&mut self, row: Row, index: u32) {
        let Task { seq, token, begun, .. } = self.tasks[row];
        let began = if begun == UNMEASURED { QUEUED } else { begun };
        let worker = self.workers.get(index).name.clone();
        self.record(Fact::Held { seq, token, began, worker });
    }

    /// Records which attempt of a task was granted last, so that no earlier one is gone on with after a crash. It may not
    /// have begun, or was given back: nobody waits for its worker, and it does not count as lost.
    pub(crate) fn record_granted(&mut self, row: Row, token: Token) {
        let (seq, worker) = (self.tasks[row].seq, Name::default());
        self.record(Fact::Held { seq, token, began: QUEUED, worker });
    }

    /// Puts an attempt that began unseen into a worker's hands, and records that at once.
    fn lease_held(&mut self, now: Timestamp, row: Row, index: u32, token: Token) {
        self.tasks[row].held = true;
        self.lease(now, row, index, token);
        self.began_before(row, QUEUED);
        self.record_holder(row, index);
    }

    pub(crate) fn server_stopping(&mut self) {
        self.stopping = true;
        for index in self.workers.indices() {
            let notes = std::mem::take(&mut self.workers.get_mut(index).young);
            for note in notes {
                if self.runs(&note, index) {
                    self.workers.get_mut(index).old.push(note);
                    self.record_held(note, index);
                }
            }
        }
    }

    /// Gives a worker up that holds leases and was silent for too long.
    pub(crate) fn check_lease(&mut self, now: Timestamp, key: TierKey) {
        let Some(index) = self.workers.index_of(key) else { return };
        let worker = self.workers.get_mut(index);
        worker.lease_timer = false;
        if worker.leased == 0 || worker.away_until.is_some() {
            return;
        }
        let expires_at = worker.seen_at.max(worker.holding_since).plus_ms(self.options.lease_ms);
        if expires_at > now {
            worker.lease_timer = true;
            return self.timers.add(expires_at, Timer::Lease(key));
        }
        self.actions.push_back(Action::DropWorker { worker: key.worker });
        self.worker_left(now, key.worker);
    }

    /// Nobody claimed an attempt that was running when the server stopped.
    pub(crate) fn lease_unclaimed(&mut self, now: Timestamp, seq: Seq) {
        let Some(row) = self.tasks.row_of(seq) else { return };
        if self.tasks[row].state == TaskState::Leased && self.tasks[row].worker == NOBODY {
            let holder = self.tasks[row].links().holder.clone().unwrap_or_default();
            self.lost(now, row, &holder);
        }
    }

    /// An attempt has run past its time-out, and its worker was given time to say so.
    pub(crate) fn attempt_overdue(&mut self, now: Timestamp, seq: Seq) {
        let Some(row) = self.tasks.row_of(seq) else { return };
        let task = &self.tasks[row];
        if task.state != TaskState::Leased || task.worker == NOBODY {
            return;
        }
        let worker = self.workers.get(task.worker).key.worker;
        let (id, token, stopping) = (task.spec.id, task.token, task.stopping);
        if stopping {
            return self.cancel_stopped(now, row);
        }
        let reason = Name::const_new("timed out");
        self.actions.push_back(Action::StopAttempt { worker, seq, task: id, token, reason });
        self.timed_out(now, row);
    }
}

/// The tiers of a worker; one that has none is a whole.
fn tiers_of(hello: &WorkerHello<Seq>) -> Vec<WorkerTier> {
    if !hello.tiers.is_empty() {
        return hello.tiers.clone();
    }
    let (kinds, credit) = (hello.kinds.clone(), hello.credit);
    let slots = if hello.slots == 0 { credit } else { hello.slots };
    vec![WorkerTier { kinds, credit, slots }]
}
