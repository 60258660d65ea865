//! Workflows of 100,000 tasks in batches, through the engine and SQLite: layers that fan out and in, and one chain.

use divvy_engine::runner::Options;
use divvy_engine::{GrantedTask, InlineEngine, Request, ToWorker, WorkerHello, WorkerReport};
use divvy_store::sqlite::{Options as StoreOptions, SqliteStore};
use divvy_types::limits::BATCH_TASKS_MAX;
use divvy_types::view::ResumedWorkflow;
use divvy_types::{
    AttemptOutcome, Dependency, ErrorClass, Failure, FailureVerdict, Payload, TaskError, TaskId,
    TaskSpec, TaskState, Terms, Timestamp, WorkerKey, Workflow, WorkflowId, WorkflowRole,
};
use tokio::sync::{mpsc, oneshot};

const TASKS: u128 = 100_000;
const LAYER: u128 = 1_000;
const NOW: Timestamp = Timestamp(1_700_000_000_000_000);
const FLOW: WorkflowId = WorkflowId(7);

struct World {
    engine: InlineEngine,
    worker: WorkerKey,
    inbox: mpsc::Receiver<ToWorker>,
    _folder: tempfile::TempDir,
}

impl World {
    fn new(credit: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path(), StoreOptions::default()).unwrap();
        let engine = InlineEngine::start(Box::new(store), &Options::default(), NOW).unwrap();
        let (outbox, inbox) = mpsc::channel(64);
        let mut world = Self { engine, worker: WorkerKey(0), inbox, _folder: folder };
        let kinds = vec!["noop".into()];
        let hello = WorkerHello { name: "w".into(), kinds, credit, ..WorkerHello::default() };
        world.worker = world.ask(|reply| Request::Connect { hello, outbox, reply });
        world
    }

    fn ask<T: std::fmt::Debug>(
        &mut self,
        request: impl FnOnce(divvy_engine::request::Reply<T>) -> Request,
    ) -> T {
        let (reply, mut answer) = oneshot::channel();
        self.engine.step(NOW, request(reply)).unwrap();
        answer.try_recv().unwrap().unwrap()
    }

    fn submit(&mut self, specs: impl Iterator<Item = TaskSpec>) {
        let mut specs = specs.peekable();
        while specs.peek().is_some() {
            let batch: Vec<TaskSpec> = specs.by_ref().take(BATCH_TASKS_MAX).collect();
            divvy_scheduler::admit::check_batch(&batch).unwrap();
            self.ask(|reply| Request::Submit {
                specs: batch,
                options: divvy_engine::SubmitOptions::default(),
                reply,
            });
        }
    }

    fn grants(&mut self) -> Vec<GrantedTask> {
        let mut all = Vec::new();
        while let Ok(message) = self.inbox.try_recv() {
            if let ToWorker::Grants(grants) = message {
                all.extend(grants);
            }
        }
        all
    }

    fn report(&mut self, ends: Vec<(GrantedTask, AttemptOutcome)>) {
        let reports = ends.into_iter().map(|(grant, outcome)| WorkerReport {
            task: grant.spec.id,
            token: grant.token,
            outcome,
            log: None,
        });
        let reports = reports.collect();
        self.engine.step(NOW, Request::Report { worker: self.worker, reports }).unwrap();
    }

    fn state(&self, id: u128) -> Option<TaskState> {
        let core = self.engine.core();
        core.seq_of(TaskId(id)).and_then(|seq| core.scheduler().state(seq))
    }
}

fn done() -> AttemptOutcome {
    AttemptOutcome::Finished { result: Payload::null(), spawned: Vec::new() }
}

fn spec(id: u128, parents: impl IntoIterator<Item = u128>) -> TaskSpec {
    let after = parents.into_iter().map(|id| Dependency { task: TaskId(id), optional: false });
    let label = Workflow { id: FLOW, name: "large".into(), role: WorkflowRole::Member };
    let workflow = Some(Box::new(label));
    let mut spec = TaskSpec::new(TaskId(id), "noop");
    spec.terms = Terms { after: after.collect(), workflow, ..Terms::default() }.into();
    spec
}

#[test]
fn layers_that_fan_out_and_in_run_layer_by_layer() {
    let mut world = World::new(2 * LAYER as u32);
    // Every task waits for two of the layer before it, and the first of each layer for a thousand.
    let parents = |id: u128| -> Vec<u128> {
        let (layer, place) = ((id - 1) / LAYER, (id - 1) % LAYER);
        if layer == 0 {
            return Vec::new();
        }
        let first = (layer - 1) * LAYER + 1;
        match place {
            0 => (first..first + LAYER).collect(),
            _ => vec![first + place, first + (place * 7 + 1) % LAYER],
        }
    };
    world.submit((1..=TASKS).map(|id| spec(id, parents(id))));
    assert_eq!(world.engine.core().scheduler().open_members(FLOW), TASKS as u64);
    let (mut ran, mut rounds) = (0, 0);
    loop {
        let granted = world.grants();
        if granted.is_empty() {
            break;
        }
        for grant in &granted {
            let id = grant.spec.id.0;
            assert_eq!(grant.upstream.len(), grant.spec.after.len(), "task {id}");
            assert!(id <= (rounds + 1) * LAYER, "task {id} before its layer");
        }
        (ran, rounds) = (ran + granted.len(), rounds + 1);
        world.report(granted.into_iter().map(|grant| (grant, done())).collect());
    }
    assert_eq!((ran, rounds), (TASKS as usize, TASKS / LAYER));
    assert!(world.engine.core().scheduler().is_idle());
    assert_eq!(world.engine.core().scheduler().open_members(FLOW), 0);
}

#[test]
fn a_chain_breaks_at_once_and_is_resumed_in_one_commit() {
    let mut world = World::new(1);
    world.submit((1..=TASKS).map(|id| spec(id, (id > 1).then(|| id - 1))));
    for id in 1..=200 {
        let grant = world.grants().remove(0);
        assert_eq!(grant.spec.id.0, id);
        world.report(vec![(grant, done())]);
    }
    let error = TaskError::new(ErrorClass::Failed, "on purpose");
    let dead = AttemptOutcome::Failed(Failure { verdict: FailureVerdict::Dead, error });
    let grant = world.grants().remove(0);
    world.report(vec![(grant, dead)]);
    assert!(world.engine.core().scheduler().is_idle(), "all that waited was cancelled");

    let resumed: ResumedWorkflow =
        world.ask(|reply| Request::ResumeWorkflow { id: FLOW, include_cancelled: false, reply });
    assert_eq!((resumed.resumed, resumed.left), (TASKS as u64 - 200, 0));
    assert_eq!(world.state(TASKS), Some(TaskState::Blocked));
    for id in 201..=400 {
        let grant = world.grants().remove(0);
        assert_eq!(grant.spec.id.0, id);
        world.report(vec![(grant, done())]);
    }
}
