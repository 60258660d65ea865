//! The listener: accepts connections, greets them, within TLS if there is a certificate, and winds down.
//!
//! Does not know any route, nor how a connection is served, which [`divvy_wire::connection`] does. Asks
//! [`divvy_wire::door`] how many there may be and how long a silent one is borne.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::Router;
use divvy_engine::Handle;
use divvy_http::ApiError;
use divvy_wire::connection::{Greeted, Host, PROBE};
use divvy_wire::door::{Door, Room, SILENCE_MAX, Visit};
use divvy_wire::quiet::Quiet;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, OptionFuture, join4};
use http::StatusCode;
use hyper_util::server::graceful::GracefulShutdown;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;

use crate::alerts;
use crate::app::App;
use crate::files;
use crate::objects::Stored;
use crate::options::{Error, Options};
use crate::pulse;
use crate::router;
use crate::scale;
use crate::tls::Tls;
use crate::traces;

/// Connections that the kernel keeps for us.
const BACKLOG: u32 = 4_096;
/// When the kernel asks a quiet peer whether it is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
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
    tls: Option<Tls>,
}

/// A server that has its port and is ready to run.
pub struct Server {
    options: Options,
    app: App,
    objects: Option<Stored>,
    tls: Option<Tls>,
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
        let tls = options.tls.clone().map(Tls::open).transpose()?;
        let app = App::new(handle, &options, objects.clone());
        Ok(Self { options, app, objects, tls })
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
        let Self { options, app, objects, tls } = self;
        let Port { listener, address } = port;
        app.bind(address, &options);
        Server { options, app, objects, tls, listener, address }
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

    /// Starts what goes on beside the connections.
    fn start_chores(&self, shutdown: &CancellationToken) {
        if let Some(objects) = self.objects.clone() {
            tokio::spawn(objects.expire(shutdown.clone()));
        }
        if let Some(tls) = self.tls.clone() {
            tokio::spawn(tls.follow(shutdown.clone()));
        } else if !self.address.ip().is_loopback() {
            tracing::warn!(
                "tokens and data cross the network unencrypted: give --tls-cert and --tls-key (`divvy cert new` makes both), or let only a proxy that speaks TLS reach {}",
                self.address
            );
        }
    }

    async fn accept_until(self, shutdown: CancellationToken) -> Result<(), Error> {
        self.start_chores(&shutdown);
        let app = self.app;
        let scaling = tokio::spawn(scale::run(app.clone(), shutdown.clone()));
        let beating = tokio::spawn(pulse::run(app.clone(), shutdown.clone()));
        let watching = tokio::spawn(alerts::run(app.clone(), shutdown.clone()));
        let spans =
            self.options.otlp.clone().map(|url| traces::run(app.clone(), url, shutdown.clone()));
        let traced = tokio::spawn(OptionFuture::from(spans));
        let router = router::build(app.clone(), &self.options, self.address);
        let graceful = GracefulShutdown::new();
        let room = Room::for_files(self.options.files.unwrap_or_else(files::raise));
        let places = Arc::new(Semaphore::new(room.connections));
        let door = Door::new(room, SILENCE_MAX);
        let mut failures = Quiet::default();
        let mut connections = JoinSet::new();
        let host = Host::new(Arc::clone(&app.requests));
        tracing::info!(address = %self.address, connections_max = room.connections, "listening");
        loop {
            let accepted = tokio::select! {
                () = shutdown.cancelled() => break,
                accepted = accept(&self.listener, &places, &door) => accepted,
            };
            while connections.try_join_next().is_some() {}
            let (stream, visit, place) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    if let Some(count) = failures.count() {
                        tracing::warn!(%error, count, "cannot accept connections; if files ran out, raise the limit: ulimit -n");
                    }
                    door.show_out_oldest();
                    tokio::time::sleep(ACCEPT_REST).await;
                    continue;
                }
            };
            let (tls, shutdown) = (self.tls.clone(), shutdown.clone());
            let speaks_tls = tls.is_some();
            let greeted = greet(stream, tls, visit, shutdown);
            let (host, router, watcher) = (host.clone(), router.clone(), graceful.watcher());
            let app = app.clone();
            let serving = async move {
                if let Some((stream, visit)) = greeted.await {
                    let is_plain = speaks_tls && matches!(stream, Either::Left(_));
                    let router = if is_plain { wants_tls() } else { router };
                    host.serve(stream, visit, router, watcher).await;
                }
            };
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
        // They have little left to do, and what they have is worth a moment.
        let parts = join4(scaling, beating, watching, traced);
        let _ = tokio::time::timeout(WIND_DOWN, parts).await;
        Ok(())
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted server must not wait for the old one's connections to be forgotten by the kernel.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    // What is accepted has the settings of the socket that listens.
    let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(PROBE);
    SockRef::from(&socket).set_tcp_keepalive(&keep_alive)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The next connection, with its place. Waits if there is none left; who stands at the door makes room.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    door: &Door,
) -> io::Result<(TcpStream, Visit, OwnedSemaphorePermit)> {
    door.room().await;
    if places.available_permits() == 0 {
        door.show_out_oldest();
    }
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, door.enter(peer.ip()), place))
}

/// Shakes hands for as long as a silent connection is borne and the server runs.
async fn greet(
    stream: TcpStream,
    tls: Option<Tls>,
    visit: Visit,
    shutdown: CancellationToken,
) -> Option<(Greeted, Visit)> {
    let Some(tls) = tls else { return Some((Either::Left(stream), visit)) };
    let greeted = tokio::select! {
        greeted = tls.greet(stream) => greeted,
        () = visit.over() => None,
        () = shutdown.cancelled() => None,
    };
    greeted.map(|stream| (stream, visit))
}

/// Answers everything to those who speak plain HTTP where TLS is spoken.
fn wants_tls() -> Router {
    let message = "this server speaks TLS: write https:// instead of http://";
    let refuse =
        move || async move { ApiError::new(StatusCode::BAD_REQUEST, "tls_needed", message) };
    Router::new().fallback(refuse)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn half_a_word_does_not_keep_a_connection_open() {
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let places = Arc::new(Semaphore::new(8));
        let door = Door::new(Room::for_files(64), Duration::from_millis(50));
        let graceful = GracefulShutdown::new();
        let beginnings: [&[u8]; 5] = [
            b"",
            b"P",
            b"PRI * HTT",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
            b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\n",
        ];
        for beginning in beginnings {
            let mut caller = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            caller.write_all(beginning).await.unwrap();
            let (stream, visit, _place) = accept(&listener, &places, &door).await.unwrap();
            let host = Host::new(Arc::default());
            let (stream, watcher) = (Either::Left(stream), graceful.watcher());
            let serving = host.serve(stream, visit, Router::new(), watcher);
            let patience = Duration::from_secs(5);
            let ended = tokio::time::timeout(patience, serving).await;
            assert!(ended.is_ok(), "{beginning:?} keeps its connection");
            // Whatever was said before it, the end has come.
            let _ =
                tokio::time::timeout(patience, caller.read_to_end(&mut Vec::new())).await.unwrap();
        }
    }
}
