//! How tasks get into streams and out of them, how classes and streams come and go, and what a pause does.
//!
//! Which stream is served next is decided in `pick`.

use divvy_types::{Fact, Lane, Name, Seq, TaskSpec, TaskState, Timestamp};

use crate::Scheduler;
use crate::streams::{Entry, NONE, StreamKey};
use crate::table::{Row, band_of};
use crate::timers::Timer;

/// Where in a stream a task goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Behind those that wait.
    Back,
    /// Before those that became ready later: it has waited its turn once.
    Front,
}

impl Scheduler {
    /// The class of a spec; a new one if need be.
    pub(crate) fn class_of(&mut self, spec: &TaskSpec) -> u32 {
        if let Some(class) = self.classes.find(spec) {
            return class;
        }
        self.add_class(spec, None)
    }

    /// A new class.
    pub(crate) fn add_class(&mut self, spec: &TaskSpec, avoids: Option<&Name>) -> u32 {
        self.sweep_classes();
        let queue = self.queues.intern(&spec.queue);
        self.queues.get_mut(queue).classes += 1;
        let index = self.classes.add(spec, avoids, queue);
        self.class_added(index);
        index
    }

    fn sweep_classes(&mut self) {
        for index in self.classes.unused() {
            for stream in self.classes.get(index).plain {
                if stream != NONE {
                    self.drop_stream(stream);
                }
            }
            let class = self.classes.remove(index);
            self.class_removed(index, &class);
            self.queues.get_mut(class.queue).classes -= 1;
            self.drop_queue_if_unused(class.queue);
        }
    }

    fn drop_queue_if_unused(&mut self, queue: u32) {
        if self.queues.drop_if_unused(queue) {
            self.shares.forget_queue(queue);
        }
    }

    /// The stream of a spec; a new one if need be.
    pub(crate) fn stream_of(&mut self, spec: &TaskSpec, class: u32, now: Timestamp) -> u32 {
        let band = band_of(spec.priority);
        let is_plain = spec.fair_key.is_none() && spec.limits.is_empty();
        let plain = self.classes.get(class).plain[band];
        if is_plain && plain != NONE {
            return plain;
        }
        let queue = self.classes.get(class).queue;
        let weight = spec.fair_key.as_ref().map_or(1, |key| self.queues.key_weight(queue, key));
        let key = self.shares.intern(queue, spec.fair_key.as_ref(), weight);
        let limits = self.limits.intern(&spec.limits, &self.settings, now);
        let id = StreamKey { class, band: band as u8, key, limits };
        if let Some(found) = self.streams.find(&id) {
            self.shares.release(key);
            self.limits.release(limits);
            return found;
        }
        let stream = self.streams.add(id, Lane::of(spec));
        if is_plain {
            self.classes.get_mut(class).plain[band] = stream;
        }
        stream
    }

    /// Forgets a stream if it holds nothing, here or in the store.
    fn drop_stream(&mut self, index: u32) {
        if let Some(stream) = self.streams.remove_unused(index) {
            if stream.waits_on != NONE {
                self.limits.stop_waiting(stream.waits_on, stream.ticket);
            }
            self.shares.release(stream.id.key);
            self.limits.release(stream.id.limits);
            let plain = &mut self.classes.get_mut(stream.id.class).plain;
            if plain[usize::from(stream.id.band)] == index {
                plain[usize::from(stream.id.band)] = NONE;
            }
        }
    }

    /// Forgets a stream that holds nothing, unless it is one that its class keeps.
    pub(crate) fn tidy_stream(&mut self, index: u32) {
        let id = self.streams.get(index).id;
        if self.classes.get(id.class).plain[usize::from(id.band)] != index {
            self.drop_stream(index);
        }
    }

    /// Makes a task ready as of `ready_at` and puts it into its stream.
    pub(crate) fn make_ready(&mut self, row: Row, now: Timestamp, ready_at: Timestamp, end: End) {
        self.set_state(row, TaskState::Ready, now);
        self.tasks[row].ready_at = ready_at;
        self.enqueue(row, end, now);
    }

    /// Puts a task that has become ready into its stream.
    pub(crate) fn enqueue(&mut self, row: Row, end: End, now: Timestamp) {
        let queue = self.classes.get(self.tasks[row].class).queue;
        if self.queues.get(queue).counts.ready <= 1 {
            self.queues.activate(queue);
        }
        self.hold_back(row, now);
        self.enter_stream(row, end, now);
    }

    /// What both ways into a stream have in common.
    pub(crate) fn enter_stream(&mut self, row: Row, end: End, now: Timestamp) {
        let task = &self.tasks[row];
        let entry = Entry { ready_at: task.ready_at, seq: task.seq, row };
        let (class, bytes) = (task.class, task.payload_bytes());
        let spec = task.spec.clone();
        self.ready_tasks += 1;
        self.ready_bytes += bytes;
        let index = self.stream_of(&spec, class, now);
        self.tasks[row].stream = index;
        let latest = spec.deadline.map(|deadline| self.latest_start(&spec, deadline));
        let queue = self.classes.get(class).queue;
        self.shares.arrived(self.streams.get(index).id.key);
        let stream = self.streams.get_mut(index);
        match end {
            End::Back => stream.push_back(entry, latest),
            End::Front => stream.push_front(entry, latest),
        }
        if latest.is_some() || stream.is_first(entry) || stream.listed.is_none() {
            self.relist(index, now);
        }
        if !self.queues.get(queue).paused && self.streams.get(index).listed.is_some() {
            self.mark_class(class);
        }
    }

    /// The latest moment at which a task can start and be done in time, as far as its run time is known.
    pub(crate) fn latest_start(&self, spec: &TaskSpec, deadline: Timestamp) -> Timestamp {
        let run = self.estimate_us(spec).unwrap_or(0);
        Timestamp(deadline.0.saturating_sub(run))
    }

    /// Puts a stream under what it has now, or takes it off if it is empty or kept by a limit.
    pub(crate) fn relist(&mut self, index: u32, now: Timestamp) {
        let stream = self.streams.get_mut(index);
        let id = stream.id;
        let before = stream.listed;
        let tag = self.shares.get(id.key).tag;
        let mut after = stream.listing(&self.tasks, tag);
        if after.is_some() && stream.waits_on != NONE {
            after = None;
        } else if after.is_some()
            && id.limits != NONE
            && let Some(limit) = self.limits.blocker(id.limits, now)
        {
            after = None;
            self.wait_for_limit(index, limit, now);
        }
        let class = self.classes.get_mut(id.class);
        let band = &mut class.bands[usize::from(id.band)];
        match (before, after) {
            (None, None) => return,
            (None, Some(after)) => band.list(index, after),
            (Some(before), None) => band.unlist(index, before),
            (Some(before), Some(after)) if before != after => band.relist(index, before, after),
            (Some(_), Some(_)) => return,
        }
        if let Some(after) = &after {
            self.turns.seen(usize::from(id.band), after.oldest());
        }
        let runnable = !band.is_empty() && !self.queues.get(class.queue).paused;
        self.classes.runnable[usize::from(id.band)].set(id.class, runnable);
        self.classes.urgency_changed(id.class, usize::from(id.band), self.turns.patience_us);
        self.streams.get_mut(index).listed = after;
    }

    fn wait_for_limit(&mut self, stream: u32, limit: u32, now: Timestamp) {
        let (ticket, next) = self.limits.wait(limit, stream, now);
        let stream = self.streams.get_mut(stream);
        (stream.waits_on, stream.ticket) = (limit, ticket);
        if let Some(next) = next {
            self.timers.add(next, Timer::Limit(limit));
        }
    }

    /// Lets streams come back whose limits let something through again.
    pub(crate) fn wake_limited(&mut self, now: Timestamp) {
        if !self.limits.any_freed() {
            return;
        }
        let mut again = Vec::new();
        let woken = self.limits.wake(now, &mut again);
        for (limit, next) in again {
            self.timers.add(next, Timer::Limit(limit));
        }
        for index in woken {
            self.unblock_stream(index, now);
        }
    }

    /// Looks again at a stream that waited for a limit.
    pub(crate) fn unblock_stream(&mut self, index: u32, now: Timestamp) {
        self.streams.get_mut(index).waits_on = NONE;
        self.relist(index, now);
        if self.streams.get(index).listed.is_some() {
            self.mark_class(self.streams.get(index).id.class);
        }
        self.tidy_stream(index);
    }

    /// Takes a ready task out of its stream; the caller changes its state first, so that its entry is void.
    pub(crate) fn unqueue(&mut self, row: Row, now: Timestamp) {
        debug_assert_ne!(self.tasks[row].state, TaskState::Ready);
        let stream = self.tasks[row].stream;
        self.streams.get_mut(stream).left(&self.tasks);
        self.relist(stream, now);
        self.left_stream(row);
    }

    /// What both ways out of a stream have in common.
    pub(crate) fn left_stream(&mut self, row: Row) {
        let task = &mut self.tasks[row];
        let index = std::mem::replace(&mut task.stream, NONE);
        let bytes = task.payload_bytes();
        self.hold_no_more(row);
        self.one_less_in(index, bytes);
    }

    /// A task of so many bytes is not in this stream any more.
    pub(crate) fn one_less_in(&mut self, index: u32, bytes: usize) {
        self.ready_tasks -= 1;
        self.ready_bytes -= bytes;
        let stream = self.streams.get(index);
        self.shares.left(stream.id.key);
        if stream.spilled {
            self.refill(stream.lane);
        }
        if self.streams.get(index).live == 0 {
            self.tidy_stream(index);
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
            self.drop_queue_if_unused(queue);
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
            for band in 0..5 {
                let front = self.classes.get(index).bands[band].front();
                self.classes.runnable[band].set(index, !paused && front.is_some());
                if let Some(front) = front {
                    self.turns.seen(band, front.oldest.0);
                }
            }
            if !paused {
                self.mark_class(index);
            }
        }
        if !paused {
            self.queues.activate(queue);
            self.refill_all();
        }
        self.drop_queue_if_unused(queue);
    }
}
