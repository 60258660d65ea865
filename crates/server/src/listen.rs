//! The listener: accepts connections, speaks HTTP/1.1 and HTTP/2 on the same port, and winds down.
//!
//! Does not know any route. Limits here protect the process from connections: how many, how long a silent one is
//! borne, how large headers may be. Limits on bodies are with those who read them.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::Router;
use divvy_engine::Handle;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use crate::app::App;
use crate::guard::LocalAddress;
use crate::objects::Stored;
use crate::options::{Error, Options};
use crate::router;

/// Connections at once; more wait in the kernel's backlog.
const CONNECTIONS_MAX: usize = 20_000;
/// Connections that the kernel keeps for us.
const BACKLOG: u32 = 4_096;
/// Streams of one HTTP/2 connection: many workers may share one.
const STREAMS_MAX: u32 = 20_000;
/// How long a connection may take to say something, and an HTTP/1.1 request to send its headers.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// Bytes of all headers of one request.
const HEADER_BYTES_MAX: u32 = 32 << 10;
/// Bytes that HTTP/1.1 reads at once; must be larger than the headers.
const READ_BUFFER_BYTES: usize = 256 << 10;
/// Bytes of one HTTP/2 stream that may be under way to us.
const STREAM_WINDOW: u32 = 4 << 20;
/// Bytes of one HTTP/2 connection that may be under way to us.
const CONNECTION_WINDOW: u32 = 16 << 20;
/// How often a quiet HTTP/2 connection is probed, and how long the answer may take.
const PROBE: Duration = Duration::from_secs(20);
/// How long requests in flight may take when the server stops.
const WIND_DOWN: Duration = Duration::from_secs(10);
/// The rest after a failed accept, which is mostly a lack of file descriptors.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// A server that answers its own process and nobody else yet.
pub struct Unbound {
    /// What is not looked at before the port is taken may still be changed.
    pub options: Options,
    app: App,
    objects: Option<Stored>,
}

/// A server that has its port and is ready to run.
pub struct Server {
    options: Options,
    app: App,
    objects: Option<Stored>,
    listener: TcpListener,
    address: SocketAddr,
}

impl Unbound {
    /// A server around this engine.
    ///
    /// # Errors
    /// If the options make no sense, or the folder of objects cannot be used.
    pub fn new(options: Options, handle: Handle) -> Result<Self, Error> {
        options.check()?;
        let objects = options.objects.clone().map(Stored::open).transpose()?;
        let app = App::new(handle, &options, objects.clone());
        Ok(Self { options, app, objects })
    }

    /// Answers callers in this process, HTTP and gRPC alike, as the server answers others, but without asking who they
    /// are: for `Client::in_process`. Has the server's own addresses, not those of extensions.
    pub fn service(&self) -> Router {
        router::in_process(self.app.clone(), &self.options)
    }

    /// Takes the port. Connections wait until [`Server::run`].
    ///
    /// # Errors
    /// If the address is taken, or not of this machine.
    pub async fn bind(self) -> Result<Server, Error> {
        let port = Port::take(self.options.listen).await?;
        Ok(self.bind_to(port))
    }

    /// The same with a port that was taken before.
    pub fn bind_to(self, port: Port) -> Server {
        let Self { options, app, objects } = self;
        let Port { listener, address } = port;
        app.bind(address, &options);
        Server { options, app, objects, listener, address }
    }
}

/// A port that is taken and not listened to yet: whoever can have none need not open a store first.
pub struct Port {
    listener: TcpListener,
    address: SocketAddr,
}

impl Port {
    /// Takes the port.
    ///
    /// # Errors
    /// If the address is taken, or not of this machine.
    pub async fn take(address: SocketAddr) -> Result<Self, Error> {
        let listener = listen(address).map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => Error::AddressInUse { address },
            _ => Error::Listen { address, source },
        })?;
        let address = listener.local_addr().map_err(|source| Error::Listen { address, source })?;
        Ok(Self { listener, address })
    }
}

impl Server {
    /// Takes the port at once: [`Unbound::new`] and [`Unbound::bind`] in one.
    ///
    /// # Errors
    /// If the address is taken, not of this machine, or open to others without a token, or if the folder of objects
    /// cannot be used.
    pub async fn bind(options: Options, handle: Handle) -> Result<Self, Error> {
        Unbound::new(options, handle)?.bind().await
    }

    /// Where it listens, with the port that was picked.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` is cancelled; then takes no more connections, ends event and worker streams, and lets
    /// requests in flight finish for at most ten seconds.
    ///
    /// Stop the engine before or together with the server: workers whose streams end here keep their leases until
    /// the engine has recorded them or a lease time has passed.
    ///
    /// # Errors
    /// None at present: what goes wrong with one connection ends that connection only.
    pub fn run(self, shutdown: CancellationToken) -> BoxFuture<'static, Result<(), Error>> {
        // A future without a box is compiled by the crate that awaits it, with that crate's optimisation.
        self.accept_until(shutdown).boxed()
    }

    async fn accept_until(self, shutdown: CancellationToken) -> Result<(), Error> {
        if let Some(objects) = self.objects.clone() {
            tokio::spawn(objects.expire(shutdown.clone()));
        }
        let app = self.app;
        let router = router::build(app.clone(), &self.options, self.address);
        let graceful = GracefulShutdown::new();
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        let builder = connection_builder();
        tracing::info!(address = %self.address, "listening");
        loop {
            let accepted = tokio::select! {
                () = shutdown.cancelled() => break,
                accepted = accept(&self.listener, &places) => accepted,
            };
            while connections.try_join_next().is_some() {}
            let (stream, place) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection; if files ran out, raise the limit: ulimit -n");
                    tokio::time::sleep(ACCEPT_REST).await;
                    continue;
                }
            };
            let serving = serve(
                stream,
                builder.clone(),
                router.clone(),
                graceful.watcher(),
                shutdown.clone(),
            );
            let app = app.clone();
            connections.spawn(async move {
                app.connections.fetch_add(1, Relaxed);
                serving.await;
                app.connections.fetch_sub(1, Relaxed);
                drop(place);
            });
        }
        app.shutdown.cancel();
        drop(self.listener);
        if tokio::time::timeout(WIND_DOWN, graceful.shutdown()).await.is_err() {
            tracing::warn!(
                open = connections.len(),
                "requests took too long to finish and were cut off"
            );
        }
        connections.shutdown().await;
        Ok(())
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted server must not wait for the old one's connections to be forgotten by the kernel.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

fn connection_builder() -> Builder<TokioExecutor> {
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
    builder
}

async fn serve(
    stream: TcpStream,
    builder: Builder<TokioExecutor>,
    router: Router,
    watcher: Watcher,
    shutdown: CancellationToken,
) {
    let Ok(local) = stream.local_addr() else { return };
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot switch off delays of small packets");
    }
    // The protocol is told by the first bytes, and nothing else limits how long they may take.
    let mut byte = [0];
    let first = tokio::time::timeout(HEADERS_WITHIN, stream.peek(&mut byte));
    tokio::select! {
        () = shutdown.cancelled() => return,
        first = first => if !matches!(first, Ok(Ok(1..))) { return },
    }
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(LocalAddress(local.ip()));
        let mut router = router.clone();
        async move {
            let Ok(response) = router.call(request).await;
            Ok::<_, Infallible>(response)
        }
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(error = %error, "a connection ended badly");
    }
}
