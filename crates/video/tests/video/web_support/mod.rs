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
use divvy_video::web::Site;
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
    shutdown: CancellationToken,
    stopper: Stopper,
    running: JoinHandle<()>,
}

impl World {
    /// Starts a server.
    pub(crate) async fn start() -> Self {
        Self::start_with(None, None).await
    }

    /// Starts a server that wants this token.
    pub(crate) async fn start_with_token(token: &str) -> Self {
        Self::start_with(Some(token), None).await
    }

    /// Starts a server whose library asks for its objects and keeps copies in the folder `cache`.
    pub(crate) async fn start_with_copies() -> Self {
        Self::start_with(None, Some("cache")).await
    }

    async fn start_with(token: Option<&str>, cache: Option<&str>) -> Self {
        let (handle, engine) =
            Engine::start(Box::new(MemoryStore::new()), divvy_engine::Options::default()).unwrap();
        let shutdown = CancellationToken::new();
        let mut options = divvy_server::Options::new(SocketAddr::from(([127, 0, 0, 1], 0)));
        let folder = tempfile::tempdir().unwrap();
        let kept = Folder::open(folder.path().join("objects")).unwrap();
        options.objects = Some(kept.clone());
        options.token = token.map(str::to_owned);
        let mut server = divvy_server::Unbound::new(options, handle).unwrap();
        let client = divvy::Client::in_process(server.service());
        let objects = Objects::in_folder(kept);
        let seen = match cache {
            Some(cache) => {
                let cache = folder.path().join(cache);
                Objects::at_server(&client, Reach { folder: None, cache, cache_bytes: 1 << 30 })
            }
            None => objects.clone(),
        };
        let site = Site::new(Library::new(client, seen), shutdown.clone());
        server.options.mounted = vec![site.routes()];
        let server = server.bind().await.unwrap();
        let (address, stop) = (server.address(), shutdown.clone());
        let running = tokio::spawn(async move { server.run(stop).await.unwrap() });
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(PATIENCE)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        let stopper = engine.stopper();
        Self { address, objects, folder, http, shutdown, stopper, running }
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
        has_poster: true,
        length_ms: None,
        estimated_cpu_ms: None,
    }
}
