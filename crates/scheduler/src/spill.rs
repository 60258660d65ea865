//! The window: how many ready tasks are kept in memory, and how the rest waits in the store and comes back.
//!
//! A task that is ready when it is submitted and does not fit goes to the store with its submission, and so do all
//! later ones of its lane, so that a lane stays first in, first out. When a lane runs low, its next tasks are asked
//! for. Every lane may keep a few tasks whatever the others hold, so a backlog that nobody serves shuts out no one.
//!
//! Counts can only be trusted as far as the load sees: a load is answered after everything recorded before it is
//! durable, and says whether it reached the end. What was spilled after it was asked for is counted apart. A lane is
//! believed to be empty only when a load has found its end and nothing was spilled since.

use std::collections::BTreeSet;

use divvy_types::view::TaskChange;
use divvy_types::{
    ErrorClass, Fact, Lane, Member, Name, Seq, TaskError, TaskId, TaskSpec, TaskState, Timestamp,
};

use crate::settle::{Ended, cause};
use crate::table::bytes_of;
use crate::workflows::{End, called_back_by};
use crate::{Action, RecoveredTask, Scheduler};

/// A lane with tasks in the store.
#[derive(Debug)]
pub(crate) struct Spill {
    pub(crate) stream: u32,
    /// How many wait there, as far as is known.
    pub(crate) count: u64,
    /// The last one that was loaded.
    after: Option<Seq>,
    /// How many were asked for, while a load is under way.
    loading: Option<usize>,
    /// How many were spilled since.
    fresh: u64,
    /// Which were cancelled since.
    cancelled: BTreeSet<Seq>,
}

impl Scheduler {
    /// Whether a task that is ready on arrival has to wait in the store.
    pub(crate) fn must_spill(&mut self, class: u32, spec: &TaskSpec, now: Timestamp) -> bool {
        // The store keeps a lane in the order of arrival, which is not the order of deadlines.
        if spec.deadline.is_some() {
            return false;
        }
        let full = self.ready_tasks >= self.options.window_tasks
            || self.ready_bytes >= self.options.window_bytes;
        if !full && self.spills.is_empty() {
            return false;
        }
        let stream = self.stream_of(spec, class, now);
        let stream = self.streams.get(stream);
        stream.spilled || (full && stream.live >= self.options.lane_floor_rows.max(1))
    }

    /// Whether there is room in memory for tasks that are submitted now. What is ready at once can wait in the store,
    /// and needs none.
    pub fn has_room_for<'a>(&self, specs: impl Iterator<Item = &'a TaskSpec>) -> bool {
        self.has_room_in_memory(specs.filter(|spec| self.must_stay(spec)))
    }

    /// Whether there is room in memory for tasks that are put back, which all stay there.
    pub fn has_room_in_memory<'a>(&self, specs: impl Iterator<Item = &'a TaskSpec>) -> bool {
        fits(self.options.open_bytes.saturating_sub(self.tasks.bytes()), specs)
    }

    /// Whether there is room in memory for children, which all stay there. They may take half as much again as others:
    /// what spawns them has been done, and would have to be done again.
    pub fn has_room_for_children<'a>(&self, specs: impl Iterator<Item = &'a TaskSpec>) -> bool {
        let most = self.options.open_bytes.saturating_add(self.options.open_bytes / 2);
        fits(most.saturating_sub(self.tasks.bytes()), specs)
    }

    /// Whether a new task stays in memory until it runs.
    fn must_stay(&self, spec: &TaskSpec) -> bool {
        spec.deadline.is_some()
            || spec.run_at.is_some_and(|due| due > self.now)
            || !spec.after.is_empty()
            || !spec.after_groups.is_empty()
            || called_back_by(spec, None).is_some()
    }

    /// Notes that a task of this lane was recorded as spilled.
    pub(crate) fn spill(&mut self, lane: Lane, class: u32, spec: &TaskSpec, now: Timestamp) {
        let stream = self.stream_of(spec, class, now);
        self.lane_in_store(lane, stream);
        let Some(spill) = self.spills.get_mut(&lane) else { return };
        if spill.loading.is_some() {
            spill.fresh += 1;
        }
        let count = spill.count + 1;
        self.traffic_arrived(class);
        self.set_spilled(lane, count);
        self.refill(lane);
    }

    pub(crate) fn lane_in_store(&mut self, lane: Lane, stream: u32) {
        if self.spills.contains_key(&lane) {
            return;
        }
        let kept = self.streams.get_mut(stream);
        kept.spilled = true;
        self.classes.get_mut(kept.id.class).uses += 1;
        let cancelled = BTreeSet::new();
        self.spills.insert(
            lane,
            Spill { stream, count: 0, after: None, loading: None, fresh: 0, cancelled },
        );
    }

    pub(crate) fn set_spilled(&mut self, lane: Lane, count: u64) {
        let Some(spill) = self.spills.get_mut(&lane) else { return };
        let before = std::mem::replace(&mut spill.count, count);
        let class = self.streams.get(spill.stream).id.class;
        self.queues.spilled(self.classes.get(class).queue, before, count);
        self.traffic_spilled(class, before, count);
    }

    /// Asks for the next tasks of a lane, if it runs low and there is room.
    pub(crate) fn refill(&mut self, lane: Lane) {
        if self.recovering || self.stopping {
            return;
        }
        let Some(spill) = self.spills.get_mut(&lane) else { return };
        let stream = self.streams.get(spill.stream);
        let queue = self.classes.get(stream.id.class).queue;
        if spill.loading.is_some() || self.queues.get(queue).paused {
            return;
        }
        let live = stream.live;
        let load = self.options.lane_load_rows.max(1);
        let room = self.options.window_tasks.saturating_sub(self.ready_tasks + self.loading_rows);
        let floor = self.options.lane_floor_rows.max(1);
        let low = live <= load / 2 && self.ready_bytes < self.options.window_bytes;
        let rows = if low && room > load / 4 {
            load.min(room)
        } else if live <= floor / 2 {
            floor
        } else {
            return;
        };
        spill.loading = Some(rows);
        spill.fresh = 0;
        self.loading_rows += rows;
        self.actions.push_back(Action::LoadSpilled { lane, after: spill.after, rows });
    }

    pub(crate) fn refill_all(&mut self) {
        let lanes: Vec<Lane> = self.spills.keys().copied().collect();
        for lane in lanes {
            self.refill(lane);
        }
    }

    pub(crate) fn spilled_loaded(
        &mut self,
        now: Timestamp,
        lane: Lane,
        tasks: Vec<RecoveredTask>,
        exhausted: bool,
    ) {
        let Some(spill) = self.spills.get_mut(&lane) else { return };
        self.loading_rows -= spill.loading.take().unwrap_or_default();
        let cancelled = std::mem::take(&mut spill.cancelled);
        let fresh = std::mem::take(&mut spill.fresh);
        let last = tasks.last().map(|task| task.open.seq);
        let loaded = tasks.iter().filter(|task| !cancelled.contains(&task.open.seq)).count() as u64;
        spill.after = last.or(spill.after);
        // No rows and no end would be asked for again without end.
        let exhausted = exhausted || last.is_none();
        let left =
            if exhausted { fresh } else { spill.count.saturating_sub(loaded).max(fresh).max(1) };
        self.set_spilled(lane, left);
        for mut task in tasks {
            if !cancelled.contains(&task.open.seq) && self.tasks.row_of(task.open.seq).is_none() {
                // A child counts for its spawner from its submission on; children do not spill.
                task.open.spawned_by = None;
                self.take_in_ready(now, task);
            }
        }
        if let Some(upto) = last {
            self.record(Fact::Unspilled { lane, upto });
        }
        if exhausted && fresh == 0 {
            if let Some(spill) = self.spills.remove(&lane) {
                let stream = self.streams.get_mut(spill.stream);
                stream.spilled = false;
                self.classes.get_mut(stream.id.class).uses -= 1;
                self.tidy_stream(spill.stream);
            }
        } else {
            self.refill(lane);
        }
    }

    /// Someone wants a task not to run that waits in the store.
    pub(crate) fn spilled_cancelled(
        &mut self,
        now: Timestamp,
        (seq, task): (Seq, TaskId),
        lane: Lane,
        member: Option<Member>,
        reason: Name,
    ) {
        if self.tasks.row_of(seq).is_some() {
            return self.cancel_requested(now, seq, reason);
        }
        self.record(Fact::Cancelled { seq, at: now, reason: reason.clone(), spilled: Some(lane) });
        if let Some(spill) = self.spills.get_mut(&lane) {
            if spill.loading.is_some() && !spill.cancelled.insert(seq) {
                return;
            }
            let class = self.classes.get(self.streams.get(spill.stream).id.class);
            let count = spill.count.saturating_sub(1);
            let (kind, queue) = (class.kind.clone(), class.queue_name.clone());
            self.announce(|| TaskChange {
                id: task,
                kind,
                queue,
                state: TaskState::Cancelled,
                at: now,
                worker: None,
                workflow: member.as_ref().map(|member| member.workflow),
                error: Some(TaskError::new(ErrorClass::Cancelled, &reason)),
                token: None,
                progress: None,
            });
            self.set_spilled(lane, count);
        }
        let cause = cause(Some(task), "was cancelled", &reason);
        self.member_ended(seq, member, End::Failed(&cause), true);
        let dependents = self.absent.remove(&seq).unwrap_or_default();
        self.ended.push(Ended { dependents, spawned_by: None, cause: Some(cause) });
    }
}

/// Whether tasks fit into so many bytes.
fn fits<'a>(mut bytes: usize, specs: impl Iterator<Item = &'a TaskSpec>) -> bool {
    for spec in specs {
        match bytes.checked_sub(bytes_of(spec)) {
            Some(less) => bytes = less,
            None => return false,
        }
    }
    true
}
