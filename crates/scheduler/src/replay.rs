//! Dead or cancelled tasks are put back: one alone, or what failed in a workflow together.
//!
//! One that is put back alone runs whatever became of its dependencies. Tasks that are put back together wait for their
//! dependencies, and so for each other, as before.
//!
//! The spawners of what is put back are settling again, up to the first of the line, so that whoever joins on one waits
//! for what is put back below it. After a restart it is the same, because the store knows who spawned whom: a wait that
//! would only be there after a restart could go round in a circle. One that cannot run after all, because something that it requires has failed or waits for it, is cancelled again, and
//! with it who requires it. All of it is one step: a workflow does not end between two of its tasks.

use divvy_types::fact::Replay;
use divvy_types::view::TaskChange;
use divvy_types::{Fact, Timestamp};

use crate::submit::Batch;
use crate::{RecoveredTask, Scheduler, Spawner};

impl Scheduler {
    /// Someone put a dead or cancelled task back.
    pub(crate) fn task_replayed(
        &mut self,
        now: Timestamp,
        spawners: Vec<Spawner>,
        task: RecoveredTask,
        replay: Replay,
    ) {
        let waits = replay.keep_edges;
        for spawner in &spawners {
            self.reopen_spawner(now, spawner.clone());
        }
        self.put_back(now, task, replay, &mut Batch::default());
        if waits {
            self.cut_knots(now);
        }
        self.settle_childless(&spawners);
    }

    /// Someone put dead or cancelled tasks back together.
    pub(crate) fn tasks_resumed(
        &mut self,
        now: Timestamp,
        spawners: Vec<Spawner>,
        tasks: Vec<RecoveredTask>,
    ) {
        for spawner in &spawners {
            self.reopen_spawner(now, spawner.clone());
        }
        // Those that require a group wait for what is put back of it, in whichever order that comes.
        for RecoveredTask { open, .. } in &tasks {
            self.not_failed_any_more(open.seq, open.spec.member().as_ref());
        }
        let mut batch = Batch::default();
        for task in tasks {
            batch.change_spawner();
            // The time says, after a restart, that attempts from before are not to be gone on with.
            let replay = Replay { due: Some(now), payload: None, keep_edges: true };
            self.put_back(now, task, replay, &mut batch);
        }
        // An optional dependency that was met once may, open again, wait for its dependent by way of a child.
        self.cut_knots(now);
        self.settle_childless(&spawners);
    }

    /// What was put back may have been cancelled again at once; then nothing below its spawners is open.
    fn settle_childless(&mut self, spawners: &[Spawner]) {
        for Spawner { seq, .. } in spawners {
            if self.settling.get(seq).is_some_and(|settling| settling.open_children == 0) {
                self.settled(*seq);
            }
        }
    }

    /// A finished task is settling again, or still.
    fn reopen_spawner(&mut self, now: Timestamp, spawner: Spawner) {
        let Spawner { seq, task, failed, spawned_by, member } = spawner;
        let Some(settling) = self.settling.get_mut(&seq) else {
            let above = spawned_by.filter(|seq| self.settling.contains_key(seq));
            return self.settling_recovered(now, (seq, task), failed, above, member);
        };
        if !failed {
            settling.cause = None;
            self.not_failed_any_more(seq, member.as_ref());
        }
    }

    fn put_back(
        &mut self,
        now: Timestamp,
        mut task: RecoveredTask,
        replay: Replay,
        batch: &mut Batch,
    ) {
        let open = &mut task.open;
        let (seq, spec) = (open.seq, open.spec.clone());
        if self.tasks.row_of(seq).is_some() {
            return;
        }
        open.attempts = 0;
        open.lost.clear();
        open.retry_at = replay.due;
        open.held = None;
        open.spawned_by = open.spawned_by.filter(|spawner| self.settling.contains_key(spawner));
        open.submitted_at = now;
        open.replayed = !replay.keep_edges;
        if let Some(spawner) = open.spawned_by {
            self.add_child(spawner, seq);
        }
        self.record(Fact::Replayed { seq, at: now, replay });
        if task.open.replayed {
            self.take_in_ready(now, task);
        } else {
            self.take_in(now, task, batch);
        }
        if let Some(row) = self.tasks.row_of(seq) {
            self.tasks[row].recovered = false;
            self.member_opened(seq, spec.member().as_ref());
            let state = self.tasks[row].state;
            self.announce(|| TaskChange::of(&spec, state, now));
        }
    }
}
