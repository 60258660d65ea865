//! A hand-driven engine with workers that the test speaks for.

pub(crate) mod pipeline;

use divvy_engine::request::Reply;
use divvy_engine::runner::Options;
use divvy_engine::{
    Error, GrantedTask, InlineEngine, Request, SubmitOptions, Submitted, ToWorker, WorkerHello,
    WorkerReport,
};
use divvy_store::Store;
use divvy_store::memory::MemoryStore;
use divvy_types::{
    AttemptOutcome, Dependency, ErrorClass, Fact, Failure, FailureVerdict, Payload, TaskError,
    TaskId, TaskSpec, TaskState, Timestamp, Token, WorkerKey,
};
use tokio::sync::{mpsc, oneshot};

pub(crate) struct World {
    pub(crate) engine: InlineEngine,
    pub(crate) now: Timestamp,
    options: Options,
    disk: MemoryStore,
}

pub(crate) struct TestWorker {
    pub(crate) key: WorkerKey,
    pub(crate) inbox: mpsc::Receiver<ToWorker>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        Self::open(MemoryStore::new(), options, Timestamp(1_000_000_000))
    }

    /// On a store that cannot be opened again.
    pub(crate) fn on(store: Box<dyn Store>, now: Timestamp) -> Self {
        let options = Options::default();
        let engine = InlineEngine::start(store, &options, now).expect("recovers");
        Self { engine, now, options, disk: MemoryStore::new() }
    }

    fn open(disk: MemoryStore, options: Options, now: Timestamp) -> Self {
        let engine = InlineEngine::start(Box::new(disk.reopen()), &options, now).expect("recovers");
        Self { engine, now, options, disk: disk.reopen() }
    }

    /// Stops as a server does that is asked to, and starts anew on the same data `ms` later.
    pub(crate) fn restart(self, ms: u64) -> Self {
        self.engine.stop(self.now).expect("stops");
        Self::open(self.disk, self.options, self.now.plus_ms(ms))
    }

    /// Ends as a server does that is killed: nothing is said, and what is committed is all there is.
    pub(crate) fn crash(self, ms: u64) -> Self {
        Self::open(self.disk, self.options, self.now.plus_ms(ms))
    }

    /// Stops and starts anew with other options.
    pub(crate) fn restart_with(self, options: Options) -> Self {
        self.engine.stop(self.now).expect("stops");
        Self::open(self.disk, options, self.now)
    }

    /// Ends like [`Self::crash`], and loses one setting.
    pub(crate) fn crash_without(self, setting: &str) -> Self {
        let forgotten = Fact::Setting { key: setting.into(), value: None };
        self.disk.reopen().commit(&[forgotten], &mut Vec::new()).expect("commits");
        Self::open(self.disk, self.options, self.now)
    }

    pub(crate) fn ask<T>(&mut self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, Error> {
        let (reply, mut answer) = oneshot::channel();
        self.engine.step(self.now, request(reply)).expect("the store is readable");
        answer.try_recv().expect("the answer left with its group")
    }

    pub(crate) fn submit(&mut self, specs: Vec<TaskSpec>) -> Result<Submitted, Error> {
        self.submit_with(specs, SubmitOptions::default())
    }

    pub(crate) fn submit_with(
        &mut self,
        specs: Vec<TaskSpec>,
        options: SubmitOptions,
    ) -> Result<Submitted, Error> {
        divvy_scheduler::admit::check_batch(&specs)?;
        self.ask(|reply| Request::Submit { specs, options, reply })
    }

    pub(crate) fn join(
        &mut self,
        name: &str,
        credit: u32,
        held: Vec<(TaskId, Token)>,
    ) -> TestWorker {
        let (outbox, inbox) = mpsc::channel(64);
        let kinds = vec!["noop".into(), "split".into()];
        let hello =
            WorkerHello { name: name.into(), kinds, credit, held, ..WorkerHello::default() };
        let key = self.ask(|reply| Request::Connect { hello, outbox, reply }).expect("joins");
        TestWorker { key, inbox }
    }

    pub(crate) fn report(
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

    pub(crate) fn finish(&mut self, worker: &TestWorker, granted: &GrantedTask) {
        self.report(worker, granted.spec.id, granted.token, done("null"));
    }

    pub(crate) fn advance_ms(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
        self.engine.pass_time(self.now).expect("the store is readable");
    }

    pub(crate) fn state(&self, id: TaskId) -> Option<TaskState> {
        let core = self.engine.core();
        core.seq_of(id).and_then(|seq| core.scheduler().state(seq))
    }
}

impl TestWorker {
    pub(crate) fn grants(&mut self) -> Vec<GrantedTask> {
        let mut all = Vec::new();
        while let Ok(message) = self.inbox.try_recv() {
            if let ToWorker::Grants(grants) = message {
                all.extend(grants);
            }
        }
        all
    }

    pub(crate) fn messages(&mut self) -> Vec<ToWorker> {
        std::iter::from_fn(|| self.inbox.try_recv().ok()).collect()
    }
}

pub(crate) fn task(id: u128) -> TaskSpec {
    TaskSpec::new(TaskId(id), "noop")
}

pub(crate) fn after(id: u128, parents: &[u128]) -> TaskSpec {
    let mut spec = task(id);
    spec.after = parents.iter().map(|p| Dependency { task: TaskId(*p), optional: false }).collect();
    spec
}

pub(crate) fn done(result: &'static str) -> AttemptOutcome {
    AttemptOutcome::Finished {
        result: Payload::json(result).expect("is JSON"),
        spawned: Vec::new(),
    }
}

pub(crate) fn failed(verdict: FailureVerdict) -> AttemptOutcome {
    AttemptOutcome::Failed(Failure {
        verdict,
        error: TaskError::new(ErrorClass::Failed, "on purpose"),
    })
}
