//! One synchronous step: a request goes in, the machines decide, facts and effects come out as a [`Group`].
//!
//! The core knows no threads, no clock and no network. It reads the store only to find tasks that are not in memory.
//! Driven by [`crate::runner`] in a server and by [`crate::inline`] in tests.
//!
//! **Departing tasks.** A task that leaves the scheduler's memory is found in the store only once its facts are
//! committed. A request that names it in between is put off until then.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use divvy_scheduler::input::{AttemptEnd, AttemptEnded, RecoveredTask, WorkerJoined};
use divvy_scheduler::{Action, Input, ReportAnswer, Scheduler};
use divvy_store::{OpenTask, Reader};
use divvy_types::view::{QueueView, WorkerView};
use divvy_types::{
    AttemptOutcome, ErrorClass, Fact, Failure, FailureVerdict, Lane, Machine, Name, Seq, TaskError,
    TaskId, TaskState, Timestamp, Token, WorkerKey,
};

use crate::group::{Group, Load, Released};
use crate::live::Live;
use crate::locate::{IdHasher, Located};
use crate::request::{
    Error, Outbox, ProgressUpdate, Reply, Request, Submitted, WorkerHello, WorkerReport,
};
use crate::stats::Stats;

/// The state that the loop owns.
pub struct Core {
    pub(crate) scheduler: Scheduler,
    /// Tasks that the scheduler has, or had until a moment ago.
    pub(crate) ids: HashMap<TaskId, Known, BuildHasherDefault<IdHasher>>,
    pub(crate) reader: Box<dyn Reader>,
    /// The greatest time-ordered id that was ever accepted: a greater one cannot be in the store.
    pub(crate) last_ordered_id: TaskId,
    pub(crate) last_seq: Seq,
    pub(crate) stats: Arc<Stats>,
    /// What running attempts say of themselves.
    pub live: Live,
    pub(crate) group: Group,
    deferred: Vec<Request>,
    last_worker: u64,
    now: Timestamp,
    /// The task whose report is being handled, for its answer.
    reporting: Option<TaskId>,
}

impl Core {
    pub(crate) fn new(scheduler: Scheduler, reader: Box<dyn Reader>, stats: Arc<Stats>) -> Self {
        Self {
            scheduler,
            ids: HashMap::default(),
            reader,
            last_ordered_id: TaskId(0),
            last_seq: Seq(0),
            stats,
            live: Live::default(),
            group: Group::default(),
            deferred: Vec::new(),
            last_worker: 0,
            now: Timestamp(0),
            reporting: None,
        }
    }

    /// Takes one request. An error is a failed read of the store, and fatal.
    pub fn step(&mut self, now: Timestamp, request: Request) -> Result<(), Error> {
        self.set_now(now);
        match request {
            Request::Submit { specs, reply } => self.submit(specs, reply),
            Request::Connect { hello, outbox, reply } => self.connect(hello, outbox, reply),
            Request::Report { worker, reports } => {
                self.feed(Input::WorkerSeen { worker });
                reports.into_iter().try_for_each(|report| self.report(worker, report))
            }
            Request::Heartbeat { worker, progress } => {
                self.feed(Input::WorkerSeen { worker });
                self.take_news(progress);
                Ok(())
            }
            Request::Stopping { worker } => {
                self.feed(Input::WorkerDraining { worker });
                Ok(())
            }
            Request::Disconnect { worker } => {
                self.feed(Input::WorkerLeft { worker });
                self.group.disconnects.push(worker);
                Ok(())
            }
            Request::Cancel { id, reason, reply } => self.cancel(id, reason, reply),
            Request::Retry { id, reply } => self.retry(id, reply),
            Request::DropDead { id, reply } => self.drop_dead(id, reply),
            Request::PauseQueue { queue, paused, reply } => {
                self.feed(Input::QueuePaused { queue, paused });
                self.park(reply, Ok(()));
                Ok(())
            }
            Request::DrainWorker { name, reply } => {
                self.drain_worker(&name, reply);
                Ok(())
            }
            Request::Look(look) => {
                look(self);
                Ok(())
            }
        }
    }

    /// Tells the machines that time passed.
    pub fn pass_time(&mut self, now: Timestamp) -> Result<(), Error> {
        self.set_now(now);
        self.feed(Input::TimePassed);
        Ok(())
    }

    /// The server stops: what runs is recorded as held.
    pub fn stop(&mut self, now: Timestamp) -> Result<(), Error> {
        self.set_now(now);
        self.feed(Input::ServerStopping);
        Ok(())
    }

    /// When the machines want to be told that time passed.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.scheduler.next_deadline()
    }

    /// Says whether anyone watches changes.
    pub fn set_watched(&mut self, watched: bool) {
        self.scheduler.set_watched(watched);
    }

    /// What gathered since the last call.
    pub fn take_group(&mut self) -> Group {
        std::mem::take(&mut self.group)
    }

    /// Hears what became of a group that is durable and let out.
    pub fn released(&mut self, now: Timestamp, released: Released) -> Result<(), Error> {
        self.set_now(now);
        for (id, seq) in released.forgotten {
            if let Entry::Occupied(known) = self.ids.entry(id)
                && *known.get() == (Known { seq, departing: true })
            {
                known.remove();
            }
        }
        for (lane, tasks, exhausted) in released.loaded {
            let tasks =
                tasks.into_iter().map(|task| self.admit_stored(task)).collect::<Result<_, _>>()?;
            self.feed(Input::SpilledLoaded { lane, tasks, exhausted });
        }
        for worker in released.unreachable {
            tracing::warn!(worker = worker.0, "a worker does not take its messages; dropping it");
            self.feed(Input::WorkerLeft { worker });
            self.group.disconnects.push(worker);
        }
        for request in std::mem::take(&mut self.deferred) {
            self.step(now, request)?;
        }
        Ok(())
    }

    /// The scheduler, to look at.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// The number of an open task.
    pub fn seq_of(&self, id: TaskId) -> Option<Seq> {
        self.ids.get(&id).map(|known| known.seq)
    }

    /// All queues.
    pub fn queues(&self) -> Vec<QueueView> {
        self.scheduler.queues(self.now)
    }

    /// All connected workers.
    pub fn workers(&self) -> Vec<WorkerView> {
        self.scheduler.workers()
    }

    /// How many workers are connected.
    pub fn worker_count(&self) -> u64 {
        self.scheduler.worker_count() as u64
    }

    pub(crate) fn set_now(&mut self, now: Timestamp) {
        // The wall clock may be set back; the machines must not see that.
        self.now = self.now.max(now);
    }

    pub(crate) fn feed(&mut self, input: Input) {
        self.scheduler.handle(self.now, input);
        while let Some(action) = self.scheduler.poll_action() {
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Record(fact) => {
                self.stats.count_fact(&fact);
                self.group.facts.push(fact);
            }
            Action::Grant(grant) => {
                self.stats.count_grant();
                self.group.grants.push(grant);
            }
            Action::AnswerReport { worker, seq, token, answer } => {
                let task =
                    self.reporting.expect("the scheduler answers a report while it handles it");
                self.live.forget(seq);
                self.answer(worker, task, token, answer);
            }
            Action::StopAttempt { worker, task, token, reason, .. } => {
                self.group.stops.push((worker, task, token, reason));
            }
            Action::DropWorker { worker } => self.group.disconnects.push(worker),
            Action::LoadSpilled { lane, after, rows } => {
                self.group.loads.push(Load { lane, after, rows })
            }
            Action::Announce(change) => self.group.changes.push(change),
            Action::Forget { seq, task } => {
                self.live.forget(seq);
                self.ids.insert(task, Known { seq, departing: true });
                self.group.forgotten.push((task, seq));
            }
        }
    }

    fn answer(&mut self, worker: WorkerKey, task: TaskId, token: Token, answer: ReportAnswer) {
        let recorded = answer == ReportAnswer::Recorded;
        if !recorded {
            self.stats.count_refused();
        }
        self.group.answers.push((worker, task, token, recorded));
    }

    /// Sends a reply when everything recorded so far is durable.
    fn park<T: Send + 'static>(&mut self, reply: Reply<T>, answer: Result<T, Error>) {
        self.group.replies.push(Box::new(move || {
            // The asker may have gone.
            let _ = reply.send(answer);
        }));
    }

    fn submit(
        &mut self,
        specs: Vec<divvy_types::TaskSpec>,
        reply: Reply<Submitted>,
    ) -> Result<(), Error> {
        if self.stats.is_disk_full() {
            let _ = reply.send(Err(Error::DiskFull));
            return Ok(());
        }
        match self.resolve_batch(specs)? {
            Ok(batch) => {
                let submitted =
                    Submitted { accepted: batch.tasks.len() as u32, known: batch.known };
                if !batch.tasks.is_empty() {
                    self.feed(Input::TasksSubmitted(batch.tasks));
                }
                self.park(reply, Ok(submitted));
            }
            Err(Unresolved::Refused(error)) => {
                let _ = reply.send(Err(error.into()));
            }
            Err(Unresolved::Departing(specs)) => {
                self.deferred.push(Request::Submit { specs, reply })
            }
        }
        Ok(())
    }

    fn connect(
        &mut self,
        hello: WorkerHello,
        outbox: Outbox,
        reply: Reply<WorkerKey>,
    ) -> Result<(), Error> {
        self.last_worker += 1;
        let worker = WorkerKey(self.last_worker);
        self.group.connects.push((worker, outbox));
        let mut held = Vec::new();
        for (task, token) in hello.held {
            match self.locate(task)? {
                Located::Open(seq) => held.push((seq, token)),
                // It is final, or the server never had it: whatever runs there has no meaning any more.
                Located::Departing | Located::Stored(_) | Located::Unknown => {
                    self.group.stops.push((
                        worker,
                        task,
                        token,
                        Name::const_new("no longer yours"),
                    ));
                }
            }
        }
        let WorkerHello { name, queues, kinds, capabilities, credit, .. } = hello;
        self.park(reply, Ok(worker));
        self.feed(Input::WorkerJoined(WorkerJoined {
            worker,
            name,
            queues,
            kinds,
            capabilities,
            credit,
            held,
        }));
        Ok(())
    }

    fn report(&mut self, worker: WorkerKey, report: WorkerReport) -> Result<(), Error> {
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
        let end = match outcome {
            AttemptOutcome::Finished { result, spawned } => match self.resolve_spawned(spawned)? {
                Ok(spawned) => AttemptEnd::Finished { result, spawned },
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
            },
            other => AttemptEnd::Other(other),
        };
        self.reporting = Some(task);
        self.feed(Input::AttemptEnded(AttemptEnded { worker, seq, token, end, log }));
        self.reporting = None;
        Ok(())
    }

    fn take_news(&mut self, progress: Vec<ProgressUpdate>) {
        for update in progress {
            let Some(seq) = self.seq_of(update.task) else { continue };
            let current = self.scheduler.lease_token(seq);
            if current == Some(update.token) {
                self.live.update(seq, update.token, update.progress, &update.log);
            }
        }
    }

    fn cancel(&mut self, id: TaskId, reason: Name, reply: Reply<TaskState>) -> Result<(), Error> {
        match self.locate(id)? {
            Located::Departing => self.deferred.push(Request::Cancel { id, reason, reply }),
            Located::Open(seq) if self.scheduler.spec(seq).is_some() => {
                self.feed(Input::CancelRequested { seq, reason });
                let state = self.scheduler.state(seq).unwrap_or(TaskState::Cancelled);
                self.park(reply, Ok(state));
            }
            Located::Open(_) => {
                let _ = reply.send(Err(conflict(id, TaskState::Done, "nothing is left to cancel")));
            }
            Located::Stored(record) => match &record.outcome {
                Some(outcome) => {
                    let _ =
                        reply.send(Err(conflict(id, outcome.state, "nothing is left to cancel")));
                }
                None => {
                    // It waits in the store: nothing but the record and its dependents has to know.
                    let lane = Lane::of(&record.spec);
                    self.feed(Input::SpilledCancelled { seq: record.seq, task: id, lane, reason });
                    self.park(reply, Ok(TaskState::Cancelled));
                }
            },
            Located::Unknown => {
                let _ = reply.send(Err(Error::NotFound(id.to_string())));
            }
        }
        Ok(())
    }

    fn retry(&mut self, id: TaskId, reply: Reply<TaskState>) -> Result<(), Error> {
        match self.locate(id)? {
            Located::Departing => self.deferred.push(Request::Retry { id, reply }),
            Located::Open(seq) => match self.scheduler.state(seq) {
                Some(TaskState::Scheduled) => {
                    self.feed(Input::RunNowRequested { seq });
                    let state = self.scheduler.state(seq).unwrap_or(TaskState::Ready);
                    self.park(reply, Ok(state));
                }
                state => {
                    let problem = "only a dead, cancelled or scheduled task can be retried";
                    let _ =
                        reply.send(Err(conflict(id, state.unwrap_or(TaskState::Done), problem)));
                }
            },
            Located::Stored(record) => match record.outcome.as_ref().map(|o| o.state) {
                Some(TaskState::Dead | TaskState::Cancelled) => {
                    let seq = record.seq;
                    let task = RecoveredTask {
                        task: divvy_scheduler::Submission {
                            seq,
                            spec: Arc::new(record.spec),
                            parents: Vec::new(),
                        },
                        submitted_at: record.submitted_at,
                        spawned_by: record.spawned_by,
                        attempts: 0,
                        retry_at: None,
                        held: None,
                        replayed: true,
                    };
                    self.ids.insert(id, Known::open(seq));
                    self.feed(Input::TaskReplayed(task));
                    let state = self.scheduler.state(seq).unwrap_or(TaskState::Ready);
                    self.park(reply, Ok(state));
                }
                state => {
                    let problem = "only a dead, cancelled or scheduled task can be retried";
                    let _ =
                        reply.send(Err(conflict(id, state.unwrap_or(TaskState::Ready), problem)));
                }
            },
            Located::Unknown => {
                let _ = reply.send(Err(Error::NotFound(id.to_string())));
            }
        }
        Ok(())
    }

    fn drop_dead(&mut self, id: TaskId, reply: Reply<TaskState>) -> Result<(), Error> {
        match self.locate(id)? {
            Located::Departing => self.deferred.push(Request::DropDead { id, reply }),
            Located::Stored(record)
                if record.outcome.as_ref().is_some_and(|o| o.state == TaskState::Dead) =>
            {
                // A second request must not find it dead again before the first is durable.
                self.ids.insert(id, Known { seq: record.seq, departing: true });
                self.group.forgotten.push((id, record.seq));
                self.group.facts.push(Fact::Dropped { seq: record.seq, at: self.now });
                self.park(reply, Ok(TaskState::Cancelled));
            }
            Located::Unknown => {
                let _ = reply.send(Err(Error::NotFound(id.to_string())));
            }
            located => {
                let state = match located {
                    Located::Open(seq) => self.scheduler.state(seq),
                    Located::Stored(record) => record.outcome.map(|o| o.state),
                    Located::Departing | Located::Unknown => None,
                };
                let _ = reply.send(Err(conflict(
                    id,
                    state.unwrap_or(TaskState::Ready),
                    "it is not a dead letter",
                )));
            }
        }
        Ok(())
    }

    fn drain_worker(&mut self, name: &str, reply: Reply<u32>) {
        let workers: Vec<WorkerKey> = self
            .scheduler
            .workers()
            .iter()
            .filter(|w| w.name == name)
            .map(|w| WorkerKey(w.key))
            .collect();
        if workers.is_empty() {
            let _ = reply.send(Err(Error::NoSuchWorker(name.to_owned())));
            return;
        }
        for worker in &workers {
            self.feed(Input::WorkerDraining { worker: *worker });
            self.group.drains.push(*worker);
        }
        self.park(reply, Ok(workers.len() as u32));
    }

    /// Makes a task from the store known again.
    pub(crate) fn admit_stored(&mut self, open: OpenTask) -> Result<RecoveredTask, Error> {
        self.ids.insert(open.spec.id, Known::open(open.seq));
        let parents = self.parents_of_stored(&open.spec)?;
        Ok(RecoveredTask {
            task: divvy_scheduler::Submission { seq: open.seq, spec: open.spec, parents },
            submitted_at: open.submitted_at,
            spawned_by: open.spawned_by,
            attempts: open.attempts,
            retry_at: open.retry_at,
            held: open.held,
            replayed: open.replayed,
        })
    }
}

fn conflict(task: TaskId, state: TaskState, problem: &'static str) -> Error {
    Error::Conflict { task, state, problem }
}

/// What the id of a task in memory stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) seq: Seq,
    /// Whether it left the scheduler by facts that are not committed yet.
    pub(crate) departing: bool,
}

impl Known {
    pub(crate) fn open(seq: Seq) -> Self {
        Self { seq, departing: false }
    }
}

/// Why a batch could not be resolved.
pub(crate) enum Unresolved {
    /// It is not acceptable.
    Refused(divvy_types::SpecError),
    /// It names a task that is between memory and store; here it is back, for another try.
    Departing(Vec<divvy_types::TaskSpec>),
}
