//! A server that speaks the protocol and decides nothing: each connection is handed to the test.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use divvy_proto::v1::work_server::{Work, WorkServer};
use divvy_proto::{outcome_from_wire, spec_to_wire, task_id, v1};
use divvy_types::{AttemptOutcome, Payload, TaskId, TaskSpec, Token};
use divvy_worker::{Attempt, Error, Options, Registry, Shutdown, Slots, Summary, Worker};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_stream::Stream;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};
use v1::from_worker::Message as From;
use v1::to_worker::Message as To;

/// Waits for what must happen soon; a test that waits longer has failed.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("this must happen within 20 s")
}

pub(crate) struct FakeServer {
    pub(crate) address: String,
    sessions: mpsc::Receiver<Session>,
    task: JoinHandle<()>,
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FakeServer {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (tell, sessions) = mpsc::channel(16);
        let service = WorkServer::new(Service { tell }).max_decoding_message_size(64 << 20);
        let serving = tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming(TcpListenerStream::new(listener));
        let task = tokio::spawn(async move { serving.await.unwrap() });
        Self { address, sessions, task }
    }

    /// The next connection, after its hello.
    pub(crate) async fn accept(&mut self) -> Session {
        let mut session = within(self.sessions.recv()).await.unwrap();
        let Some(From::Hello(hello)) = session.next().await else {
            panic!("the first message must be hello")
        };
        session.hello = hello;
        session
    }

    /// The next connection, welcomed with a long lease.
    pub(crate) async fn accept_welcomed(&mut self) -> Session {
        let session = self.accept().await;
        session.welcome(30_000).await;
        session
    }
}

struct Service {
    tell: mpsc::Sender<Session>,
}

type Outbound = Pin<Box<dyn Stream<Item = Result<v1::ToWorker, Status>> + Send>>;

#[tonic::async_trait]
impl Work for Service {
    type WorkStream = Outbound;

    async fn work(
        &self,
        request: Request<Streaming<v1::FromWorker>>,
    ) -> Result<Response<Outbound>, Status> {
        let (send, receive) = mpsc::channel(64);
        let authorization =
            request.metadata().get("authorization").map(|v| v.to_str().unwrap().to_owned());
        let session = Session {
            authorization,
            hello: v1::Hello::default(),
            inbound: request.into_inner(),
            send,
        };
        self.tell.send(session).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(receive))))
    }
}

/// One connection, as the test drives it. Dropping it breaks the connection.
pub(crate) struct Session {
    pub(crate) authorization: Option<String>,
    pub(crate) hello: v1::Hello,
    inbound: Streaming<v1::FromWorker>,
    send: mpsc::Sender<Result<v1::ToWorker, Status>>,
}

impl Session {
    /// The worker's next message; nothing when it closed the stream.
    pub(crate) async fn next(&mut self) -> Option<From> {
        within(self.inbound.message()).await.ok().flatten().map(|message| message.message.unwrap())
    }

    pub(crate) async fn say(&self, message: To) {
        self.send.send(Ok(v1::ToWorker { message: Some(message) })).await.unwrap();
    }

    pub(crate) async fn refuse(self, status: Status) {
        self.send.send(Err(status)).await.unwrap();
    }

    pub(crate) async fn welcome(&self, lease_ms: u64) {
        let server_version = "test".to_owned();
        self.say(To::Welcome(v1::Welcome { lease_ms, server_version, checkpoints: true })).await;
    }

    pub(crate) async fn grant(&self, grants: Vec<v1::Grant>) {
        self.say(To::Grants(v1::Grants { grants })).await;
    }

    pub(crate) async fn stop(&self, id: u128, token: u64, reason: &str) {
        let stop = v1::Stop { task: id_bytes(id), token, reason: reason.into() };
        self.say(To::Stops(v1::Stops { stops: vec![stop] })).await;
    }

    pub(crate) async fn recall(&self, ids: impl IntoIterator<Item = u128>, begun_too: bool) {
        let recall = |id| v1::Recall { task: id_bytes(id), token: token_of(id), begun_too };
        let recalls = ids.into_iter().map(recall).collect();
        self.say(To::Recalls(v1::Recalls { recalls })).await;
    }

    /// The next message with checkpoints, as task, token and text; heartbeats before it are skipped.
    pub(crate) async fn next_saved(&mut self) -> Vec<(u128, u64, String)> {
        let text = |saved: v1::Checkpoint| {
            let task = task_id("task", &saved.task).unwrap().0;
            (task, saved.token, String::from_utf8(saved.data.to_vec()).unwrap())
        };
        within(async {
            loop {
                match self.next().await {
                    Some(From::Checkpoints(saved)) => {
                        return saved.checkpoints.into_iter().map(text).collect();
                    }
                    Some(From::Heartbeat(_)) => {}
                    other => panic!("expected checkpoints, got {other:?}"),
                }
            }
        })
        .await
    }

    /// The next message with reports; heartbeats before it are skipped. Answers nothing.
    pub(crate) async fn next_reports(&mut self) -> Vec<v1::Report> {
        within(async {
            loop {
                match self.next().await {
                    Some(From::Reports(reports)) => return reports.reports,
                    Some(From::Heartbeat(_) | From::Stopping(_)) => {}
                    other => panic!("expected reports, got {other:?}"),
                }
            }
        })
        .await
    }

    pub(crate) async fn answer(&self, reports: &[v1::Report]) {
        let answer = |report: &v1::Report| v1::Answer {
            task: report.task.clone(),
            token: report.token,
            recorded: true,
        };
        self.say(To::Answers(v1::Answers { answers: reports.iter().map(answer).collect() })).await;
    }

    /// Waits for the ends of `count` attempts and answers them.
    pub(crate) async fn ends(&mut self, count: usize) -> Vec<(u128, AttemptOutcome)> {
        let mut ends = Vec::new();
        while ends.len() < count {
            let reports = self.next_reports().await;
            self.answer(&reports).await;
            ends.extend(reports.into_iter().map(end_of));
        }
        ends
    }

    /// Waits for the end of one attempt and answers it.
    pub(crate) async fn end(&mut self) -> AttemptOutcome {
        let mut ends = self.ends(1).await;
        assert_eq!(ends.len(), 1, "{ends:?}");
        ends.remove(0).1
    }
}

pub(crate) fn end_of(report: v1::Report) -> (u128, AttemptOutcome) {
    (task_id("task", &report.task).unwrap().0, outcome_from_wire(report.end).unwrap())
}

pub(crate) fn id_bytes(id: u128) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(&TaskId(id).to_bytes())
}

/// A grant whose token is 100 more than its id.
pub(crate) fn grant(id: u128, kind: &str, payload: &str) -> v1::Grant {
    grant_of(TaskSpec {
        payload: Payload::json(payload.to_owned()).unwrap(),
        ..TaskSpec::new(TaskId(id), kind)
    })
}

pub(crate) fn grant_of(spec: TaskSpec) -> v1::Grant {
    v1::Grant {
        task: Some(spec_to_wire(&spec)),
        token: token_of(spec.id.0),
        attempt: 1,
        upstream: Vec::new(),
        upstream_cut: false,
        checkpoint: None,
    }
}

pub(crate) fn token_of(id: u128) -> u64 {
    u64::try_from(id).unwrap() + 100
}

pub(crate) fn finished() -> AttemptOutcome {
    AttemptOutcome::Finished { result: Payload::null(), spawned: Vec::new() }
}

/// A worker at work.
pub(crate) struct Running {
    pub(crate) shutdown: Shutdown,
    pub(crate) task: JoinHandle<Result<Summary, Error>>,
}

impl Running {
    pub(crate) async fn ended(self) -> Result<Summary, Error> {
        within(self.task).await.unwrap()
    }
}

pub(crate) fn options(server: &FakeServer) -> Options {
    let mut options = Options::new("tester", &server.address);
    options.slots = Slots { async_: 8, blocking: 2, cpu: 2, process: 2 };
    options
}

pub(crate) fn start(options: Options, registry: Registry) -> Running {
    let shutdown = Shutdown::new();
    let worker = Worker::new(options, registry).unwrap().stop_grace(Duration::from_millis(100));
    let task = tokio::spawn(worker.run(shutdown.clone()));
    Running { shutdown, task }
}

/// A gate that attempts wait at. It tells when one has arrived.
#[derive(Clone)]
pub(crate) struct Gate {
    arrivals: Arc<Semaphore>,
    permits: Arc<Semaphore>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { arrivals: Arc::new(Semaphore::new(0)), permits: Arc::new(Semaphore::new(0)) }
    }

    /// Waits until another `count` attempts have arrived.
    pub(crate) async fn arrived(&self, count: u32) {
        within(self.arrivals.acquire_many(count)).await.unwrap().forget();
    }

    pub(crate) fn open(&self, count: usize) {
        self.permits.add_permits(count);
    }

    /// Says that an attempt has arrived.
    pub(crate) fn announce(&self) {
        self.arrivals.add_permits(1);
    }

    /// Waits until all that were let through have passed.
    pub(crate) async fn closed_again(&self) {
        within(async {
            while self.permits.available_permits() > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    pub(crate) async fn pass(self) -> AttemptOutcome {
        self.announce();
        self.permits.acquire().await.unwrap().forget();
        finished()
    }
}

/// The built-in trial kinds, and `gate`, which waits until the test lets it through.
pub(crate) fn registry() -> (Registry, Gate) {
    let mut registry = Registry::new();
    divvy_worker::builtin::register(&mut registry, &Default::default()).unwrap();
    let gate = Gate::new();
    let at_gate = gate.clone();
    registry.on("gate", Arc::new(move |_: Attempt| at_gate.clone().pass()));
    (registry, gate)
}

/// An attempt outside of a worker.
pub(crate) fn detached(kind: &str, payload: &str) -> (Attempt, divvy_worker::AttemptProbe) {
    let spec = TaskSpec {
        payload: Payload::json(payload.to_owned()).unwrap(),
        ..TaskSpec::new(TaskId(1), kind)
    };
    Attempt::detached(spec, Token(7), 1, Arc::default())
}
