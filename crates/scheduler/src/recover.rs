//! Tasks that come from the store: at start, or from the spill. What it means to put one back is decided in `replay`.
//!
//! Everything that was submitted and is not final is open again. An attempt that is recorded as held stays leased,
//! to nobody, until its worker announces it or a lease time has passed.

use divvy_types::{Lane, Member, Name, OpenTask, Seq, TaskId, TaskSpec, TaskState, Timestamp};

use crate::places::QUEUED;
use crate::settle::cause;
use crate::submit::{Batch, Standing, links_of};
use crate::table::{NOBODY, Task};
use crate::timers::Timer;
use crate::workflows::called_back_by;
use crate::{ParentState, RecoveredTask, Scheduler};

impl Scheduler {
    /// A failed dependency cancels its dependents in the commit of its failure. A task that is open in spite of one
    /// was put back by someone, and does not wait for it.
    pub(crate) fn task_recovered(&mut self, now: Timestamp, mut task: RecoveredTask) {
        let RecoveredTask { open, parents } = &mut task;
        for parent in parents.iter_mut().filter(|parent| parent.state == ParentState::Failed) {
            parent.state = ParentState::Done;
        }
        let seq = open.seq;
        if let Some(spawner) = open.spawned_by {
            self.add_child(spawner, seq);
        }
        self.member_opened(seq, open.spec.member().as_ref());
        if open.attempts > 0 {
            // It has run, so it waits for nothing that is open again.
            parents.iter_mut().for_each(|parent| parent.state = ParentState::Done);
        }
        if open.retry_at.is_some() || parents.iter().any(|parent| parent.optional) {
            self.begun.insert(seq, open.retry_at.unwrap_or(open.submitted_at));
        }
        if !open.replayed {
            return self.take_in(now, task, &mut Batch::default());
        }
        self.take_in_ready(now, task);
        if let Some(row) = self.tasks.row_of(seq) {
            self.tasks[row].recovered = false;
        }
    }

    pub(crate) fn settling_recovered(
        &mut self,
        now: Timestamp,
        (seq, id): (Seq, TaskId),
        failed: bool,
        spawned_by: Option<Seq>,
        member: Option<Member>,
    ) {
        self.member_opened(seq, member.as_ref());
        self.may_wait(seq, member.as_ref());
        let cause = failed.then(|| cause(Some(id), "failed", "one of its children failed"));
        if let (Some(Member { workflow, group: Some(group) }), Some(cause)) = (&member, &cause) {
            self.group_failed(seq, *workflow, group, cause);
        }
        let waiting = self.absent.remove(&seq);
        let settling = self.settling.entry(seq).or_default();
        settling.id = Some(id);
        settling.since = now;
        settling.cause = cause;
        settling.spawned_by = spawned_by;
        settling.member = member;
        settling.dependents.extend(waiting.into_iter().flatten());
        if let Some(spawner) = spawned_by {
            self.add_child(spawner, seq);
        }
    }

    pub(crate) fn add_child(&mut self, spawner: Seq, child: Seq) {
        let settling = self.settling.entry(spawner).or_default();
        settling.open_children += 1;
        settling.children.push(child);
    }

    pub(crate) fn lane_recovered(
        &mut self,
        now: Timestamp,
        lane: Lane,
        count: u64,
        sample: &TaskSpec,
    ) {
        let class = self.class_of(sample);
        let stream = self.stream_of(sample, class, now);
        self.lane_in_store(lane, stream);
        self.set_spilled(lane, count);
    }

    pub(crate) fn recovery_ended(&mut self, now: Timestamp) {
        self.recovering = false;
        self.limits.recovery_ended(&self.settings, now);
        self.look_at_all_workflows();
        self.cut_knots(now);
        self.begun.clear();
        let settled: Vec<Seq> = self
            .settling
            .iter()
            .filter(|(_, settling)| settling.open_children == 0)
            .map(|(seq, _)| *seq)
            .collect();
        for seq in settled {
            self.settled(seq);
        }
        self.refill_all();
    }

    /// Takes a task into memory whose dependencies count as met.
    pub(crate) fn take_in_ready(&mut self, now: Timestamp, mut task: RecoveredTask) {
        for parent in &mut task.parents {
            parent.state = ParentState::Done;
        }
        self.take_in(now, task, &mut Batch::default());
    }

    /// Takes a task of the store into memory.
    pub(crate) fn take_in(&mut self, now: Timestamp, recovered: RecoveredTask, batch: &mut Batch) {
        let RecoveredTask { open, parents } = recovered;
        let OpenTask { seq, submitted_at, spec, spawned_by, attempts, retry_at, held, .. } = open;
        // Without a worker it is only known which attempt was granted last.
        let granted = held.as_ref().map(|(token, ..)| *token);
        let held = held.filter(|(_, worker, _)| !worker.is_empty());
        // A callback that has failed before was called, and one that was put back alone does not wait.
        let workflow = called_back_by(&spec, spawned_by)
            .filter(|_| granted.is_none() && attempts == 0 && !open.replayed);
        // The same goes for one that waits for groups.
        let tied = !spec.after_groups.is_empty() && attempts == 0 && !open.replayed;
        let mut standing = self.standing(&spec, &parents, spawned_by, batch);
        if !self.recovering && !open.replayed {
            let obstacle = if tied { self.group_obstacle(&spec, spawned_by, batch) } else { None };
            if let Some(cause) = obstacle.or_else(|| self.own_group_obstacle(&spec, &parents)) {
                standing = Standing::Failed(cause);
            }
        }
        if let (Standing::Failed(cause), false) = (&standing, self.recovering) {
            // It was put back to wait for something that has failed, or that waits for it: it cannot run.
            let cause = cause.clone();
            return self.bury(now, seq, &spec, spawned_by, cause, batch);
        }
        let class = self.class_of(&spec);
        let due =
            submitted_at.max(spec.run_at.unwrap_or_default()).max(retry_at.unwrap_or_default());
        let state = match (&held, &standing) {
            (Some(_), _) => TaskState::Leased,
            (None, Standing::Unmet(_)) => TaskState::Blocked,
            (None, _) if workflow.is_some() || tied => TaskState::Blocked,
            (None, _) if due > now => TaskState::Scheduled,
            (None, _) => TaskState::Ready,
        };
        let mut taken = Task {
            seq,
            spec,
            ready_at: if state == TaskState::Leased { due.min(now) } else { due },
            since: now,
            begun: held.as_ref().map_or(QUEUED, |(.., began)| now.min(*began)),
            token: granted.unwrap_or_default(),
            links: links_of(&parents, spawned_by),
            class,
            stream: NOBODY,
            worker: NOBODY,
            charged_ms: 0,
            attempts,
            checkpointed: open.checkpointed,
            state,
            retried: retry_at.is_some(),
            given_back: granted.is_some() && held.is_none(),
            held: held.is_some(),
            stopping: false,
            recovered: true,
        };
        if !open.lost.is_empty() {
            taken.links().lost_workers = open.lost;
        }
        if let Some((_, worker, _)) = held {
            self.leave_leased(now, &mut taken, worker);
        }
        if state == TaskState::Blocked && !self.recovering {
            self.lives = self.lives.wrapping_add(1).max(1);
            taken.links().life = self.lives;
        }
        let row = self.place(taken, now);
        if let (TaskState::Blocked, Standing::Unmet(unmet)) = (state, standing) {
            self.wait_for(row, &unmet);
        }
        self.await_ends(row, workflow, tied);
    }

    /// The attempt that ran when the server stopped may still run.
    fn leave_leased(&mut self, now: Timestamp, task: &mut Task, worker: Name) {
        if !task.spec.limits.is_empty() {
            self.limits.begin(&task.spec.limits, &self.settings, now);
        }
        task.links().holder = Some(worker);
        self.timers.add(now.plus_ms(self.options.lease_ms), Timer::Unclaimed(task.seq));
    }
}
