//! A real server with a library in a folder of its own, a small clip made with ffmpeg, and a browser to look at it.

pub(crate) mod clip;

use std::net::SocketAddr;
use std::time::Duration;

use divvy::objects::{Objects, Reach};
use divvy_engine::{Engine, Stopper};
use divvy_objects::Folder;
use divvy_store::MemoryStore;
use divvy_video::Recipe;
use divvy_video::library::{Library, Video, VideoId, VideoState};
use divvy_video::web::Mount;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long anything may take before a test is given up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) objects: Objects,
    pub(crate) folder: TempDir,
    pub(crate) http: reqwest::Client,
    pub(crate) mount: Mount,
    shutdown: CancellationToken,
    stopper: Stopper,
    running: JoinHandle<()>,
}

impl World {
    /// Starts a server whose library is open.
    pub(crate) async fn start() -> Self {
        let world = Self::start_closed(None).await;
        world.open(None).await;
        world
    }

    /// Starts a server that wants this token.
    pub(crate) async fn start_with_token(token: &str) -> Self {
        let world = Self::start_closed(Some(token)).await;
        world.open(Some(token)).await;
        world
    }

    /// Starts a server whose library is not open yet.
    pub(crate) async fn start_closed(token: Option<&str>) -> Self {
        let (handle, engine) =
            Engine::start(Box::new(MemoryStore::new()), divvy_engine::Options::default()).unwrap();
        let shutdown = CancellationToken::new();
        let mount = Mount::new(shutdown.clone());
        let mut options = divvy_server::Options::new(SocketAddr::from(([127, 0, 0, 1], 0)));
        options.mounted = vec![mount.routes()];
        let folder = tempfile::tempdir().unwrap();
        let kept = Folder::open(folder.path().join("objects")).unwrap();
        options.objects = Some(kept.clone());
        options.token = token.map(str::to_owned);
        let server = divvy_server::Server::bind(options, handle).await.unwrap();
        let (address, stop) = (server.address(), shutdown.clone());
        let running = tokio::spawn(async move { server.run(stop).await.unwrap() });
        let objects = Objects::in_folder(kept);
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(PATIENCE)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        let stopper = engine.stopper();
        Self { address, objects, folder, http, mount, shutdown, stopper, running }
    }

    /// Opens the library.
    pub(crate) async fn open(&self, token: Option<&str>) {
        let url = self.url("");
        let client = match token {
            Some(token) => divvy::Client::connect(divvy::Target::new(&url).token(token)).await,
            None => divvy::Client::connect(&url).await,
        };
        self.mount.open(Library::new(client.unwrap(), self.objects.clone()));
    }

    /// Opens the library on objects that are reached over the network, with copies in the folder that is returned.
    pub(crate) async fn open_remote(&self) -> std::path::PathBuf {
        let client = divvy::Client::connect(self.url("")).await.unwrap();
        let cache = self.folder.path().join("cache");
        let reach = Reach { folder: None, cache: cache.clone(), cache_bytes: 1 << 30 };
        let objects = Objects::at_server(&client, reach);
        self.mount.open(Library::new(client, objects));
        cache
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) async fn get(&self, path: &str) -> reqwest::Response {
        self.http.get(self.url(path)).send().await.unwrap()
    }

    /// Records a video as the library would.
    pub(crate) async fn record(&self, video: &Video) {
        self.objects.put_record(&video.id.record(), video).await.unwrap();
    }

    /// Stops it, and returns when it is gone.
    pub(crate) async fn stop(self) {
        self.stopper.stop();
        self.shutdown.cancel();
        self.running.await.unwrap();
    }
}

/// A video that is being made.
pub(crate) fn video(id: &str, title: &str) -> Video {
    Video {
        id: VideoId(id.to_owned()),
        title: title.to_owned(),
        added_at: 1_800_000_000_000_000,
        url: None,
        source: None,
        recipe: Recipe::default(),
        priority: 3,
        deadline: None,
        workflow: uuid::Uuid::now_v7().to_string(),
        state: VideoState::Processing,
        reason: None,
        plan: None,
        manifest: None,
        ended_at: None,
        estimated_cpu_ms: None,
    }
}
