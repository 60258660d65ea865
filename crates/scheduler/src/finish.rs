//! A worker reports the end of an attempt: who may say so, and what a finish does.
//!
//! Only the holder of the lease may report, under the token of the lease; anything else is refused and changes
//! nothing. What a failure does is decided in `fail`.

use divvy_types::view::TaskChange;
use divvy_types::{
    AttemptOutcome, Fact, Name, Payload, Seq, TaskSpec, TaskState, Timestamp, Token, WorkerKey,
};

use crate::learn::Seen;
use crate::settle::{Ended, Settling};
use crate::submit::Batch;
use crate::table::{NOBODY, Row};
use crate::workflows::End;
use crate::{Action, AttemptEnd, AttemptEnded, ReportAnswer, Scheduler, Submission};

impl Scheduler {
    pub(crate) fn attempt_ended(&mut self, now: Timestamp, report: AttemptEnded) {
        let AttemptEnded { worker, seq, token, end, log } = report;
        let Some(row) = self.reported_row(now, worker, seq, token) else {
            return self.answer(worker, seq, token, ReportAnswer::Refused, None);
        };
        self.correct_share(now, row);
        match end {
            AttemptEnd::Finished { result, spawned } => {
                self.finished(now, row, worker, result, spawned, log)
            }
            AttemptEnd::Other(outcome) => {
                self.answer(worker, seq, token, ReportAnswer::Recorded, None);
                match outcome {
                    AttemptOutcome::Failed(failure) => self.failed(now, row, failure, log),
                    AttemptOutcome::Released => self.released(now, row),
                    // The engine numbers the children of a finish and says it the other way.
                    AttemptOutcome::Finished { .. } => self.released(now, row),
                }
            }
        }
    }

    /// The row of the task, if this worker holds it under this token.
    fn reported_row(
        &mut self,
        now: Timestamp,
        key: WorkerKey,
        seq: Seq,
        token: Token,
    ) -> Option<Row> {
        let row = self.tasks.row_of(seq)?;
        let task = &self.tasks[row];
        if task.state != TaskState::Leased || task.token != token {
            return None;
        }
        let mut holder = task.worker;
        if holder == NOBODY {
            // An attempt from before a restart that ended before its worker could announce it.
            holder = self.workers.tier_for(key, &task.spec.kind)?;
            self.adopt_unclaimed(now, row, holder);
        }
        let holder = self.workers.get_mut(holder);
        if holder.key.worker != key {
            return None;
        }
        holder.seen_at = now;
        Some(row)
    }

    fn answer(
        &mut self,
        worker: WorkerKey,
        seq: Seq,
        token: Token,
        answer: ReportAnswer,
        ran_us: Option<u64>,
    ) {
        self.actions.push_back(Action::AnswerReport { worker, seq, token, answer, ran_us });
    }

    fn finished(
        &mut self,
        now: Timestamp,
        row: Row,
        key: WorkerKey,
        result: Payload,
        spawned: Vec<Submission>,
        log: Option<Name>,
    ) {
        let holder = self.tasks[row].worker;
        self.workers.get_mut(holder).finished += 1;
        self.tally_of(row).done += 1;
        let ran_us = self.learn(now, row, Seen::Worked);
        let worker = self.end_lease(row);
        let task = self.remove(row);
        let (seq, token) = (task.seq, task.token);
        self.budgets.pay(now, &task.spec.kind, &self.settings);
        self.record(Fact::Finished { seq, token, at: now, worker: worker.clone(), result, log });
        let (dependents, spawned_by) =
            task.links.map_or_else(Default::default, |links| (links.dependents, links.spawned_by));
        if spawned.is_empty() {
            self.answer(key, seq, token, ReportAnswer::Recorded, ran_us);
            self.announce(|| done_by(worker, &task.spec, now));
            self.forget(seq, &task.spec);
            self.member_ended(seq, task.spec.member(), End::Well, true);
            if !dependents.is_empty() || spawned_by.is_some() {
                self.ended.push(Ended { dependents, spawned_by, cause: None });
            }
            return;
        }
        let (id, open_children) = (Some(task.spec.id), spawned.len() as u32);
        let children = spawned.iter().map(|child| child.seq).collect();
        let member = task.spec.member();
        self.may_wait(seq, member.as_ref());
        let settling = Settling {
            id,
            since: now,
            spawned_by,
            open_children,
            children,
            dependents,
            cause: None,
            member,
        };
        self.settling.insert(seq, settling);
        let mut batch = Batch::default();
        for child in spawned {
            self.submit(now, child, Some(seq), &mut batch);
        }
        self.answer(key, seq, token, ReportAnswer::Recorded, ran_us);
        self.announce(|| done_by(worker, &task.spec, now));
    }
}

fn done_by(worker: Name, spec: &TaskSpec, now: Timestamp) -> TaskChange {
    TaskChange { worker: Some(worker), ..TaskChange::of(spec, TaskState::Done, now) }
}
