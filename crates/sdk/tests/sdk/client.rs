//! The client and real workers against a private server.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use crate::support::TestServer;
use divvy::prelude::*;
use divvy::types::limits::SELECT_WORKFLOWS_MAX;
use divvy::types::{TaskId, TaskState};
use divvy::{Error, Shutdown, Summary, Target, WaitError, WorkerError};
use divvy_engine::Engine;
use divvy_server::Unbound;
use divvy_store::MemoryStore;
use futures_util::StreamExt;
use tokio::task::JoinHandle;

const TIME_LIMIT: Duration = Duration::from_secs(60);

#[derive(Serialize, Deserialize)]
struct Double(u64);
impl Task for Double {
    const KIND: &'static str = "double";
    type Output = u64;
}

async fn double(Double(number): Double) -> Outcome<u64> {
    if number == 13 { Err(Failure::dead("unlucky")) } else { Ok(number * 2) }
}

struct TestWorker {
    shutdown: Shutdown,
    running: JoinHandle<Result<Summary, WorkerError>>,
}

impl TestWorker {
    fn start(url: &str) -> Self {
        let shutdown = Shutdown::new();
        let running =
            tokio::spawn(Worker::new("w").server(url).on(double).run_until(shutdown.clone()));
        Self { shutdown, running }
    }

    async fn stop(self) -> Summary {
        self.shutdown.drain();
        within(self.running)
            .await
            .expect("the worker does not panic")
            .expect("the worker ends in order")
    }
}

/// A hanging test shall fail, and say where.
#[track_caller]
fn within<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let place = std::panic::Location::caller();
    async move {
        tokio::time::timeout(TIME_LIMIT, work).await.unwrap_or_else(|_| panic!("{place}: no end"))
    }
}

#[tokio::test]
async fn results_come_back_typed_and_failures_as_what_they_are() {
    let server = TestServer::start().await;
    let worker = TestWorker::start(&server.url());
    let client = Client::connect(server.url()).await.unwrap();
    let good = client.submit(Double(21)).await.unwrap();
    assert_eq!(within(good.wait()).await.unwrap(), 42);
    assert_eq!(within(client.task(good.id()).wait()).await.unwrap(), serde_json::json!(42));
    let bad = client.submit(Double(13)).await.unwrap();
    let error = within(bad.wait()).await.unwrap_err();
    assert!(
        matches!(&error, WaitError::Dead { task, error } if *task == bad.id() && error.message == "unlucky")
    );
    let delayed =
        client.submit_with(Double(1), |o| o.delay(Duration::from_secs(3_600))).await.unwrap();
    client.cancel(delayed.id(), Some("too late")).await.unwrap();
    let error = within(delayed.wait()).await.unwrap_err();
    assert!(
        matches!(&error, WaitError::Cancelled { reason, .. } if reason == "too late"),
        "{error}"
    );
    // Put back it runs at once: its hour does not matter any more.
    assert_eq!(client.retry(delayed.id()).await.unwrap(), TaskState::Leased);
    assert_eq!(within(delayed.wait()).await.unwrap(), 2);
    worker.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn workers_and_workflows_of_others_can_be_looked_at() {
    let server = TestServer::start().await;
    let client = Client::connect(server.url()).await.unwrap();
    assert!(client.workers().await.unwrap().is_empty());
    let worker = TestWorker::start(&server.url());
    let mut workflow = Workflow::new("pair");
    let (good, bad) = (workflow.add(Double(1)), workflow.add(Double(13)));
    let later = workflow.add_with(Double(2), |options| options.delay(Duration::from_secs(3_600)));
    let run = client.start(workflow).await.unwrap();
    within(run.task(good).wait()).await.unwrap();
    within(run.task(bad).wait()).await.unwrap_err();

    let workers = client.workers().await.unwrap();
    assert_eq!(workers.len(), 1);
    assert!(workers[0].name == "w" && workers[0].kinds.iter().any(|kind| kind == "double"));
    let view = client.workflow(run.id()).await.unwrap();
    assert_eq!((view.total, view.counts.done, view.counts.dead), (3, 1, 1));
    assert_eq!(view.failed[0].error.as_ref().unwrap().message, "unlucky");
    assert_eq!(client.workflow_tasks(run.id()).await.unwrap().len(), 3);
    assert_eq!(client.cancel_workflow(run.id(), Some("enough")).await.unwrap(), 1);
    let error = within(run.task(later).wait()).await.unwrap_err();
    assert!(matches!(&error, WaitError::Cancelled { reason, .. } if reason == "enough"), "{error}");

    let unknown = divvy::types::WorkflowId(7);
    let error = client.workflow(unknown).await.unwrap_err();
    assert_eq!(error.code(), "no_such_workflow");
    assert!(client.workflow_tasks(unknown).await.unwrap().is_empty());
    worker.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn tasks_of_more_workflows_than_one_request_names_are_all_found() {
    let server = TestServer::start().await;
    let client = Client::connect(server.url()).await.unwrap();
    let mut ids = vec![divvy::types::WorkflowId(7)];
    for n in 0..SELECT_WORKFLOWS_MAX + 2 {
        let mut workflow = Workflow::new("pair");
        workflow.add(Double(1));
        if n % 2 == 0 {
            workflow.add(Double(2));
        }
        ids.push(client.start(workflow).await.unwrap().id());
    }
    let found = client.tasks_of_workflows(&ids).await.unwrap();
    assert_eq!(found.len(), ids.len() - 1, "the server does not know the first");
    for (n, id) in ids.iter().skip(1).enumerate() {
        assert_eq!(found[id].len(), 2 - n % 2, "of workflow {n}");
        assert!(found[id].iter().all(|task| task.workflow.as_ref().unwrap().id == *id));
    }
    server.stop().await;
}

#[tokio::test]
async fn concurrent_submissions_all_arrive_and_a_bad_one_hurts_nobody_else() {
    let server = TestServer::start().await;
    let client = Client::connect(server.url()).await.unwrap();
    let unknown = TaskId(4);
    let submissions = (0..500u64).map(|n| {
        let client = &client;
        async move {
            let after = |o: TaskOptions| if n % 100 == 7 { o.after(unknown) } else { o };
            (n, client.submit_with(Double(n), after).await)
        }
    });
    let outcomes = within(futures_util::future::join_all(submissions)).await;
    let mut ids = HashSet::new();
    for (n, outcome) in outcomes {
        match outcome {
            Ok(handle) => assert!(n % 100 != 7 && ids.insert(handle.id())),
            Err(error) => {
                assert!(n % 100 == 7 && error.code() == "unknown_dependency", "{n}: {error}")
            }
        }
    }
    assert_eq!(ids.len(), 495);
    let worker = TestWorker::start(&server.url());
    for id in ids {
        let result = within(client.task_of::<Double>(id).wait()).await;
        assert!(result.is_ok() || matches!(result, Err(WaitError::Dead { .. })));
    }
    assert_eq!(worker.stop().await.finished, 494);
    server.stop().await;
}

#[tokio::test]
async fn a_batch_is_accepted_whole_or_not_at_all() {
    let server = TestServer::start().await;
    let client = Client::connect(server.url()).await.unwrap();
    let mut batch = client.batch();
    let handles: Vec<_> = (0..10).map(|n| batch.add(Double(n))).collect();
    assert_eq!(batch.send().await.unwrap().accepted, 10);
    assert!(handles[9].detail().await.is_ok());
    let mut batch = client.batch();
    let first = batch.add(Double(1));
    batch.add_with(Double(2), |options| options.after(TaskId(4)));
    assert_eq!(batch.send().await.unwrap_err().code(), "unknown_dependency");
    assert_eq!(first.detail().await.unwrap_err().code(), "not_found");
    let mut batch = client.batch();
    batch.add_with(Double(2), |options| options.queue(""));
    assert!(matches!(batch.send().await.unwrap_err(), Error::Spec(_)));
    server.stop().await;
}

#[tokio::test]
async fn a_workflow_with_a_key_runs_once_however_often_it_is_started() {
    let server = TestServer::start().await;
    let worker = TestWorker::start(&server.url());
    let client = Client::connect(server.url()).await.unwrap();
    let workflow = |last| {
        let mut workflow = Workflow::new("pair").key("pair-1");
        let first = workflow.add(Double(1));
        let second = workflow.after(first, Double(last));
        (workflow, second)
    };
    let (description, _) = workflow(2);
    let run = client.start(description).await.unwrap();
    let summary = within(run.wait()).await.unwrap();
    assert_eq!(summary.to_string(), "pair: 2 of 2 done");
    summary.into_success().unwrap();
    let (description, second) = workflow(2);
    let again = client.start(description).await.unwrap();
    assert_eq!(again.id(), run.id());
    assert_eq!(within(again.task(second).wait()).await.unwrap(), 4);
    let (description, _) = workflow(3);
    assert_eq!(client.start(description).await.unwrap_err().code(), "id_taken");
    assert_eq!(worker.stop().await.finished, 2);
    server.stop().await;
}

#[tokio::test]
async fn progress_of_a_run_ends_with_how_it_ended() {
    let server = TestServer::start().await;
    let client = Client::connect(server.url()).await.unwrap();
    let mut workflow = Workflow::new("unlucky");
    let parts = [1, 13, 3].map(|n| workflow.add(Double(n)));
    workflow.after(parts, Double(4));
    let run = client.start(workflow).await.unwrap();
    let mut news = Box::pin(run.progress());
    let first = within(news.next()).await.unwrap().unwrap();
    assert_eq!((first.total, first.waiting), (4, 4));
    let worker = TestWorker::start(&server.url());
    let mut last = first;
    while let Some(progress) = within(news.next()).await {
        last = progress.unwrap();
    }
    assert_eq!((last.done, last.dead, last.cancelled, last.is_over()), (2, 1, 1, true));
    let failed = run.summary().await.unwrap().into_success().unwrap_err().to_string();
    assert!(
        failed.starts_with("workflow unlucky: 2 of 4 done, 1 dead, 1 cancelled; task "),
        "{failed}"
    );
    assert!(failed.ends_with("of kind `double` is dead: unlucky"), "{failed}");
    worker.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn waits_submissions_and_workers_live_through_a_restart_of_the_server() {
    let store = MemoryStore::new();
    let second_life = store.reopen();
    let server = TestServer::with(store, SocketAddr::from(([127, 0, 0, 1], 0)), None).await;
    let (url, address) = (server.url(), server.address());
    let client = Client::connect(&url).await.unwrap();
    let handle = client.submit(Double(4)).await.unwrap();
    let waiting = tokio::spawn({
        let handle = handle.clone();
        async move { handle.wait().await }
    });
    server.stop().await;
    let late = tokio::spawn({
        let client = client.clone();
        async move { client.submit(Double(5)).await?.wait().await }
    });
    let worker = TestWorker::start(&url);
    let server = TestServer::with(second_life, address, None).await;
    assert_eq!(within(waiting).await.unwrap().unwrap(), 8);
    assert_eq!(within(late).await.unwrap().unwrap(), 10);
    worker.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn a_token_is_needed_where_one_is_set() {
    let server = TestServer::start_with_token("secret").await;
    let client = Client::connect(Target::new(server.url()).token("secret")).await.unwrap();
    let handle = client.submit(Double(1)).await.unwrap();
    assert!(handle.detail().await.is_ok());
    let stranger = Client::connect(server.url()).await.unwrap();
    assert_eq!(stranger.submit(Double(1)).await.unwrap_err().code(), "unauthorized");
    let error = stranger.task(handle.id()).wait().await.unwrap_err().to_string();
    assert!(error.contains("DIVVY_TOKEN"), "{error}");
    server.stop().await;
}

#[tokio::test]
async fn what_cannot_be_is_told_and_not_waited_for() {
    assert_eq!(Client::connect("ftp://nowhere").await.unwrap_err().code(), "bad_address");
    let server = TestServer::start().await;
    let client = Client::connect(server.url()).await.unwrap();
    let error = within(client.task(TaskId(9)).wait()).await.unwrap_err();
    assert!(matches!(&error, WaitError::Client(error) if error.code() == "not_found"), "{error}");
    assert_eq!(client.cancel(TaskId(9), None).await.unwrap_err().code(), "not_found");
    server.stop().await;
}

#[tokio::test]
async fn a_submission_that_conflicts_gives_the_task_that_is_there() {
    let server = TestServer::start().await;
    let client = Client::connect(server.url()).await.unwrap();
    let first = client.submit_with(Double(1), |o| o.unique("one")).await.unwrap();
    assert!(!first.is_existing());

    let second = client.submit_with(Double(2), |o| o.unique("one")).await.unwrap();
    assert!(second.is_existing());
    let mut batch = client.batch();
    let third = batch.add_with(Double(3), |o| o.unique("one"));
    let other = batch.add(Double(4));
    let submitted = batch.send().await.unwrap();
    assert_eq!((submitted.accepted, submitted.conflicts.len()), (1, 1));
    assert!(third.is_existing() && !other.is_existing());
    let mut workflow = Workflow::new("w");
    let node = workflow.add_with(Double(5), |o| o.unique("one"));
    let leaf = client.start(workflow).await.unwrap().task(node);
    assert!(leaf.is_existing());

    let worker = TestWorker::start(&server.url());
    for handle in [first.clone(), second, third, leaf] {
        assert_eq!(handle.id(), first.id());
        assert_eq!(within(handle.wait()).await.unwrap(), 2);
    }
    assert_eq!(within(other.wait()).await.unwrap(), 8);
    worker.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn a_server_in_this_process_needs_no_port_and_no_token() {
    let engine = Engine::start(Box::new(MemoryStore::new()), divvy_engine::Options::default());
    let (handle, engine) = engine.unwrap();
    // Nobody could bind this address, and no token is known to the client.
    let mut options = divvy_server::Options::new(SocketAddr::from(([192, 0, 2, 1], 1)));
    options.token = Some("a-secret-of-some-length".into());
    let server = Unbound::new(options, handle).unwrap();
    let client = Client::in_process(server.service());
    assert!(client.api().ready().await.unwrap());

    let task = client.submit(Double(4)).await.unwrap();
    assert_eq!(task.detail().await.unwrap().summary.kind, "double");
    let waiting = tokio::spawn({
        let task = task.clone();
        async move { task.wait().await }
    });
    task.cancel().await.unwrap();
    let ended = within(waiting).await.unwrap();
    assert!(matches!(ended, Err(WaitError::Cancelled { .. })), "{ended:?}");
    let error = client.cancel(TaskId(9), None).await.unwrap_err();
    assert_eq!(error.code(), "not_found", "{error}");
    let nowhere = client.api().get(&["nothing"], &[]).await.unwrap_err();
    assert_eq!(nowhere.code(), "no_such_address", "{nowhere}");
    engine.stopper().stop();
    engine.join().await.unwrap();
}
