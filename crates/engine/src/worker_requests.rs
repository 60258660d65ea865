//! What workers say: they connect, report, tell how far they are, and are asked to drain.

use divvy_scheduler::input::{AttemptEnd, AttemptEnded};
use divvy_scheduler::{Input, ReportAnswer};
use divvy_types::{
    AttemptOutcome, ErrorClass, Fact, Failure, FailureVerdict, Name, Payload, Seq, TaskError,
    TaskId, Token, Verdict, WorkerHello, WorkerKey,
};

use crate::core::{Core, Unresolved};
use crate::locate::Located;
use crate::request::{Error, Outbox, ProgressUpdate, Reply, Request, WorkerReport};

/// Whether a fact may be refused without harm: what a checkpoint saves too late is of no use to anyone.
pub(crate) fn may_be_refused(fact: &Fact, verdict: Verdict) -> bool {
    matches!((fact, verdict), (Fact::Checkpoint { .. }, Verdict::Stale))
}

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

    pub(crate) fn report(&mut self, worker: WorkerKey, report: WorkerReport) -> Result<(), Error> {
        let WorkerReport { task, token, .. } = report;
        match self.locate(task)? {
            Located::Departing => {
                self.deferred.push(Request::Report { worker, reports: vec![report] });
            }
            Located::Open(seq) if self.scheduler.spec(seq).is_some() => {
                self.end_attempt(worker, seq, report)?
            }
            located => {
                // Final, settling or unknown. A worker that missed the answer to its report sends it again.
                let record = match located {
                    Located::Stored(record) => Some(*record),
                    Located::Open(seq) => self.reader.get(seq)?,
                    Located::Departing | Located::Unknown => None,
                };
                let recorded = record.and_then(|r| r.outcome).is_some_and(|o| o.token == token);
                let answer = if recorded { ReportAnswer::Recorded } else { ReportAnswer::Refused };
                self.answer(worker, task, token, answer);
            }
        }
        Ok(())
    }

    fn end_attempt(
        &mut self,
        worker: WorkerKey,
        seq: Seq,
        report: WorkerReport,
    ) -> Result<(), Error> {
        let WorkerReport { task, token, outcome, log } = report;
        let mut replaced = Vec::new();
        let end = match outcome {
            // Children of an attempt that is not the present one are not looked at: it will be refused.
            AttemptOutcome::Finished { result, .. }
                if self.scheduler.lease_token(seq) != Some(token) =>
            {
                AttemptEnd::Finished { result, spawned: Vec::new() }
            }
            AttemptOutcome::Finished { result, spawned } => {
                match self.resolve_spawned(seq, spawned)? {
                    Ok(children) => {
                        self.look_up_workflows(&children.tasks, true)?;
                        replaced = children.replaced;
                        AttemptEnd::Finished { result, spawned: children.tasks }
                    }
                    Err(Unresolved::Departing(spawned)) => {
                        let outcome = AttemptOutcome::Finished { result, spawned };
                        let report = WorkerReport { task, token, outcome, log };
                        self.deferred.push(Request::Report { worker, reports: vec![report] });
                        return Ok(());
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
        self.reporting = Some(task);
        self.feed(Input::AttemptEnded(AttemptEnded { worker, seq, token, end, log }));
        self.reporting = None;
        self.cancel_replaced(replaced)
    }

    /// Only the holder of a lease may say how far it is, under its token; anything else is not heard.
    pub(crate) fn take_news(&mut self, worker: WorkerKey, progress: Vec<ProgressUpdate>) {
        for update in progress {
            let Some(seq) = self.seq_of(update.task) else { continue };
            let holds = self.scheduler.holder(seq) == Some(worker);
            if holds && self.scheduler.lease_token(seq) == Some(update.token) {
                self.live.update(seq, update.token, update.progress, &update.log);
            }
        }
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

    pub(crate) fn drain_worker(&mut self, name: &str, reply: Reply<u32>) {
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
        for worker in &workers {
            self.feed(Input::WorkerDraining { worker: *worker });
            self.group.drains.push(*worker);
        }
        self.park(reply, Ok(workers.len() as u32));
    }
}
