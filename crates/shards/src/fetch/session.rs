//! What is kept between the requests of one host while its lease lasts: one connection, and no cookies. Dropping a session
//! closes the connection at once, even in the middle of an answer.
//!
//! An HTTP/1 connection has no task of its own: the fetch that uses it drives it, so an idle one costs nothing but its socket,
//! and that the host has closed it is noticed before the next request is written. HTTP/2 needs a task, which ends with it.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::Limits;
use crate::net::{Connected, Protocol, Stream, Target};

/// How many headers the parser takes if it is not told.
const PARSER_HEADERS_MAX: usize = 100;

type Http1 = http1::Connection<TokioIo<Stream>, Empty<Bytes>>;
type Requested = Request<Empty<Bytes>>;
type Tried = Result<Response<Incoming>, TrySendError<Requested>>;

/// What is kept for one host.
#[derive(Debug, Default)]
pub struct Session {
    pub(super) connection: Option<Connection>,
    pub(super) on_send: Option<OnSend>,
}

/// Who is told when the next request is about to be written, once.
pub(super) struct OnSend(Box<dyn FnOnce(Instant) + Send>);

impl Session {
    /// Tells when the next request is about to be written. If none is, nothing is told.
    pub fn on_send(&mut self, tell: impl FnOnce(Instant) + Send + 'static) {
        self.on_send = Some(OnSend(Box::new(tell)));
    }

    pub(super) fn sending(&mut self, at: Instant) {
        if let Some(OnSend(tell)) = self.on_send.take() {
            tell(at);
        }
    }

    /// Closes the connection unless the next request comes soon enough for it to be worth keeping.
    pub fn rest(&mut self, delay: Duration, limits: &Limits) {
        if delay >= limits.keep_alive {
            self.close();
        }
    }

    /// Closes the connection.
    pub fn close(&mut self) {
        self.connection = None;
    }

    /// Whether a connection is open, as far as is known.
    pub fn is_open(&self) -> bool {
        self.connection.is_some()
    }
}

/// A connection to one target.
pub(super) struct Connection {
    pub(super) target: Target,
    pub(super) address: SocketAddr,
    /// The header `host`, which HTTP/1 needs with each request.
    pub(super) host: HeaderValue,
    line: Line,
}

enum Line {
    Http1 { sender: http1::SendRequest<Empty<Bytes>>, driver: Driver },
    Http2 { sender: http2::SendRequest<Empty<Bytes>>, driver: AbortHandle },
}

/// The other half of an HTTP/1 connection, which moves bytes when it is polled.
struct Driver {
    /// Nothing once it has ended: only when it is dropped does it tell that to whoever waits for an answer.
    connection: Option<Pin<Box<Http1>>>,
}

impl Connection {
    pub(super) async fn open(
        target: Target,
        connected: Connected,
        limits: &Limits,
    ) -> hyper::Result<Self> {
        let io = TokioIo::new(connected.stream);
        let line = match connected.protocol {
            Protocol::Http1 => {
                let mut builder = http1::Builder::new();
                builder.max_header_size(limits.header_bytes_max);
                // The parser is faster with the number that it has by itself.
                if limits.headers_max != PARSER_HEADERS_MAX {
                    builder.max_headers(limits.headers_max);
                }
                let (sender, connection) = builder.handshake(io).await?;
                Line::Http1 { sender, driver: Driver { connection: Some(Box::pin(connection)) } }
            }
            Protocol::Http2 => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder.max_header_list_size(
                    u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX),
                );
                let (sender, connection) = builder.handshake(io).await?;
                let driver = tokio::spawn(async move {
                    // What went wrong is told to the request that was waiting.
                    let _ = connection.await;
                });
                Line::Http2 { sender, driver: driver.abort_handle() }
            }
        };
        let default_port = if target.is_https() { 443 } else { 80 };
        let text = target.to_string();
        let host = if target.port() == default_port {
            text.strip_suffix(&format!(":{default_port}")).unwrap_or(&text)
        } else {
            &text
        };
        let host =
            HeaderValue::from_str(host).unwrap_or_else(|_| HeaderValue::from_static("invalid"));
        Ok(Self { target, address: connected.address, host, line })
    }

    pub(super) fn is_http2(&self) -> bool {
        matches!(self.line, Line::Http2 { .. })
    }

    /// Whether another request can be sent; looks whether the host has hung up.
    pub(super) async fn is_ready(&mut self) -> bool {
        match &mut self.line {
            Line::Http1 { sender, driver } => driver.drive(sender.ready()).await.is_ok(),
            Line::Http2 { sender, .. } => sender.ready().await.is_ok(),
        }
    }

    pub(super) async fn send(&mut self, request: Requested) -> Tried {
        match &mut self.line {
            Line::Http1 { sender, driver } => driver.drive(sender.try_send_request(request)).await,
            Line::Http2 { sender, .. } => sender.try_send_request(request).await,
        }
    }

    /// Waits for something of this connection, such as the next piece of a body, while moving its bytes.
    pub(super) async fn drive<F: Future>(&mut self, future: F) -> F::Output {
        match &mut self.line {
            Line::Http1 { driver, .. } => driver.drive(future).await,
            Line::Http2 { .. } => future.await,
        }
    }
}

impl Driver {
    async fn drive<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|cx| {
            let has_ended = self
                .connection
                .as_mut()
                .is_some_and(|connection| connection.as_mut().poll(cx).is_ready());
            if has_ended {
                self.connection = None;
            }
            future.as_mut().poll(cx)
        })
        .await
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Self::Http2 { driver, .. } = self {
            driver.abort();
        }
    }
}

impl std::fmt::Debug for OnSend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnSend")
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("target", &self.target).finish_non_exhaustive()
    }
}
