//! What submissions look like on the wire: a server that the test plays itself.

use std::pin::Pin;
use std::time::Duration;

use divvy::prelude::*;
use divvy::types::TaskId;
use divvy_proto::v1::submit_server::{Submit, SubmitServer};
use divvy_proto::v1::{Refusal, SubmitReply, SubmitRequest};
use futures_util::future::join_all;
use futures_util::{FutureExt, Stream};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

const TIME_LIMIT: Duration = Duration::from_secs(60);

#[derive(Serialize, Deserialize)]
struct Number(u32);
impl Task for Number {
    const KIND: &'static str = "number";
    type Output = u32;
}

/// A batch that arrived, and the way to answer it.
struct Arrived {
    ids: Vec<TaskId>,
    strict: bool,
    answer: oneshot::Sender<Result<SubmitReply, Status>>,
}

impl Arrived {
    fn accept(self) -> Vec<TaskId> {
        let accepted = self.ids.len() as u32;
        self.reply(Ok(SubmitReply { accepted, ..SubmitReply::default() }))
    }

    fn refuse(self, code: &str, retry_after_ms: u64) -> Vec<TaskId> {
        let refusal = Refusal { code: code.into(), message: "no".into(), retry_after_ms };
        self.reply(Ok(SubmitReply { refusal: Some(refusal), ..SubmitReply::default() }))
    }

    fn reply(self, reply: Result<SubmitReply, Status>) -> Vec<TaskId> {
        assert!(self.answer.send(reply).is_ok(), "the stream waits for an answer");
        self.ids
    }
}

struct Played {
    arrivals: mpsc::Sender<Arrived>,
}

#[tonic::async_trait]
impl Submit for Played {
    async fn submit(&self, _: Request<SubmitRequest>) -> Result<Response<SubmitReply>, Status> {
        Err(Status::unimplemented("the client streams"))
    }

    type SubmitStreamStream = Pin<Box<dyn Stream<Item = Result<SubmitReply, Status>> + Send>>;

    async fn submit_stream(
        &self,
        request: Request<Streaming<SubmitRequest>>,
    ) -> Result<Response<Self::SubmitStreamStream>, Status> {
        let mut batches = request.into_inner();
        let arrivals = self.arrivals.clone();
        let (replies, outgoing) = mpsc::channel(1);
        tokio::spawn(async move {
            while let Ok(Some(batch)) = batches.message().await {
                let ids =
                    batch.tasks.iter().filter_map(|task| TaskId::from_slice(&task.id)).collect();
                let (answer, answered) = oneshot::channel();
                let strict = batch.strict;
                if arrivals.send(Arrived { ids, strict, answer }).await.is_err() {
                    return;
                }
                let Ok(reply) = answered.await else { return };
                let ends = reply.is_err();
                if replies.send(reply).await.is_err() || ends {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(outgoing))))
    }
}

/// A client, and what arrives at its server.
async fn connected() -> (Client, Arrivals) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("a bound listener has an address"));
    let (arrivals, queue) = mpsc::channel(16);
    let server = tonic::transport::Server::builder()
        .accept_http1(true)
        .add_service(SubmitServer::new(Played { arrivals }));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    (Client::connect(url).await.expect("the server listens"), Arrivals(queue))
}

struct Arrivals(mpsc::Receiver<Arrived>);

impl Arrivals {
    async fn next(&mut self) -> Arrived {
        let next = tokio::time::timeout(TIME_LIMIT, self.0.recv()).await;
        next.expect("a batch arrives in time").expect("the server lives")
    }
}

#[tokio::test]
async fn what_is_submitted_while_a_batch_is_under_way_is_the_next_batch() {
    let (client, mut arrivals) = connected().await;
    let first = tokio::spawn({
        let client = client.clone();
        async move { client.submit(Number(0)).await }
    });
    let lone = arrivals.next().await;
    assert_eq!(lone.ids.len(), 1, "a lone submission goes at once");
    let mut others = Box::pin(join_all((1..100).map(|n| client.submit(Number(n)))));
    // Polled once, each of them stands in the queue.
    assert!((&mut others).now_or_never().is_none());
    let first_id = lone.accept()[0];
    assert_eq!(first.await.unwrap().unwrap().id(), first_id);
    let (ids, handles) = tokio::join!(async { arrivals.next().await.accept() }, others);
    let submitted: Vec<TaskId> = handles.into_iter().map(|handle| handle.unwrap().id()).collect();
    assert_eq!(ids, submitted, "all of them in one batch, in order");
}

#[tokio::test]
async fn a_batch_whose_answer_was_lost_is_sent_again_and_is_the_same() {
    let (client, mut arrivals) = connected().await;
    let server = async {
        let lost = arrivals.next().await.reply(Err(Status::unavailable("going down")));
        let again = arrivals.next().await.accept();
        (lost, again)
    };
    let ((lost, again), handle) = tokio::join!(server, client.submit(Number(1)));
    assert_eq!(lost, again);
    assert_eq!(again, [handle.unwrap().id()]);
}

#[tokio::test]
async fn a_server_that_is_overloaded_is_asked_again_when_it_says_so() {
    let (client, mut arrivals) = connected().await;
    let server = async {
        let refused = arrivals.next().await.refuse("overloaded", 1);
        (refused, arrivals.next().await.accept())
    };
    let ((refused, accepted), handle) = tokio::join!(server, client.submit(Number(1)));
    assert_eq!(refused, accepted);
    assert_eq!(accepted, [handle.unwrap().id()]);
}

#[tokio::test]
async fn a_refusal_for_good_is_told_at_once_and_the_stream_goes_on() {
    let (client, mut arrivals) = connected().await;
    let server = async { arrivals.next().await.refuse("id_taken", 0) };
    let (_, outcome) = tokio::join!(server, client.submit(Number(1)));
    assert_eq!(outcome.unwrap_err().code(), "id_taken");
    let server = async { arrivals.next().await.accept() };
    let (_, outcome) = tokio::join!(server, client.submit(Number(2)));
    assert!(outcome.is_ok());
}

#[tokio::test]
async fn a_late_task_is_told_to_whoever_submitted_it() {
    let (client, mut arrivals) = connected().await;
    let server = async {
        let arrived = arrivals.next().await;
        assert!(!arrived.strict);
        let late = divvy_proto::v1::Late {
            task: arrived.ids[0].to_bytes().to_vec().into(),
            deadline_us: 1_000,
            expected_end_us: 3_000,
        };
        let reply =
            SubmitReply { accepted: 1, late: vec![late], late_total: 1, ..SubmitReply::default() };
        arrived.reply(Ok(reply))
    };
    let (ids, handle) = tokio::join!(server, client.submit(Number(1)));
    let late = handle.unwrap().late().expect("it is late");
    assert_eq!((late.task, late.deadline.0, late.expected_end.0), (ids[0], 1_000, 3_000));

    let server = async { arrivals.next().await.accept() };
    let (_, handle) = tokio::join!(server, client.submit(Number(2)));
    assert_eq!(handle.unwrap().late(), None);
}

#[tokio::test]
async fn a_strict_batch_shares_its_request_with_nobody() {
    let (client, mut arrivals) = connected().await;
    let first = tokio::spawn({
        let client = client.clone();
        async move { client.submit(Number(0)).await }
    });
    let lone = arrivals.next().await;
    let mut batch = client.batch().strict();
    let strict = batch.add(Number(1));
    let mut both = Box::pin(futures_util::future::join(client.submit(Number(2)), batch.send()));
    assert!((&mut both).now_or_never().is_none(), "both stand in the queue");
    lone.accept();
    first.await.unwrap().unwrap();
    let server = async {
        let shared = arrivals.next().await;
        assert!(!shared.strict);
        shared.accept();
        let alone = arrivals.next().await;
        assert!(alone.strict);
        alone.refuse("deadline_unmeetable", 0)
    };
    let (refused, (plain, outcome)) = tokio::join!(server, both);
    assert_eq!(refused, [strict.id()]);
    assert!(plain.is_ok());
    assert_eq!(outcome.unwrap_err().code(), "deadline_unmeetable");
}
