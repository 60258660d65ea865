//! A worker behind a proxy: what the proxy says by itself is not the server's word, and ends nothing.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::TestServer;
use divvy::Shutdown;
use divvy::prelude::*;
use divvy_store::MemoryStore;
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

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("this must happen soon")
}
