//! Changes are told only while someone watches. Whoever begins to watch and then looks must learn of every end.

use std::time::{Duration, Instant};

use divvy_engine::{Engine, GrantedTask, Handle, ToWorker, WorkerHello, WorkerReport};
use divvy_store::sqlite::{Options as StoreOptions, SqliteStore};
use divvy_types::{AttemptOutcome, Payload, TaskId, TaskSpec, WorkerKey};
use tokio::sync::mpsc;

const PATIENCE: Duration = Duration::from_secs(10);

async fn granted(inbox: &mut mpsc::Receiver<ToWorker>) -> GrantedTask {
    loop {
        let message = tokio::time::timeout(PATIENCE, inbox.recv()).await.expect("a grant comes");
        if let ToWorker::Grants(mut grants) = message.expect("the engine runs") {
            return grants.pop().expect("a message of grants has one");
        }
    }
}

async fn join(handle: &Handle) -> (WorkerKey, mpsc::Receiver<ToWorker>) {
    let (outbox, inbox) = mpsc::channel(64);
    let kinds = vec!["noop".into()];
    let hello = WorkerHello { name: "w".into(), kinds, credit: 1, ..WorkerHello::default() };
    (handle.connect(hello, outbox).await.expect("joins"), inbox)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_is_either_seen_or_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), StoreOptions::default()).unwrap();
    let (handle, engine) = Engine::start(Box::new(store), Default::default()).unwrap();
    let (worker, mut inbox) = join(&handle).await;
    for number in 1..=300u32 {
        let task = TaskId(number.into());
        handle.submit(vec![TaskSpec::new(task, "noop")]).await.unwrap();
        let grant = granted(&mut inbox).await;
        let outcome = AttemptOutcome::Finished { result: Payload::null(), spawned: Vec::new() };
        let report = WorkerReport { task, token: grant.token, outcome, log: None };
        // The end is on its way to the disk while the watcher begins.
        handle.report(worker, vec![report]).await.unwrap();
        // A commit takes some hundred microseconds; each round begins to watch at another moment of it.
        let started = Instant::now();
        while started.elapsed() < Duration::from_micros(u64::from(number % 40) * 10) {
            std::hint::spin_loop();
        }
        let mut changes = handle.changes().await.unwrap();
        if handle.task(task).await.unwrap().summary.state.is_final() {
            continue;
        }
        let told = tokio::time::timeout(PATIENCE, async {
            while let Ok(change) = changes.recv().await {
                if change.id == task && change.state.is_final() {
                    return;
                }
            }
        });
        told.await.unwrap_or_else(|_| panic!("nobody told of the end of task {number}"));
    }
    engine.stopper().stop();
    engine.join().await.unwrap();
}
