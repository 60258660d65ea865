//! The `Work` service: one two-way stream per worker.
//!
//! Two halves share a stream. The *reader*, a task of its own, registers the worker, hands what it says to the
//! engine, and is the only one that tells the engine when the worker has gone. The *writer* is the answer's body: it
//! takes what the engine put into the outbox. Whichever ends first ends the other.
//!
//! A worker that closes its half says goodbye and has left. A stream that ends in any other way tells nothing about the
//! process at the other end: the engine hears that the connection broke, and waits for it to come back.
//!
//! When the server stops, the engine is *not* told that its workers left: their leases must be recorded as held, not
//! counted as lost. The outbox is kept open until the engine closes it, or it would notice by itself.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use divvy_engine::{Error, ToWorker, WorkerHello};
use divvy_proto::v1;
use divvy_proto::v1::from_worker::Message;
use divvy_proto::v1::work_server::Work;
use divvy_types::{Name, WorkerKey};
use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::{Request, Response, Status, Streaming};

use crate::edge::Edge;
use crate::grpc::status::{malformed, status};
use crate::grpc::{hello, wire};

/// The version of this server, as it tells workers.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// How long a worker may take to say what it is.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// Messages that may wait for one worker. The engine drops a worker that lets them pile up.
const OUTBOX_MESSAGES: usize = 1_024;

/// The service.
pub(crate) struct Service {
    edge: Edge,
}

impl Service {
    pub(crate) fn new(edge: Edge) -> Self {
        Self { edge }
    }
}

#[tonic::async_trait]
impl Work for Service {
    type WorkStream = Pin<Box<dyn Stream<Item = Result<v1::ToWorker, Status>> + Send>>;

    async fn work(
        &self,
        request: Request<Streaming<v1::FromWorker>>,
    ) -> Result<Response<Self::WorkStream>, Status> {
        let mut inbound = request.into_inner();
        let hello = read_hello(&mut inbound).await?;
        let (outbox, messages) = mpsc::channel(OUTBOX_MESSAGES);
        let (connected, connection) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let gone = CancellationToken::new();
        let writer = Writer {
            edge: self.edge.clone(),
            messages: Some(messages),
            pending: VecDeque::from([welcome(self.edge.lease_ms)]),
            ended: Some(ended),
            reader: gone.clone().drop_guard(),
        };
        // Registering happens in the reader: if this call is given up meanwhile, the reader still signs the worker off.
        let reader = Reader { edge: self.edge.clone(), inbound, gone };
        tokio::spawn(reader.run(hello, outbox, connected, end));
        connection.await.map_err(|_| status(&Error::Stopping))??;
        let messages = stream::unfold(writer, |mut writer| async move {
            let message = writer.next().await?;
            Some((message, writer))
        });
        Ok(Response::new(messages.boxed()))
    }
}

async fn read_hello(inbound: &mut Streaming<v1::FromWorker>) -> Result<WorkerHello, Status> {
    let first = tokio::time::timeout(HELLO_WITHIN, inbound.message()).await.map_err(|_| {
        Status::deadline_exceeded(format!(
            "no hello came within {} seconds",
            HELLO_WITHIN.as_secs()
        ))
    })??;
    match first.and_then(|first| first.message) {
        Some(Message::Hello(hello)) => hello::read(hello).map_err(|error| status(&error)),
        _ => Err(Status::invalid_argument("message: the first message of a worker must be hello")),
    }
}

fn welcome(lease_ms: u64) -> v1::ToWorker {
    let welcome = v1::Welcome { lease_ms, server_version: VERSION.to_owned(), checkpoints: true };
    v1::ToWorker { message: Some(v1::to_worker::Message::Welcome(welcome)) }
}

/// How a stream ended without a complaint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The worker closed its half.
    Goodbye,
    /// The connection broke.
    Cut,
}

/// Takes what a worker says.
struct Reader {
    edge: Edge,
    inbound: Streaming<v1::FromWorker>,
    /// Cancelled when the writer has gone.
    gone: CancellationToken,
}

impl Reader {
    /// Registers the worker, reads until the stream ends, and signs it off. `end` gets the reason if the worker
    /// should hear one; dropping it means that the worker itself is done.
    async fn run(
        mut self,
        hello: WorkerHello,
        outbox: mpsc::Sender<ToWorker>,
        connected: oneshot::Sender<Result<(), Status>>,
        end: oneshot::Sender<Status>,
    ) {
        let name = hello.name.clone();
        let worker = match self.edge.handle.connect(hello, outbox).await {
            Ok(worker) => worker,
            Err(error) => {
                // The caller may have gone; then nobody misses the answer.
                let _ = connected.send(Err(status(&error)));
                return;
            }
        };
        let _ = connected.send(Ok(()));
        tracing::debug!(%name, worker = worker.0, "worker connected");
        self.edge.crew.changed();
        if let Ok(now) = self.edge.handle.look(|core| core.now()).await {
            self.edge.crew.came(&name, now);
        }
        let ended = self.read(worker, &name).await;
        self.edge.crew.left(&name);
        tracing::debug!(%name, worker = worker.0, ?ended, "worker gone");
        let goodbye = matches!(ended, Ok(Ended::Goodbye));
        match ended {
            Ok(_) => drop(end),
            // The writer may have gone first.
            Err(reason) => drop(end.send(reason)),
        }
        if self.edge.shutdown.is_cancelled() {
            return;
        }
        let handle = &self.edge.handle;
        let told = if goodbye { handle.disconnect(worker).await } else { handle.cut(worker).await };
        if let Err(error) = told {
            // Only a stopped engine does not hear it, and that has signed off all its workers.
            tracing::debug!(%name, worker = worker.0, %error, "nobody hears that a worker is gone");
        }
        self.edge.crew.changed();
    }

    async fn read(&mut self, worker: WorkerKey, name: &Name) -> Result<Ended, Status> {
        loop {
            let message = tokio::select! {
                biased;
                () = self.edge.shutdown.cancelled() => return Err(status(&Error::Stopping)),
                () = self.gone.cancelled() => return Ok(Ended::Cut),
                message = self.inbound.message() => message?,
            };
            let Some(message) = message else { return Ok(Ended::Goodbye) };
            self.take(worker, name, message).await?;
        }
    }

    async fn take(
        &self,
        worker: WorkerKey,
        name: &Name,
        message: v1::FromWorker,
    ) -> Result<(), Status> {
        self.edge.crew.spoke();
        let handle = &self.edge.handle;
        let taken = match message.message {
            Some(Message::Reports(reports)) => {
                let reports = wire::reports(reports).map_err(|error| malformed(&error))?;
                handle.report(worker, reports).await
            }
            Some(Message::Heartbeat(heartbeat)) => {
                if let Some(load) = heartbeat.load {
                    self.edge.crew.is_loaded(name, load);
                }
                let progress = wire::progress(heartbeat).map_err(|error| malformed(&error))?;
                handle.heartbeat(worker, progress).await
            }
            Some(Message::Checkpoints(saved)) => {
                let saved = wire::checkpoints(saved).map_err(|error| malformed(&error))?;
                handle.checkpoint(worker, saved).await
            }
            Some(Message::Stopping(_)) => handle.stopping(worker).await,
            Some(Message::Hello(_)) => {
                return Err(Status::invalid_argument(
                    "message: a worker says hello once, at the beginning",
                ));
            }
            None => {
                return Err(Status::invalid_argument(
                    "message: is missing or of a kind that this server does not know; use a matching version",
                ));
            }
        };
        taken.map_err(|error| status(&error))
    }
}

/// Gives a worker what the engine has for it.
struct Writer {
    edge: Edge,
    /// The outbox's other end; nothing after the last message was sent.
    messages: Option<mpsc::Receiver<ToWorker>>,
    /// Converted and not sent yet.
    pending: VecDeque<v1::ToWorker>,
    /// Tells why the reader ended; nothing when it ended without a reason.
    ended: Option<oneshot::Receiver<Status>>,
    #[expect(dead_code, reason = "held for its drop, which ends the reader")]
    reader: DropGuard,
}

impl Writer {
    /// The next message, or a last word; nothing when the stream is over.
    async fn next(&mut self) -> Option<Result<v1::ToWorker, Status>> {
        loop {
            if let Some(message) = self.pending.pop_front() {
                return Some(Ok(message));
            }
            let messages = self.messages.as_mut()?;
            tokio::select! {
                biased;
                reason = reason(&mut self.ended) => match reason {
                    Some(reason) => return Some(Err(self.finish(reason))),
                    // The worker closed its half. What the engine still answers is sent before ours is closed.
                    None => self.ended = None,
                },
                message = messages.recv() => match message {
                    Some(message) => wire::to_wire(message, &mut self.pending),
                    None => {
                        self.messages = None;
                        self.ended.as_ref()?;
                        return Some(Err(self.dropped()));
                    }
                },
            }
        }
    }

    fn finish(&mut self, reason: Status) -> Status {
        let messages = self.messages.take();
        if let (Some(mut messages), true) = (messages, self.edge.shutdown.is_cancelled()) {
            tokio::spawn(async move { while messages.recv().await.is_some() {} });
        }
        reason
    }

    /// The engine closed the outbox of a worker that did not leave.
    fn dropped(&self) -> Status {
        if !self.edge.handle.is_running() {
            return status(&Error::Stopping);
        }
        Status::aborted(
            "the server dropped this worker, which was silent for a lease time or did not read; connect again",
        )
    }
}

/// Why the reader ended: nothing if it had no reason to tell. Waits for ever if that is known already.
async fn reason(ended: &mut Option<oneshot::Receiver<Status>>) -> Option<Status> {
    match ended {
        Some(ended) => ended.await.ok(),
        None => std::future::pending().await,
    }
}
