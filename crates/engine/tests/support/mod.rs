//! A hand-driven engine with workers that the test speaks for.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use divvy_engine::request::Reply;
use divvy_engine::runner::Options;
use divvy_engine::{
    Error, GrantedTask, InlineEngine, Request, SubmitOptions, Submitted, ToWorker, WorkerHello,
    WorkerReport,
};
use divvy_store::Store as _;
use divvy_store::memory::MemoryStore;
use divvy_types::{
    AttemptOutcome, Dependency, ErrorClass, Fact, Failure, FailureVerdict, Payload, TaskError,
    TaskId, TaskSpec, TaskState, Timestamp, Token, WorkerKey,
};
use tokio::sync::{mpsc, oneshot};

pub struct World {
    pub engine: InlineEngine,
    pub now: Timestamp,
    options: Options,
    disk: MemoryStore,
}

pub struct TestWorker {
    pub key: WorkerKey,
    pub inbox: mpsc::Receiver<ToWorker>,
}

impl World {
    pub fn new() -> Self {
        Self::with(Options::default())
    }

    pub fn with(options: Options) -> Self {
        Self::open(MemoryStore::new(), options, Timestamp(1_000_000_000))
    }

    fn open(disk: MemoryStore, options: Options, now: Timestamp) -> Self {
        let disk = disk.reopen();
        let engine = InlineEngine::start(Box::new(disk.reopen()), &options, now).expect("recovers");
        Self { engine, now, options, disk: disk.reopen() }
    }

    /// Stops as a server does that is asked to, and starts anew on the same data `ms` later.
    pub fn restart(self, ms: u64) -> Self {
        self.engine.stop(self.now).expect("stops");
        Self::open(self.disk, self.options, self.now.plus_ms(ms))
    }

    /// Ends as a server does that is killed: nothing is said, and what is committed is all there is.
    pub fn crash(self, ms: u64) -> Self {
        Self::open(self.disk, self.options, self.now.plus_ms(ms))
    }

    /// Stops and starts anew with other options.
    pub fn restart_with(self, options: Options) -> Self {
        self.engine.stop(self.now).expect("stops");
        Self::open(self.disk, options, self.now)
    }

    /// Ends like [`Self::crash`], and loses one setting.
    pub fn crash_without(self, setting: &str) -> Self {
        let forgotten = Fact::Setting { key: setting.into(), value: None };
        self.disk.reopen().commit(&[forgotten], &mut Vec::new()).expect("commits");
        Self::open(self.disk, self.options, self.now)
    }

    pub fn ask<T>(&mut self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, Error> {
        let (reply, mut answer) = oneshot::channel();
        self.engine.step(self.now, request(reply)).expect("the store is readable");
        answer.try_recv().expect("the answer left with its group")
    }

    pub fn submit(&mut self, specs: Vec<TaskSpec>) -> Result<Submitted, Error> {
        self.submit_with(specs, SubmitOptions::default())
    }

    pub fn submit_with(
        &mut self,
        specs: Vec<TaskSpec>,
        options: SubmitOptions,
    ) -> Result<Submitted, Error> {
        divvy_scheduler::admit::check_batch(&specs)?;
        self.ask(|reply| Request::Submit { specs, options, reply })
    }

    pub fn join(&mut self, name: &str, credit: u32, held: Vec<(TaskId, Token)>) -> TestWorker {
        let (outbox, inbox) = mpsc::channel(64);
        let kinds = vec!["noop".into(), "split".into()];
        let hello =
            WorkerHello { name: name.into(), kinds, credit, held, ..WorkerHello::default() };
        let key = self.ask(|reply| Request::Connect { hello, outbox, reply }).expect("joins");
        TestWorker { key, inbox }
    }

    pub fn report(
        &mut self,
        worker: &TestWorker,
        task: TaskId,
        token: Token,
        outcome: AttemptOutcome,
    ) {
        let reports = vec![WorkerReport { task, token, outcome, log: None }];
        self.engine
            .step(self.now, Request::Report { worker: worker.key, reports })
            .expect("the store is readable");
    }

    pub fn finish(&mut self, worker: &TestWorker, granted: &GrantedTask) {
        self.report(worker, granted.spec.id, granted.token, done("null"));
    }

    pub fn advance_ms(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
        self.engine.pass_time(self.now).expect("the store is readable");
    }

    pub fn state(&self, id: TaskId) -> Option<TaskState> {
        let core = self.engine.core();
        core.seq_of(id).and_then(|seq| core.scheduler().state(seq))
    }
}

impl TestWorker {
    pub fn grants(&mut self) -> Vec<GrantedTask> {
        let mut all = Vec::new();
        while let Ok(message) = self.inbox.try_recv() {
            if let ToWorker::Grants(grants) = message {
                all.extend(grants);
            }
        }
        all
    }

    pub fn messages(&mut self) -> Vec<ToWorker> {
        std::iter::from_fn(|| self.inbox.try_recv().ok()).collect()
    }
}

pub fn task(id: u128) -> TaskSpec {
    TaskSpec::new(TaskId(id), "noop")
}

pub fn after(id: u128, parents: &[u128]) -> TaskSpec {
    let mut spec = task(id);
    spec.after = parents.iter().map(|p| Dependency { task: TaskId(*p), optional: false }).collect();
    spec
}

pub fn done(result: &'static str) -> AttemptOutcome {
    AttemptOutcome::Finished {
        result: Payload::json(result).expect("is JSON"),
        spawned: Vec::new(),
    }
}

pub fn failed(verdict: FailureVerdict) -> AttemptOutcome {
    AttemptOutcome::Failed(Failure {
        verdict,
        error: TaskError::new(ErrorClass::Failed, "on purpose"),
    })
}
