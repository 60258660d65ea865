//! What workers say: they connect, report, tell how far they are, and are asked to drain.

use std::sync::Arc;

use divvy_scheduler::input::{AttemptEnd, AttemptEnded};
use divvy_scheduler::{Input, ReportAnswer};
use divvy_types::view::{Progress, TaskChange};
use divvy_types::{
    AttemptOutcome, ErrorClass, Failure, FailureVerdict, Name, Payload, Seq, SpecError, TaskError,
    TaskId, TaskSpec, TaskState, Token, WorkerHello, WorkerKey,
};

use crate::core::{Core, Unresolved};
use crate::group::PROGRESS_KEPT;
use crate::locate::{Located, Resolved};
use crate::request::{Error, Outbox, ProgressUpdate, Reply, Request, WorkerReport, WorkerWord};

/// How long a task rests whose children do not fit into memory.
const NO_ROOM_REST_MS: u64 = 30_000;

impl Core {
    pub(crate) fn connect(
        &mut self,
        hello: WorkerHello,
        outbox: Outbox,
        reply: Reply<WorkerKey>,
    ) -> Result<(), Error> {
        self.last_worker += 1;
        let worker = WorkerKey(self.last_worker);
        self.group.connects.push((worker, outbox));
        let mut held = Vec::new();
        for &(task, token) in &hello.held {
            match self.ids.get(&task).filter(|known| !known.departing) {
                Some(known) => held.push((known.seq, token)),
                // It is final, or the server never had it: whatever runs there has no meaning any more.
                None => {
                    let reason = Name::const_new("no longer yours");
                    self.group.stops.push((worker, task, token, reason));
                }
            }
        }
        self.park(reply, Ok(worker));
        let name = hello.name.clone();
        self.feed(Input::WorkerJoined(worker, hello.holding(held)));
        if self.scheduler.is_draining(worker) {
            // It was asked over a connection that broke, and may not have heard it.
            self.group.drains.push(worker);
        }
        let namesakes = self.scheduler.connected_as(&name);
        if namesakes > 1 {
            tracing::warn!(
                %name,
                "{namesakes} workers are called `{name}`: they are drained together and judged as one; \
                 give each a name of its own"
            );
        }
        Ok(())
    }

    /// The connection of a worker is no more; how it ended is said.
    pub(crate) fn end_connection(&mut self, worker: WorkerKey, how: Input) -> Result<(), Error> {
        self.feed(how);
        self.group.disconnects.push(worker);
        Ok(())
    }

    pub(crate) fn report(&mut self, worker: WorkerKey, report: WorkerReport) {
        let WorkerReport { task, token, .. } = report;
        match self.locate(task).unwrap_or(Located::Unknown) {
            Located::Departing => {
                self.deferred.push(Request::Report { worker, reports: vec![report] });
            }
            Located::Open(seq) if self.scheduler.spec(seq).is_some() => {
                self.end_attempt(worker, seq, report);
            }
            located => {
                // Final, settling or unknown. A worker that missed the answer to its report sends it again.
                let record = match located {
                    Located::Stored(record) => Some(*record),
                    Located::Open(seq) => self.reader.get(seq).unwrap_or_default(),
                    Located::Departing | Located::Unknown => None,
                };
                let recorded = record.and_then(|r| r.outcome).is_some_and(|o| o.token == token);
                let answer = if recorded { ReportAnswer::Recorded } else { ReportAnswer::Refused };
                self.answer(worker, task, token, answer);
            }
        }
    }

    fn end_attempt(&mut self, worker: WorkerKey, seq: Seq, report: WorkerReport) {
        let WorkerReport { task, token, outcome, log } = report;
        let mut replaced = Vec::new();
        let is_present = self.scheduler.lease_token(seq) == Some(token);
        let end = match outcome {
            // Children of an attempt that is not the present one are not looked at: it will be refused.
            AttemptOutcome::Finished { result, .. } if !is_present => {
                AttemptEnd::Finished { result, spawned: Vec::new() }
            }
            AttemptOutcome::Finished { spawned, .. }
                if !self.scheduler.has_room_for_children(spawned.iter()) =>
            {
                AttemptEnd::Other(AttemptOutcome::Failed(no_room_for(spawned.len())))
            }
            AttemptOutcome::Finished { result, spawned } => {
                match self.resolve_children(seq, spawned) {
                    Ok(children) => {
                        replaced = children.replaced;
                        AttemptEnd::Finished { result, spawned: children.tasks }
                    }
                    Err(Unresolved::Departing(spawned)) => {
                        let outcome = AttemptOutcome::Finished { result, spawned };
                        let report = WorkerReport { task, token, outcome, log };
                        self.deferred.push(Request::Report { worker, reports: vec![report] });
                        return;
                    }
                    Err(Unresolved::Refused(error)) => {
                        let error = TaskError::new(
                            ErrorClass::Failed,
                            format!("spawned children are not valid: {error}"),
                        );
                        AttemptEnd::Other(AttemptOutcome::Failed(Failure {
                            verdict: FailureVerdict::Dead,
                            error,
                        }))
                    }
                }
            }
            other => AttemptEnd::Other(other),
        };
        if let Some(began) = self.scheduler.began(seq).filter(|_| is_present) {
            self.live.ended(token, began);
        }
        self.reporting = Some(task);
        self.feed(Input::AttemptEnded(AttemptEnded { worker, seq, token, end, log }));
        self.reporting = None;
        // One that cannot be read has ended and needs no cancel.
        let _ = self.cancel_replaced(replaced);
    }

    /// The children of a finish; refused if what they refer to cannot be read.
    fn resolve_children(
        &mut self,
        parent: Seq,
        spawned: Vec<TaskSpec>,
    ) -> Result<Resolved, Unresolved> {
        let last_seq = self.last_seq;
        let resolved = self.resolve_spawned(parent, spawned).and_then(|children| {
            if let Ok(children) = &children {
                self.look_up_workflows(&children.tasks, true)?;
            }
            Ok(children)
        });
        resolved.unwrap_or_else(|error| {
            self.forget_unborn(last_seq);
            Err(Unresolved::Refused(SpecError::field("spawned", error.to_string())))
        })
    }

    /// Only the holder of a lease may say how far it is, under its token; anything else is not heard.
    pub(crate) fn take_news(&mut self, worker: WorkerKey, progress: Vec<ProgressUpdate>) {
        for update in progress {
            let Some(seq) = self.seq_of(update.task) else { continue };
            let holds = self.scheduler.holder(seq) == Some(worker);
            if holds && self.scheduler.lease_token(seq) == Some(update.token) {
                self.tell_progress(seq, &update.progress);
                self.live.update(seq, update.token, update.progress, &update.log);
            }
        }
    }

    /// Tells those who watch. While a group waits for the disk, no more is told than they could read afterwards.
    fn tell_progress(&mut self, seq: Seq, progress: &Progress) {
        if !self.progress_watched || self.group.changes.len() >= PROGRESS_KEPT {
            return;
        }
        let Some(spec) = self.scheduler.spec(seq) else { return };
        self.group.changes.push(Arc::new(TaskChange {
            progress: Some(progress.clone()),
            ..TaskChange::of(spec, TaskState::Leased, self.now)
        }));
    }

    pub(crate) fn take_checkpoints(
        &mut self,
        worker: WorkerKey,
        saved: Vec<(TaskId, Token, Payload)>,
    ) {
        self.feed(Input::WorkerSeen { worker });
        for (task, token, data) in saved {
            if let Some(seq) = self.seq_of(task) {
                self.feed(Input::CheckpointSaved { worker, seq, token, data });
            }
        }
    }

    pub(crate) fn tell_worker(&mut self, name: &str, word: WorkerWord, reply: Reply<u32>) {
        let workers: Vec<WorkerKey> = self
            .scheduler
            .workers()
            .iter()
            .filter(|w| w.name == name)
            .map(|w| WorkerKey(w.key))
            .collect();
        if workers.is_empty() {
            return self.park(reply, Err(Error::NoSuchWorker(name.to_owned())));
        }
        for worker in workers.iter().copied() {
            match word {
                WorkerWord::Drain => {
                    self.feed(Input::WorkerDraining { worker });
                    self.group.drains.push(worker);
                }
                WorkerWord::Pause => self.feed(Input::WorkerPaused { worker, paused: true }),
                WorkerWord::Resume => self.feed(Input::WorkerPaused { worker, paused: false }),
            }
        }
        self.park(reply, Ok(workers.len() as u32));
    }
}

/// Why an attempt that did its work is tried again.
fn no_room_for(children: usize) -> Failure {
    let message = format!(
        "its {children} children do not fit into the memory of the server, which tasks that wait take up: it is tried \
         again, uncounted, until some of those have ended"
    );
    let error = TaskError::new(ErrorClass::Failed, message);
    Failure { verdict: FailureVerdict::SnoozeMs(NO_ROOM_REST_MS), error }
}
