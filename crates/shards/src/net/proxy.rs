//! The crawler's way out for programs that fetch for themselves, such as a browser: an HTTP proxy on this machine, through
//! the same [`Connector`], so that whatever a script of a page asks for is resolved, checked and connected to by the
//! crawler's own rules. A check of URLs before a browser is told of them would bound nothing.
//!
//! It takes tunnels (`CONNECT host:port`, for https and web sockets) and requests with whole URLs (`GET http://host/…`), and
//! bounds how many there are, how long they idle and how much they move. It ends with its [`Proxy`]. It reads and changes
//! nothing of what passes, but for what concerns only the hop to it. Any program of this machine may use it, and reaches
//! nothing by it that the crawler may not.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{ConnectError, Connector, Target};

/// Connections of programs at a time.
const CONNECTIONS_MAX: usize = 256;
/// How long a connection to another machine may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long the head of an answer may take.
const FIRST_BYTE: Duration = Duration::from_secs(20);
/// How long a tunnel may be silent in one direction while something waits.
const IDLE: Duration = Duration::from_secs(60);
/// Bytes that a tunnel moves in one direction, or an answer has.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes that a tunnel moves at a time.
const PIECE_BYTES: usize = 16 * 1024;
/// What concerns one hop only and is not passed on (RFC 9110, 7.6.1).
const OF_THIS_HOP: [HeaderName; 5] = [
    CONNECTION,
    http::header::PROXY_AUTHORIZATION,
    http::header::TE,
    http::header::TRAILER,
    http::header::UPGRADE,
];
const OF_THIS_HOP_TOO: [&str; 3] = ["keep-alive", "proxy-connection", "transfer-encoding"];

type Body = BoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// A proxy that runs. It ends, with all that passes through it, when this is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    door: Arc<Door>,
}

/// What a proxy did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyCounts {
    /// Requests and tunnels that were asked for.
    pub asked: u64,
    /// Those that went to an address, a port or a scheme that is not asked.
    pub refused: u64,
    /// Bytes that came from other machines.
    pub bytes: u64,
}

/// What all connections of a proxy share.
#[derive(Debug)]
struct Door {
    connector: Connector,
    end: CancellationToken,
    asked: AtomicU64,
    refused: AtomicU64,
    bytes: AtomicU64,
}

impl Proxy {
    /// Starts a proxy on a free port of this machine.
    pub async fn start(connector: Connector) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let door = Arc::new(Door {
            connector,
            end: CancellationToken::new(),
            asked: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        });
        let end = door.end.clone();
        tokio::spawn(end.run_until_cancelled_owned(accept(listener, door.clone())));
        Ok(Self { address, door })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What makes Chromium use it for everything, also for addresses of this machine, which it would reach by itself.
    pub fn chromium_flags(&self) -> [String; 2] {
        [
            format!("--proxy-server=http://{}", self.address),
            "--proxy-bypass-list=<-loopback>".to_owned(),
        ]
    }

    /// What it did so far.
    pub fn counts(&self) -> ProxyCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let door = &self.door;
        ProxyCounts { asked: of(&door.asked), refused: of(&door.refused), bytes: of(&door.bytes) }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.door.end.cancel();
    }
}

async fn accept(listener: TcpListener, door: Arc<Door>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, most likely: others have to end first.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let door = door.clone();
        let end = door.end.clone();
        tokio::spawn(end.run_until_cancelled_owned(async move {
            serve(stream, door).await;
            drop(place);
        }));
    }
}

async fn serve(stream: TcpStream, door: Arc<Door>) {
    let service = service_fn(move |request| {
        let door = door.clone();
        async move { Ok::<_, std::convert::Infallible>(door.answer(request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // A program that hangs up in the middle has no use for an error.
    let _ = connection.await;
}

impl Door {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let is_tunnel = request.method() == Method::CONNECT;
        let target = match Target::of_uri(request.uri(), is_tunnel) {
            Ok(target) => target,
            Err(refused) => return self.refuse(&refused.into()),
        };
        let answered = if is_tunnel {
            self.clone().tunnel(target, request).await
        } else {
            self.pass(&target, request).await
        };
        answered.unwrap_or_else(|response| response)
    }

    /// Connects, says so, and moves bytes both ways from then on.
    async fn tunnel(
        self: Arc<Self>,
        target: Target,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Response<Body>> {
        let (mut there, _) =
            self.connector.tunnel(&target, CONNECT).await.map_err(|error| self.refuse(&error))?;
        let end = self.end.clone();
        tokio::spawn(end.run_until_cancelled_owned(async move {
            let Ok(here) = hyper::upgrade::on(request).await else { return };
            let (here_read, here_write) = tokio::io::split(TokioIo::new(here));
            let (there_read, there_write) = there.split();
            let nobody = AtomicU64::new(0);
            tokio::join!(
                copy(here_read, there_write, &nobody),
                copy(there_read, here_write, &self.bytes),
            );
        }));
        Ok(Response::new(empty()))
    }

    /// Passes one request on, over a connection of its own, and its answer back.
    async fn pass(
        &self,
        target: &Target,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Response<Body>> {
        if target.is_https() {
            return Err(text(
                StatusCode::BAD_REQUEST,
                "https goes through a tunnel: CONNECT host:port",
            ));
        }
        let connected =
            self.connector.connect(target, CONNECT).await.map_err(|error| self.refuse(&error))?;
        let broken = |error: hyper::Error| text(StatusCode::BAD_GATEWAY, &error.to_string());
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(connected.stream))
                .await
                .map_err(broken)?;
        tokio::spawn(self.end.clone().run_until_cancelled_owned(connection));
        let request = self.passed_on(target, request);
        let Ok(answer) = timeout(FIRST_BYTE, sender.send_request(request)).await else {
            return Err(text(StatusCode::GATEWAY_TIMEOUT, "no answer in time"));
        };
        let (mut head, body) = answer.map_err(broken)?.into_parts();
        strip(&mut head.headers);
        let body = Limited::new(body, usize::try_from(BYTES_MAX).unwrap_or(usize::MAX));
        Ok(Response::from_parts(head, body.boxed()))
    }

    fn passed_on(&self, target: &Target, request: Request<Incoming>) -> Request<Incoming> {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        head.uri = Uri::try_from(path).unwrap_or_default();
        strip(&mut head.headers);
        let host = target.to_string();
        let host = host.strip_suffix(":80").unwrap_or(&host);
        if let Ok(host) = HeaderValue::from_str(host) {
            head.headers.insert(HOST, host);
        }
        let user_agent = self.connector.user_agent().value();
        head.headers.entry(USER_AGENT).or_insert_with(|| user_agent.clone());
        Request::from_parts(head, body)
    }

    fn refuse(&self, error: &ConnectError) -> Response<Body> {
        let status = match error {
            ConnectError::Target(_) | ConnectError::Address(_) | ConnectError::Unidentified(_) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                StatusCode::FORBIDDEN
            }
            ConnectError::Timeout { .. } => StatusCode::GATEWAY_TIMEOUT,
            ConnectError::Name(_) | ConnectError::Connect { .. } | ConnectError::Tls { .. } => {
                StatusCode::BAD_GATEWAY
            }
        };
        text(status, &error.to_string())
    }
}

/// Moves bytes until their end, until nothing comes for too long, or until there were too many.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    moved: &AtomicU64,
) {
    let mut piece = vec![0; PIECE_BYTES];
    let mut total = 0;
    while total < BYTES_MAX {
        let Ok(Ok(read)) = timeout(IDLE, from.read(&mut piece)).await else { break };
        if read == 0 || to.write_all(&piece[..read]).await.is_err() {
            break;
        }
        total += read as u64;
        moved.fetch_add(read as u64, Ordering::Relaxed);
    }
    // The other direction may have more to say.
    let _ = to.shutdown().await;
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.to_str().unwrap_or_default().split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&OF_THIS_HOP) {
        headers.remove(name);
    }
    for name in OF_THIS_HOP_TOO {
        headers.remove(name);
    }
}

fn text(status: StatusCode, text: &str) -> Response<Body> {
    let body = Full::new(Bytes::from(format!("{text}\n"))).map_err(|never| match never {});
    let mut response = Response::new(body.boxed());
    *response.status_mut() = status;
    response
}

fn empty() -> Body {
    Full::new(Bytes::new()).map_err(|never| match never {}).boxed()
}
