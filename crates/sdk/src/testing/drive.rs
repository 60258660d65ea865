//! The engine under the bench: requests in, grants out, handlers run, reports in.
//!
//! Plays the part of the network and of the one connected worker, one attempt at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use divvy_engine::inline::InlineEngine;
use divvy_engine::request::Reply;
use divvy_engine::{
    Error, GrantedTask, Options, Request, SubmitOptions, Submitted, ToWorker, WorkerHello,
    WorkerReport,
};
use divvy_store::{MemberRecord, Members, MemoryStore, Reader, Store, TaskRecord};
use divvy_types::view::{Progress, ResumedWorkflow};
use divvy_types::{
    AttemptOutcome, ErrorClass, Failure, FailureVerdict, Name, Payload, Select, TaskError, TaskId,
    TaskSpec, TaskState, Timestamp, WorkerKey, WorkflowId,
};
use divvy_worker::{Attempt, AttemptProbe, CancelReason, Registry};
use tokio::sync::{mpsc, oneshot};

use crate::context::{Clock, Surroundings};
use crate::worker::{Parts, registry};

/// When a bench's clock starts: the first second of 2026, always, so that a test sees the same times each time.
const START: Timestamp = Timestamp(1_767_225_600_000_000);
/// Attempts of one call; a task that snoozes for ever would never end.
const ATTEMPTS_MAX: u32 = 100_000;
/// Messages that may wait for the worker; one attempt makes a few.
const OUTBOX: usize = 1_024;
/// Rows of one page of tasks.
const PAGE_ROWS: usize = 1_000;

/// What never fails on a bench: the store is in memory.
const STORE: &str = "the store in memory does not fail";

pub(super) struct Drive {
    engine: InlineEngine,
    reader: Box<dyn Reader>,
    registry: Registry,
    worker: WorkerKey,
    inbox: mpsc::Receiver<ToWorker>,
    clock: Arc<AtomicU64>,
    /// What is to happen to the next attempt as it starts.
    interrupt_next: Option<CancelReason>,
    /// What the last attempt of each task said of itself.
    notes: std::collections::HashMap<TaskId, AttemptProbe>,
}

impl Drive {
    pub(super) fn new(parts: Parts) -> Self {
        let clock = Arc::new(AtomicU64::new(START.0));
        let store = MemoryStore::new();
        let reader = store.reader().expect(STORE);
        let engine = InlineEngine::start(Box::new(store), &Options::default(), START).expect(STORE);
        let surroundings =
            Surroundings { states: parts.states, clock: Clock::Virtual(Arc::clone(&clock)) };
        let registry = registry(parts.registrations, &surroundings);
        let hello = WorkerHello {
            name: parts.name,
            queues: parts.queues,
            kinds: registry.kinds().cloned().collect(),
            capabilities: parts.capabilities,
            // One at a time: the order is then the scheduler's and nobody else's.
            credit: 1,
            ..WorkerHello::default()
        };
        let (outbox, inbox) = mpsc::channel(OUTBOX);
        let (interrupt_next, notes) = (None, std::collections::HashMap::new());
        let mut drive = Self {
            engine,
            reader,
            registry,
            worker: WorkerKey(0),
            inbox,
            clock,
            interrupt_next,
            notes,
        };
        let connected = drive.ask(|reply| Request::Connect { hello, outbox, reply });
        drive.worker = connected.expect("an engine takes every worker that says hello");
        drive
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp(self.clock.load(Ordering::Relaxed))
    }

    pub(super) fn submit(&mut self, specs: Vec<TaskSpec>) -> Result<Submitted, Error> {
        divvy_scheduler::admit::check_batch(&specs)?;
        self.ask(|reply| Request::Submit { specs, options: SubmitOptions::default(), reply })
    }

    pub(super) fn cancel(&mut self, id: TaskId, reason: Name) -> Result<TaskState, Error> {
        self.ask(|reply| Request::Cancel { id, reason, reply })
    }

    pub(super) fn retry(&mut self, id: TaskId) -> Result<TaskState, Error> {
        self.ask(|reply| Request::Retry { id, reply })
    }

    /// Cancels the open tasks of a workflow, dependents first.
    pub(super) fn cancel_workflow(&mut self, id: WorkflowId, reason: Name) -> Result<u64, Error> {
        let mut ids = Vec::new();
        let visit = &mut |member: MemberRecord| {
            ids.push(member.spec.id);
            true
        };
        self.reader.members(id, Members::Open, visit).expect(STORE);
        ids.reverse();
        self.ask(|reply| Request::CancelMembers { ids, reason, reply })
    }

    pub(super) fn resume(&mut self, id: WorkflowId) -> Result<ResumedWorkflow, Error> {
        let include_cancelled = false;
        self.ask(|reply| Request::ResumeWorkflow { id, include_cancelled, reply })
    }

    /// Stops the next attempt for this reason at the moment at which its handler starts.
    pub(super) fn interrupt_next(&mut self, reason: CancelReason) {
        self.interrupt_next = Some(reason);
    }

    /// Runs everything that can run at this time.
    pub(super) async fn settle(&mut self) {
        for _ in 0..ATTEMPTS_MAX {
            let Some(granted) = self.next_grant() else { return };
            self.attempt(granted).await;
        }
        panic!(
            "{ATTEMPTS_MAX} attempts at one time; does a task spawn itself, or snooze for no time, for ever?"
        );
    }

    /// Runs everything, and moves the clock to the next deadline for as long as something waits for a time.
    pub(super) async fn drain(&mut self) {
        for _ in 0..ATTEMPTS_MAX {
            self.settle().await;
            let waiting = self.engine.core().scheduler().counts().scheduled;
            match self.engine.next_deadline() {
                Some(deadline) if waiting > 0 => self.move_to(deadline),
                _ => return,
            }
        }
        panic!("{ATTEMPTS_MAX} jumps of the clock and no end; does a task snooze for ever?");
    }

    /// Moves the clock on, through every deadline on the way, running what becomes due at each.
    pub(super) async fn advance(&mut self, span: Duration) {
        let end = self.now() + span;
        for _ in 0..ATTEMPTS_MAX {
            self.settle().await;
            match self.engine.next_deadline() {
                Some(deadline) if deadline <= end => self.move_to(deadline),
                _ => {
                    self.move_to(end);
                    return self.settle().await;
                }
            }
        }
        panic!(
            "{ATTEMPTS_MAX} deadlines within {span:?}; does a task snooze for no time, for ever?"
        );
    }

    fn move_to(&mut self, time: Timestamp) {
        let time = time.max(self.now());
        self.clock.store(time.0, Ordering::Relaxed);
        // The worker would have been heard of all the while.
        let seen = Request::Heartbeat { worker: self.worker, progress: Vec::new() };
        self.engine.step(time, seen).expect(STORE);
        self.engine.pass_time(time).expect(STORE);
    }

    fn next_grant(&mut self) -> Option<GrantedTask> {
        loop {
            match self.inbox.try_recv().ok()? {
                ToWorker::Grants(mut granted) => {
                    assert_eq!(granted.len(), 1, "a worker with one credit gets one task");
                    return granted.pop();
                }
                // Answers to reports, and stops of attempts that have ended.
                ToWorker::Answers(_)
                | ToWorker::Stops(_)
                | ToWorker::Recalls(_)
                | ToWorker::Drain => {}
            }
        }
    }

    async fn attempt(&mut self, granted: GrantedTask) {
        let GrantedTask { spec, token, attempt, upstream, upstream_cut, checkpoint } = granted;
        let (task, timeout_ms) = (spec.id, spec.timeout_ms);
        let (mut running, probe) =
            Attempt::detached((*spec).clone(), token, attempt, upstream.into());
        running.upstream_cut = upstream_cut;
        running.resume_point = checkpoint;
        let interrupted = self.interrupt_next.take();
        if let Some(reason) = &interrupted {
            if let CancelReason::Stopped(words) = reason {
                self.cancel(task, words.clone()).expect("a task that was granted can be cancelled");
            }
            probe.cancel(reason.clone());
        }
        let running = self.registry.execute(running);
        let outcome = match timeout_ms {
            None => running.await,
            Some(ms) => match tokio::time::timeout(Duration::from_millis(ms), running).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    let message = format!("the attempt took longer than its timeout_ms of {ms}");
                    failed(ErrorClass::Timeout, FailureVerdict::Retry, &message)
                }
            },
        };
        // As on a worker: what a handler returns after it was asked to stop does not count.
        let outcome = match interrupted {
            Some(CancelReason::Stopped(words)) => {
                failed(ErrorClass::Cancelled, FailureVerdict::Cancelled, &words)
            }
            Some(_) => AttemptOutcome::Released,
            None => outcome,
        };
        // As on a worker: what was saved goes before the report.
        if let Some(data) = probe.checkpoint()
            && !matches!(outcome, AttemptOutcome::Finished { .. })
        {
            let saved = vec![(task, token, data)];
            let request = Request::Checkpoint { worker: self.worker, saved };
            self.engine.step(self.now(), request).expect(STORE);
        }
        let log = Some(Name::from(probe.log())).filter(|log| !log.is_empty());
        self.notes.insert(task, probe);
        let reports = vec![WorkerReport { task, token, outcome, log }];
        self.engine
            .step(self.now(), Request::Report { worker: self.worker, reports })
            .expect(STORE);
    }

    fn ask<T>(&mut self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, Error> {
        let (reply, mut answer) = oneshot::channel();
        self.engine.step(self.now(), request(reply)).expect(STORE);
        answer.try_recv().expect("an engine without threads answers before it returns")
    }

    /// A task as the store has it.
    pub(super) fn record(&mut self, id: TaskId) -> Option<TaskRecord> {
        self.reader.find(id).expect(STORE)
    }

    /// All tasks, oldest first.
    pub(super) fn records(&mut self) -> Vec<TaskRecord> {
        let mut records = Vec::new();
        let mut before = None;
        loop {
            let page = self.reader.page(&Select::default(), before, PAGE_ROWS).expect(STORE);
            records.extend(page.tasks);
            before = page.searched_to;
            if before.is_none() {
                break;
            }
        }
        records.reverse();
        records
    }

    /// Where an open task is, and why it does not run.
    pub(super) fn status(&self, record: &TaskRecord) -> (TaskState, Option<String>) {
        if let Some(outcome) = &record.outcome {
            return (outcome.state, None);
        }
        match self.engine.core().scheduler().status(record.seq) {
            Some(status) => (status.state, status.wait.map(|wait| wait.to_string())),
            None => (TaskState::Ready, None),
        }
    }

    /// What the last attempt of a task saved.
    pub(super) fn saved(&self, id: TaskId) -> Option<Payload> {
        self.notes.get(&id).and_then(AttemptProbe::checkpoint)
    }

    /// How far the last attempt of a task said that it was.
    pub(super) fn progress(&self, id: TaskId) -> Option<Progress> {
        self.notes.get(&id).map(AttemptProbe::progress)
    }
}

fn failed(class: ErrorClass, verdict: FailureVerdict, message: &str) -> AttemptOutcome {
    AttemptOutcome::Failed(Failure { verdict, error: TaskError::new(class, message) })
}
