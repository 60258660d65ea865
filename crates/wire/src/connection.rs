//! How a connection is served: HTTP/1.1 and HTTP/2, within its limits, until it ends or must end.
//!
//! Limits here protect the process from one connection: how large headers may be, how much may be under way, how long it may
//! be silent. How many connections there may be is for [`door`](crate::door); limits on bodies are with those who read them.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use divvy_http::ApiError;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::StatusCode;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::Watcher;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tower::Service as _;

use crate::door::{SILENCE_MAX, Visit};

/// Streams of one HTTP/2 connection: many workers may share one.
const STREAMS_MAX: u32 = 20_000;
/// How long an HTTP/1.1 request may take to send its headers.
const HEADERS_WITHIN: Duration = SILENCE_MAX;
/// Bytes of the address and all headers of one request.
const HEADER_BYTES_MAX: u32 = 32 << 10;
/// Bytes that HTTP/1.1 reads at once; must be larger than the headers.
const READ_BUFFER_BYTES: usize = 128 << 10;
/// Bytes of one HTTP/2 stream that may be under way to us.
const STREAM_WINDOW: u32 = 4 << 20;
/// Bytes of one HTTP/2 connection that may be under way to us.
const CONNECTION_WINDOW: u32 = 16 << 20;
/// How often a quiet HTTP/2 connection is probed, and how long the answer may take.
pub const PROBE: Duration = Duration::from_secs(20);

/// A connection after its greeting: without TLS, or within it.
pub type Greeted = Either<TcpStream, TlsStream<TcpStream>>;

/// The local end of the connection that a request came by.
#[derive(Clone, Copy, Debug)]
pub struct LocalAddress(pub IpAddr);

/// Serves connections.
#[derive(Clone)]
pub struct Host {
    builder: Builder<TokioExecutor>,
    requests: Arc<AtomicU64>,
}

impl Host {
    /// One that counts requests there, HTTP and gRPC calls alike.
    pub fn new(requests: Arc<AtomicU64>) -> Self {
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS_WITHIN)
            .max_buf_size(READ_BUFFER_BYTES);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEADER_BYTES_MAX)
            .keep_alive_interval(PROBE)
            .keep_alive_timeout(PROBE);
        Self { builder, requests }
    }

    /// Serves this connection until it ends, or its visit is over.
    pub fn serve(
        &self,
        stream: Greeted,
        visit: Visit,
        router: Router,
        watcher: Watcher,
    ) -> BoxFuture<'static, ()> {
        serve(stream, visit, self.clone(), router, watcher).boxed()
    }
}

async fn serve(stream: Greeted, visit: Visit, host: Host, router: Router, watcher: Watcher) {
    let socket = match &stream {
        Either::Left(plain) => plain,
        Either::Right(tls) => tls.get_ref().0,
    };
    let Ok(local) = socket.local_addr() else { return };
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "cannot switch off delays of small packets");
    }
    let (guest, requests) = (visit.guest(), host.requests);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        guest.asks();
        requests.fetch_add(1, Relaxed);
        request.extensions_mut().insert(LocalAddress(local.ip()));
        request.extensions_mut().insert(guest.clone());
        let router = has_small_head(&request).then(|| router.clone());
        async move {
            let Some(mut router) = router else { return Ok(head_too_large()) };
            let Ok(response) = router.call(request).await;
            Ok::<_, Infallible>(response)
        }
    });
    let connection = watcher.watch(host.builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = connection => if let Err(error) = ended {
            tracing::debug!(error = %error, "a connection ended badly");
        },
        () = visit.over() => tracing::debug!("a connection was not let in for too long"),
    }
}

/// Whether address and headers are within their bound; only HTTP/2 checks that by itself.
fn has_small_head(request: &hyper::Request<Incoming>) -> bool {
    let headers = request.headers().iter();
    let headers: usize = headers.map(|(name, value)| name.as_str().len() + value.len()).sum();
    let address = request.uri().path_and_query().map_or(0, |address| address.as_str().len());
    headers + address <= HEADER_BYTES_MAX as usize
}

fn head_too_large() -> Response {
    let message = format!("the headers are larger than {HEADER_BYTES_MAX} bytes; send fewer");
    ApiError::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "headers_too_large", message)
        .into_response()
}
