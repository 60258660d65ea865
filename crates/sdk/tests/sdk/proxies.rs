//! A worker behind a proxy: what the proxy says by itself is not the server's word, and ends nothing within a lease.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::TestServer;
use divvy::Shutdown;
use divvy::objects::{Objects, Reach};
use divvy::prelude::*;
use divvy_objects::Folder;
use divvy_store::MemoryStore;
use futures_util::TryStreamExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use reqwest::{Body, Client as Forwarder};
use tokio::net::TcpListener;
use tokio::sync::Notify;

#[derive(Serialize, Deserialize)]
struct Slow;

impl Task for Slow {
    const KIND: &'static str = "slow";
    type Output = String;
}

/// A handler that says when it began, and ends when it is let.
#[derive(Clone, Default)]
struct Gate {
    began: Arc<Notify>,
    open: Arc<Notify>,
}

async fn slow(_: Slow, State(gate): State<Gate>) -> Outcome<String> {
    gate.began.notify_one();
    gate.open.notified().await;
    Ok("survived".into())
}

#[derive(Serialize, Deserialize)]
struct Keep {
    text: String,
}

impl Task for Keep {
    const KIND: &'static str = "keep";
    type Output = String;
}

/// Writes a blob and reads it again, by way of the proxy.
async fn keep(task: Keep, State(objects): State<Objects>) -> Outcome<String> {
    let blob = objects.put(task.text.into_bytes()).await?;
    let mut parts = objects.open(blob.id, 0..blob.size).await?;
    let mut text = Vec::new();
    while let Some(part) = parts.try_next().await? {
        text.extend_from_slice(&part);
    }
    Ok(String::from_utf8(text)?)
}

/// A proxy that forwards all requests but those that it refuses by itself.
struct Proxy {
    address: SocketAddr,
    /// What the next requests are answered with.
    refusals: Arc<Mutex<VecDeque<StatusCode>>>,
}

impl Proxy {
    async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self { address: listener.local_addr().unwrap(), refusals: Arc::default() };
        let refusals = Arc::clone(&proxy.refusals);
        let forwarder = Forwarder::builder().no_proxy().http2_prior_knowledge().build().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (refusals, forwarder) = (Arc::clone(&refusals), forwarder.clone());
                let service = service_fn(move |request: Request<Incoming>| {
                    let refusal = refusals.lock().unwrap().pop_front();
                    let forwarder = forwarder.clone();
                    async move {
                        if let Some(status) = refusal {
                            return Ok::<_, Infallible>(answer(status));
                        }
                        Ok(forward(&forwarder, server, request).await)
                    }
                });
                tokio::spawn(async move {
                    let builder = Builder::new(TokioExecutor::new());
                    // The other side may leave whenever it likes.
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        proxy
    }

    /// Answers the next requests by itself.
    fn refuse(&self, statuses: &[u16]) {
        let statuses = statuses.iter().map(|status| StatusCode::from_u16(*status).unwrap());
        self.refusals.lock().unwrap().extend(statuses);
    }
}

fn answer(status: StatusCode) -> Response<Body> {
    let mut answer = Response::new(Body::from("<html>not now</html>"));
    *answer.status_mut() = status;
    answer
}

async fn forward(
    forwarder: &Forwarder,
    server: SocketAddr,
    request: Request<Incoming>,
) -> Response<Body> {
    let mut request = request.map(Body::wrap);
    let path = request.uri().path().to_owned();
    *request.uri_mut() = format!("http://{server}{path}").parse().unwrap();
    let request = reqwest::Request::try_from(request).unwrap();
    match forwarder.execute(request).await {
        Ok(answer) => answer.into(),
        Err(_) => answer(StatusCode::BAD_GATEWAY),
    }
}

#[tokio::test]
async fn a_running_task_survives_what_a_proxy_says_while_the_server_restarts() {
    let store = MemoryStore::new();
    let second_life = store.reopen();
    let server = TestServer::with(store, SocketAddr::from(([127, 0, 0, 1], 0)), None).await;
    let (url, address) = (server.url(), server.address());
    let proxy = Proxy::start(address).await;
    let gate = Gate::default();
    let stop = Shutdown::new();
    let worker = Worker::new("behind").server(format!("http://{}", proxy.address));
    let worker = worker.state(gate.clone()).on(slow);
    let worker = tokio::spawn(worker.run_until(stop.clone()));
    let client = Client::connect(url).await.unwrap();
    let handle = client.submit(Slow).await.unwrap();
    within(gate.began.notified()).await;

    proxy.refuse(&[401, 403, 404, 502]);
    server.stop().await;
    gate.open.notify_one();
    let server = TestServer::with(second_life, address, None).await;

    assert_eq!(within(handle.wait()).await.unwrap(), "survived");
    assert!(proxy.refusals.lock().unwrap().is_empty(), "every refusal was borne");
    let detail = handle.detail().await.unwrap();
    assert_eq!(detail.history.len(), 1, "one attempt did it: {:?}", detail.history);
    stop.drain();
    assert_eq!(within(worker).await.unwrap().unwrap().finished, 1);
    server.stop().await;
}

#[tokio::test]
async fn an_attempt_bears_a_proxy_that_keeps_its_objects_from_it_within_the_lease() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::open(place.path().join("objects")).unwrap();
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = TestServer::with_objects(MemoryStore::new(), listen, Some(folder)).await;
    let proxy = Proxy::start(server.address()).await;
    let behind = Client::new(format!("http://{}", proxy.address)).unwrap();
    let cache = place.path().join("cache");
    let objects = Objects::at_server(&behind, Reach { folder: None, cache, cache_bytes: 0 });
    // The worker has a way of its own, so that the objects alone meet the refusals.
    let stop = Shutdown::new();
    let worker = Worker::new("keeper").server(server.url()).state(objects).on(keep);
    let worker = tokio::spawn(worker.run_until(stop.clone()));

    proxy.refuse(&[401, 403, 404, 500, 502, 503, 404, 401]);
    let client = Client::connect(server.url()).await.unwrap();
    let handle = client.submit(Keep { text: "kept".into() }).await.unwrap();

    assert_eq!(within(handle.wait()).await.unwrap(), "kept");
    assert!(proxy.refusals.lock().unwrap().is_empty(), "every refusal was borne");
    let detail = handle.detail().await.unwrap();
    assert_eq!(detail.history.len(), 1, "one attempt did it: {:?}", detail.history);
    stop.drain();
    within(worker).await.unwrap().unwrap();
    server.stop().await;
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("this must happen soon")
}
