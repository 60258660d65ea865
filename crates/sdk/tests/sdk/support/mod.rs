//! A private server inside the test: real engine, real sockets, a store in memory, any free port.

use std::net::SocketAddr;

use divvy_engine::{Engine, Stopper};
use divvy_store::MemoryStore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A server that runs until it is stopped.
pub(crate) struct TestServer {
    address: SocketAddr,
    shutdown: CancellationToken,
    stopper: Stopper,
    serving: JoinHandle<()>,
    engine: JoinHandle<()>,
}

impl TestServer {
    /// Starts a server with an empty store.
    #[allow(dead_code, reason = "each test binary uses a part of this module")]
    pub(crate) async fn start() -> Self {
        Self::with(MemoryStore::new(), SocketAddr::from(([127, 0, 0, 1], 0)), None).await
    }

    /// Starts a server that wants this token.
    #[allow(dead_code, reason = "each test binary uses a part of this module")]
    pub(crate) async fn start_with_token(token: &str) -> Self {
        Self::with(
            MemoryStore::new(),
            SocketAddr::from(([127, 0, 0, 1], 0)),
            Some(token.to_owned()),
        )
        .await
    }

    /// Starts a server that keeps objects, if it is given a folder for them.
    #[allow(dead_code, reason = "each test binary uses a part of this module")]
    pub(crate) async fn with_objects(
        store: MemoryStore,
        listen: SocketAddr,
        objects: Option<divvy_objects::Folder>,
    ) -> Self {
        let mut options = divvy_server::Options::new(listen);
        options.objects = objects;
        Self::with_options(store, options).await
    }

    /// Starts a server on this store and address.
    pub(crate) async fn with(
        store: MemoryStore,
        listen: SocketAddr,
        token: Option<String>,
    ) -> Self {
        let mut options = divvy_server::Options::new(listen);
        options.token = token;
        Self::with_options(store, options).await
    }

    async fn with_options(store: MemoryStore, options: divvy_server::Options) -> Self {
        let (handle, engine) = Engine::start(Box::new(store), divvy_engine::Options::default())
            .expect("an engine on a store in memory starts");
        let server =
            divvy_server::Server::bind(options, handle).await.expect("the address is free");
        let (address, shutdown, stopper) =
            (server.address(), CancellationToken::new(), engine.stopper());
        let stop = shutdown.clone();
        let serving = tokio::spawn(async move { server.run(stop).await.expect("the server runs") });
        let engine = tokio::spawn(async move { engine.join().await.expect("the engine runs") });
        Self { address, shutdown, stopper, serving, engine }
    }

    /// Where it is.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its address.
    #[allow(dead_code, reason = "each test binary uses a part of this module")]
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it, and returns when it is gone.
    pub(crate) async fn stop(self) {
        self.stopper.stop();
        self.shutdown.cancel();
        self.serving.await.expect("the server ends in order");
        self.engine.await.expect("the engine ends in order");
    }
}
