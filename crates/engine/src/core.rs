//! One synchronous step: a request goes in, the machines decide, facts and effects come out as a [`Group`].
//!
//! The core knows no threads, no clock and no network. It reads the store only to find tasks that are not in memory.
//! Driven by [`crate::runner`] in a server and by [`crate::inline`] in tests.
//!
//! **Departing tasks.** A task that leaves the scheduler's memory is found in the store only once its facts are
//! committed. A request that names it in between is put off until then.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use divvy_scheduler::input::RecoveredTask;
use divvy_scheduler::{Action, Input, ReportAnswer, Scheduler};
use divvy_store::{OpenTask, Reader};
use divvy_types::view::{QueueView, WorkerView};
use divvy_types::{
    AttemptOutcome, ErrorClass, Fact, Failure, FailureVerdict, Machine, Seq, TaskError, TaskId,
    Timestamp, Token, WorkerKey, WorkflowId,
};

use crate::group::{Group, Load, Released};
use crate::live::Live;
use crate::locate::IdHasher;
use crate::reads::Counted;
use crate::request::{Error, Reply, Request, WorkerReport};
use crate::schedules::Schedules;
use crate::stats::Stats;
use crate::unique::Keys;

/// The state that the loop owns.
pub struct Core {
    pub(crate) scheduler: Scheduler,
    /// Tasks that the scheduler has, or had until a moment ago.
    pub(crate) ids: HashMap<TaskId, Known, BuildHasherDefault<IdHasher>>,
    /// Workflows that left the scheduler by facts that are not committed yet, and how many groups say so.
    pub(crate) departing_workflows: BTreeMap<WorkflowId, u32>,
    pub(crate) reader: Box<dyn Reader>,
    /// The greatest time-ordered id that was ever accepted: a greater one cannot be in the store.
    pub(crate) last_ordered_id: TaskId,
    pub(crate) last_seq: Seq,
    /// Unique keys that are taken.
    pub(crate) keys: Keys,
    pub(crate) stats: Arc<Stats>,
    /// What running attempts say of themselves.
    pub live: Live,
    /// Tasks that come by themselves.
    pub(crate) schedules: Schedules,
    pub(crate) group: Group,
    pub(crate) deferred: Vec<Request>,
    pub(crate) last_worker: u64,
    /// When a schedule was last triggered by hand.
    pub(crate) last_trigger: Timestamp,
    pub(crate) now: Timestamp,
    /// The task whose report is being handled, for its answer.
    pub(crate) reporting: Option<TaskId>,
    /// Whether anyone wants to hear how far tasks are.
    pub(crate) progress_watched: bool,
    /// Tasks that had become ready when that was last told.
    arrivals: u64,
}

impl Core {
    pub(crate) fn new(scheduler: Scheduler, reader: Box<dyn Reader>, stats: Arc<Stats>) -> Self {
        Self {
            scheduler,
            ids: HashMap::default(),
            departing_workflows: BTreeMap::new(),
            reader: Box::new(Counted::new(reader, Arc::clone(&stats))),
            last_ordered_id: TaskId(0),
            last_seq: Seq(0),
            keys: Keys::default(),
            stats,
            live: Live::default(),
            schedules: Schedules::default(),
            group: Group::default(),
            deferred: Vec::new(),
            last_worker: 0,
            last_trigger: Timestamp(0),
            now: Timestamp(0),
            reporting: None,
            progress_watched: false,
            arrivals: 0,
        }
    }

    /// Tells whoever waits for it that a task has become ready.
    pub(crate) fn tell_arrivals(&mut self) {
        let arrivals = self.scheduler.arrivals();
        if std::mem::replace(&mut self.arrivals, arrivals) != arrivals {
            self.stats.tell_work();
        }
    }

    /// Takes one request. A failed read of the store concerns that request only: it changes nothing, and whoever
    /// asked is told; see the module `reads`.
    pub fn step(&mut self, now: Timestamp, request: Request) -> Result<(), Error> {
        self.set_now(now);
        let last_seq = self.last_seq;
        if self.take(request).is_err() {
            self.forget_unborn(last_seq);
        }
        Ok(())
    }

    fn take(&mut self, request: Request) -> Result<(), Error> {
        match request {
            Request::Submit { specs, options, reply } => self.submit(specs, options, reply),
            Request::Connect { hello, outbox, reply } => self.connect(hello, outbox, reply),
            Request::Report { worker, reports } => {
                self.feed(Input::WorkerSeen { worker });
                reports.into_iter().for_each(|report| self.report(worker, report));
                Ok(())
            }
            Request::Heartbeat { worker, progress } => {
                self.feed(Input::WorkerSeen { worker });
                self.take_news(worker, progress);
                Ok(())
            }
            Request::Stopping { worker } => {
                self.feed(Input::WorkerDraining { worker });
                Ok(())
            }
            Request::Disconnect { worker } => {
                self.end_connection(worker, Input::WorkerLeft { worker })
            }
            Request::Cut { worker } => self.end_connection(worker, Input::WorkerCut { worker }),
            Request::Checkpoint { worker, saved } => {
                self.take_checkpoints(worker, saved);
                Ok(())
            }
            Request::ApplySettings { settings, reply } => {
                self.use_settings(settings)?;
                self.park(reply, Ok(()));
                Ok(())
            }
            Request::ChangeSettings { change, reply } => self.change_settings(change, reply),
            Request::Rebalance { reply } => {
                let moves = self.scheduler.plan_rebalance(self.now);
                self.feed(Input::RebalanceRequested);
                self.park(reply, Ok(moves));
                Ok(())
            }
            Request::Cancel { id, reason, reply } => self.cancel(id, reason, reply),
            Request::CancelMembers { ids, reason, reply } => {
                self.cancel_members(ids, reason, reply)
            }
            Request::ResumeWorkflow { id, include_cancelled, reply } => {
                self.resume_workflow(id, include_cancelled, reply)
            }
            Request::Retry { id, reply } => self.retry(id, reply),
            Request::Replay { id, replay, reply } => self.replay(id, *replay, reply),
            Request::Reprioritise { id, priority, reply } => self.reprioritise(id, priority, reply),
            Request::DropDead { id, reply } => self.drop_dead(id, reply),
            Request::PauseQueue { queue, paused, reply } => {
                self.feed(Input::QueuePaused { queue, paused });
                self.park(reply, Ok(()));
                Ok(())
            }
            Request::TellWorker { name, word, reply } => {
                self.tell_worker(&name, word, reply);
                Ok(())
            }
            Request::Schedule(request) => self.schedule(request),
            Request::Flush { reply } => {
                self.park(reply, Ok(()));
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
        self.fire_due()
    }

    /// The clock was set forward by `by_us` microseconds, and `now` is what it says.
    pub fn clock_stepped(&mut self, now: Timestamp, by_us: u64) {
        self.set_now(now);
        self.feed(Input::ClockStepped { by_us });
    }

    /// The server stops: what runs is recorded as held.
    pub fn stop(&mut self, now: Timestamp) -> Result<(), Error> {
        self.set_now(now);
        self.feed(Input::ServerStopping);
        Ok(())
    }

    /// When the machines want to be told that time passed.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let tick = self.schedules.next_deadline();
        self.scheduler.next_deadline().into_iter().chain(tick).min()
    }

    /// Says whether anyone watches changes, and how far tasks are.
    pub fn set_watched(&mut self, changes: bool, progress: bool) {
        self.scheduler.set_watched(changes);
        self.progress_watched = progress;
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
        self.workflows_released(&released.workflows);
        for (lane, tasks, exhausted) in released.loaded {
            let tasks =
                tasks.into_iter().map(|task| self.admit_stored(task)).collect::<Result<_, _>>()?;
            self.feed(Input::SpilledLoaded { lane, tasks, exhausted });
        }
        for (worker, task, token, problem) in released.ungranted {
            self.stats.count_failed_read(&problem);
            let message = format!("its inputs cannot be read: {problem}");
            let error = TaskError::new(ErrorClass::Failed, message);
            let failed = Failure { verdict: FailureVerdict::Retry, error };
            let outcome = AttemptOutcome::Failed(failed);
            self.report(worker, WorkerReport { task, token, outcome, log: None });
        }
        for worker in released.unreachable {
            tracing::debug!(worker = worker.0, "a worker does not take its messages; dropping it");
            self.end_connection(worker, Input::WorkerCut { worker })?;
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

    /// The schedules, to look at.
    pub fn schedules(&self) -> &Schedules {
        &self.schedules
    }

    /// The present time of the machines.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The number of an open task.
    pub fn seq_of(&self, id: TaskId) -> Option<Seq> {
        self.ids.get(&id).map(|known| known.seq)
    }

    /// Whether a task has left memory by facts that are not committed yet.
    pub(crate) fn is_departing(&self, id: TaskId) -> bool {
        self.ids.get(&id).is_some_and(|known| known.departing)
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
        // The machines must not see time go back, whatever drives the core.
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
                self.keys.follow(self.now, &fact);
                if let Fact::Replayed { seq, .. } = &fact
                    && let Some(spec) = self.scheduler.spec(*seq)
                {
                    self.group.put_back.push((*seq, Arc::clone(spec)));
                }
                self.group.add(fact);
            }
            Action::Grant(grant) => {
                self.stats.count_grant(grant.waited_us);
                self.group.grants.push(grant);
            }
            Action::AnswerReport { worker, seq, token, answer, ran_us } => {
                if let Some(ran_us) = ran_us {
                    self.stats.count_run(ran_us);
                }
                let task =
                    self.reporting.expect("the scheduler answers a report while it handles it");
                self.live.forget(seq);
                self.answer(worker, task, token, answer);
            }
            Action::StopAttempt { worker, task, token, reason, .. } => {
                self.group.stops.push((worker, task, token, reason));
            }
            Action::Recall { worker, task, token, begun_too, .. } => {
                self.group.recalls.push((worker, task, token, begun_too));
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
            Action::ForgetWorkflow { workflow } => {
                *self.departing_workflows.entry(workflow).or_default() += 1;
                self.group.workflows.push(workflow);
            }
        }
    }

    pub(crate) fn answer(
        &mut self,
        worker: WorkerKey,
        task: TaskId,
        token: Token,
        answer: ReportAnswer,
    ) {
        let recorded = answer == ReportAnswer::Recorded;
        if !recorded {
            self.stats.count_refused();
        }
        self.group.answers.push((worker, task, token, recorded));
    }

    /// Sends a reply when everything recorded so far is durable.
    pub(crate) fn park<T: Send + 'static>(&mut self, reply: Reply<T>, answer: Result<T, Error>) {
        self.group.replies.push(Box::new(move |durable| {
            // The asker may have gone.
            let _ = reply.send(durable.and(answer));
        }));
    }

    /// Tells whoever waits for the current group that it cannot be recorded at present, if that is so.
    pub(crate) fn refuse_parked(&mut self) {
        if let Some(problem) = self.stats.problem() {
            for reply in std::mem::take(&mut self.group.replies) {
                reply(Err(Error::StoreUnavailable(problem.clone())));
            }
        }
    }

    /// Forgets the ids of tasks that a request numbered after `last` and then did not bring to life.
    pub(crate) fn forget_unborn(&mut self, last: Seq) {
        let Self { ids, scheduler, .. } = self;
        ids.retain(|_, known| {
            known.seq <= last || known.departing || scheduler.state(known.seq).is_some()
        });
    }

    /// Makes a task from the store known again.
    pub(crate) fn admit_stored(&mut self, open: OpenTask) -> Result<RecoveredTask, Error> {
        match self.ids.entry(open.spec.id) {
            // It was cancelled while it was on its way: the scheduler does not take it, and it leaves with that fact.
            Entry::Occupied(known)
                if *known.get() == (Known { seq: open.seq, departing: true }) => {}
            known => {
                known.insert_entry(Known::open(open.seq));
            }
        }
        let parents = self.parents_of_stored(&open.spec)?;
        Ok(RecoveredTask { open, parents })
    }
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
