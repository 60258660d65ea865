//! A private server with one worker, and the tasks of other parts reduced to what the library sees of them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use divvy::objects::{Blob, BlobId, Objects};
use divvy::prelude::*;
use divvy::types::TaskId;
use divvy::{Shutdown, Slots};
use divvy_engine::{Engine, Stopper};
use divvy_objects::Folder;
use divvy_store::MemoryStore;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::grid::FrameRate;
use crate::library::{Library, NewVideo, Video, VideoView};
use crate::manifest::{FileEntry, Manifest, Part};
use crate::plan::Plan;
use crate::probe::{AudioStream, Probe, VideoStream};
use crate::recipe::Recipe;
use crate::results::{self, Cost};
use crate::studio::{Studio, failure};
use crate::tasks::*;
use crate::tools::{ToolOptions, remembered};

const TIME_LIMIT: Duration = Duration::from_secs(60);

/// What the tasks did, and what holds them.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) cured: Arc<AtomicBool>,
    encodes: Arc<Mutex<Vec<Encode>>>,
    holding: Arc<AtomicBool>,
    gate: Arc<Semaphore>,
    half_way: Arc<Semaphore>,
    begun: Arc<Semaphore>,
    ended: Arc<Semaphore>,
    verify_holding: Arc<AtomicBool>,
    verify_begun: Arc<Semaphore>,
    verify_gate: Arc<Semaphore>,
}

impl Stage {
    fn new() -> Self {
        let closed = || Arc::new(Semaphore::new(0));
        Self {
            cured: Arc::default(),
            encodes: Arc::default(),
            holding: Arc::default(),
            gate: closed(),
            half_way: closed(),
            begun: closed(),
            ended: closed(),
            verify_holding: Arc::default(),
            verify_begun: closed(),
            verify_gate: closed(),
        }
    }

    /// Lets chunks wait until they are released.
    pub(crate) fn hold_encodes(&self) {
        self.holding.store(true, Ordering::SeqCst);
    }

    pub(crate) fn release_encodes(&self, count: usize) {
        self.gate.add_permits(count);
    }

    /// Lets a chunk that is held tell that it is half-way.
    pub(crate) fn be_half_way(&self) {
        self.half_way.add_permits(1);
    }

    /// Lets the check of the whole wait until it is released.
    pub(crate) fn hold_verify(&self) {
        self.verify_holding.store(true, Ordering::SeqCst);
    }

    pub(crate) async fn verify_begun(&self) {
        within(self.verify_begun.acquire()).await.unwrap().forget();
    }

    pub(crate) fn release_verify(&self) {
        self.verify_gate.add_permits(1);
    }

    pub(crate) async fn encode_begun(&self) {
        within(self.begun.acquire()).await.unwrap().forget();
    }

    pub(crate) async fn encode_ended(&self) {
        within(self.ended.acquire()).await.unwrap().forget();
    }
}

async fn within<F: Future>(work: F) -> F::Output {
    tokio::time::timeout(TIME_LIMIT, work).await.expect("it ends in time")
}

/// A server, a worker and a library.
pub(crate) struct Theatre {
    pub(crate) library: Library,
    pub(crate) client: Client,
    pub(crate) stage: Stage,
    url: String,
    folder: Folder,
    _place: tempfile::TempDir,
    shutdown: Shutdown,
    worker: JoinHandle<()>,
    stop: CancellationToken,
    stopper: Stopper,
    serving: JoinHandle<()>,
    engine: JoinHandle<()>,
}

pub(crate) fn new_video(source: BlobId, recipe: Recipe) -> NewVideo {
    let source = Some(source);
    NewVideo { source, url: None, title: None, recipe, priority: None, deadline_ms: None }
}

impl Theatre {
    pub(crate) async fn open() -> Self {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path().join("objects")).unwrap();
        let objects = Objects::in_folder(folder.clone());
        let (handle, engine) =
            Engine::start(Box::new(MemoryStore::new()), divvy_engine::Options::default()).unwrap();
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = divvy_server::Server::bind(divvy_server::Options::new(listen), handle);
        let server = server.await.unwrap();
        let url = format!("http://{}", server.address());
        let (stop, stopper) = (CancellationToken::new(), engine.stopper());
        let stopped = stop.clone();
        let serving = tokio::spawn(async move { server.run(stopped).await.unwrap() });
        let engine = tokio::spawn(async move { engine.join().await.unwrap() });
        let client = Client::connect(&url).await.unwrap();
        let tools = remembered::find(&ToolOptions::default()).await;
        let scratch = place.path().to_owned();
        let studio = Studio::new(objects.clone(), tools, scratch).with_client(client.clone());
        let stage = Stage::new();
        let (shutdown, slots) =
            (Shutdown::new(), Slots { async_: 1, blocking: 1, cpu: 1, process: 1 });
        let worker = worker(studio, stage.clone()).server(&url).slots(slots).prefetch(0);
        let running = worker.run_until(shutdown.clone());
        let worker = tokio::spawn(async move {
            running.await.unwrap();
        });
        let library = Library::new(client.clone(), objects);
        Self {
            library,
            client,
            stage,
            url,
            folder,
            _place: place,
            shutdown,
            worker,
            stop,
            stopper,
            serving,
            engine,
        }
    }

    pub(crate) async fn close(self) {
        self.shutdown.drain();
        within(self.worker).await.unwrap();
        self.stopper.stop();
        self.stop.cancel();
        within(self.serving).await.unwrap();
        within(self.engine).await.unwrap();
    }

    /// Lets a worker join that can scan; returns when the server knows it.
    pub(crate) async fn hire_scanner(&self) -> Scanner {
        let shutdown = Shutdown::new();
        let worker =
            Worker::new("scanner").caps(["scan=eye"]).state(self.library.objects().clone());
        let running = worker.on(scan).server(&self.url).prefetch(0).run_until(shutdown.clone());
        let worker = tokio::spawn(async move {
            running.await.unwrap();
        });
        within(async {
            while self.client.workers().await.unwrap().len() < 2 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        Scanner { shutdown, worker }
    }

    pub(crate) async fn upload(&self, bytes: &[u8]) -> BlobId {
        self.library.objects().put(bytes.to_vec()).await.unwrap().id
    }

    /// Waits until the plan of an uploaded video has spawned its tasks.
    pub(crate) async fn planned(&self, video: &Video) {
        let id = TaskId::from_key(&format!("video/{}/{}/1", video.id.0, video.added_at));
        within(self.client.task(id).wait()).await.unwrap();
    }

    /// Waits until a video is published.
    pub(crate) async fn finished(&self, video: &Video) -> VideoView {
        self.planned(video).await;
        let id = TaskId::from_key(&format!("{}/publish/0", video.workflow));
        within(self.client.task(id).wait()).await.unwrap();
        self.library.view(&video.id).await.unwrap()
    }

    /// Waits until the workflow of a video has ended with a failure and that was recorded.
    pub(crate) async fn failed(&self, video: &Video) -> VideoView {
        let id = TaskId::from_key(&format!("video/{}/{}/2", video.id.0, video.added_at));
        within(self.client.task(id).wait()).await.unwrap();
        self.library.view(&video.id).await.unwrap()
    }

    /// Waits until no task of a video waits or runs.
    pub(crate) async fn ended(&self, video: &Video) {
        for task in self.client.workflow_tasks(video.workflow_id().unwrap()).await.unwrap() {
            // How it ended does not matter here.
            let _ = within(self.client.task(task.id).wait()).await;
        }
    }

    /// The chunks that were encoded, in order.
    pub(crate) fn encodes(&self) -> Vec<Encode> {
        self.stage.encodes.lock().unwrap().clone()
    }

    /// Makes all blobs two days older.
    pub(crate) fn age_blobs(&self) {
        let long_ago = std::time::SystemTime::now() - 2 * crate::library::REST;
        for found in self.folder.blobs() {
            let path = self.folder.blob_path(found.unwrap().0.id);
            std::fs::File::open(path).unwrap().set_modified(long_ago).unwrap();
        }
    }

    /// Whether a blob is there; it does not count as used.
    pub(crate) fn has(&self, id: BlobId) -> bool {
        self.folder.blob(id).unwrap().is_some()
    }

    /// The folder of the objects.
    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// How many blobs there are.
    pub(crate) fn blobs(&self) -> usize {
        let folders = std::fs::read_dir(self.folder.root().join("blobs")).unwrap();
        folders.map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap().count()).sum()
    }
}

/// A worker that only scans.
pub(crate) struct Scanner {
    shutdown: Shutdown,
    worker: JoinHandle<()>,
}

impl Scanner {
    pub(crate) async fn leave(self) {
        self.shutdown.drain();
        within(self.worker).await.unwrap();
    }
}

async fn scan(task: ScanFrames, State(objects): State<Objects>) -> Outcome<Made> {
    let plan: Plan = serde_json::from_slice(&objects.get(task.plan).await.map_err(failure)?)?;
    let (source, key) = (plan.probe.source.id, plan.scan.unwrap());
    results::commit(&objects, source, &key, COST).await.map_err(failure)?;
    Ok(Made { cost: COST, ..Made::default() })
}

fn worker(studio: Studio, stage: Stage) -> Worker {
    let build = format!("ffmpeg={}", studio.tools().build());
    let real = [Fetch::KIND, PlanVideo::KIND, Publish::KIND];
    crate::tasks::worker(studio, |stage| real.contains(&stage.kind))
        .caps([build.as_str(), "encoder.libx264", "speech=tiny"])
        .state(stage)
        .on(probe)
        .on(encode)
        .on(audio)
        .on(frames)
        .on(sprite)
        .on(pcm)
        .on(transcribe)
        .on(mux)
        .on(package)
        .on(verify)
}

async fn probe(
    task: ProbeSource,
    State(studio): State<Studio>,
    State(stage): State<Stage>,
) -> Outcome<Probe> {
    let source = task.source.unwrap();
    let bytes = studio.objects().get(source.id).await.map_err(failure)?;
    if bytes == b"bad" && !stage.cured.load(Ordering::SeqCst) {
        return Err(Failure::dead("not a video"));
    }
    let frames = if bytes == LONG { LONG_CHUNKS * 600 } else { 1_440 };
    let video = VideoStream {
        index: 0,
        codec: "h264".into(),
        width: 1_280,
        height: 720,
        pixel_format: "yuv420p".into(),
        rate: FrameRate { frames: 30, seconds: 1 },
        frames,
        packets: frames,
        start_us: 0,
        variable_rate: false,
        interlaced: false,
        hdr: false,
        bt709: false,
        keyframes: (0..frames).step_by(30).collect(),
    };
    let sound = AudioStream {
        index: 1,
        codec: "aac".into(),
        channels: 2,
        language: "en".into(),
        title: None,
    };
    let (format, audio) = ("mp4".into(), vec![sound]);
    Ok(Probe { source, copied_from: None, format, video, audio, subtitles: Vec::new() })
}

/// A source of many chunks: 20 seconds of 30 frames each.
pub(crate) const LONG: &[u8] = b"very long";
pub(crate) const LONG_CHUNKS: u64 = 800;
/// A source of which two frames cannot be read.
pub(crate) const DAMAGED: &[u8] = b"damaged";
/// A source of which no thumbnail can be taken.
pub(crate) const UNSEEN: &[u8] = b"no picture";
const COST: Cost = Cost { cpu_ms: 777, wall_ms: 777 };

/// Stores a blob under a key.
async fn make(studio: &Studio, source: BlobId, key: &crate::keys::Key) -> Outcome<Made> {
    let blob =
        studio.objects().put(format!("data of {key}").into_bytes()).await.map_err(failure)?;
    results::commit(studio.objects(), source, key, blob).await.map_err(failure)?;
    Ok(Made { units: 1, bytes: blob.size, cost: COST, known: false })
}

async fn encode(
    task: Encode,
    State(studio): State<Studio>,
    State(stage): State<Stage>,
    cancel: Cancel,
    progress: Progress,
) -> Outcome<Made> {
    stage.begun.add_permits(1);
    while stage.holding.load(Ordering::SeqCst) {
        tokio::select! {
            permit = stage.gate.acquire() => {
                permit.unwrap().forget();
                break;
            }
            permit = stage.half_way.acquire() => {
                permit.unwrap().forget();
                progress.set(1, 2);
            }
            () = cancel.cancelled() => return Err(Failure::cancelled()),
        }
    }
    let plan = studio.plan(task.plan).await?;
    stage.encodes.lock().unwrap().push(task.clone());
    let mut made = Made::default();
    for rung in task.rungs {
        let key = &plan.chunks[task.chunk as usize].keys[rung as usize];
        made = make(&studio, plan.probe.source.id, key).await?;
    }
    stage.ended.add_permits(1);
    Ok(made)
}

async fn audio(task: Audio, State(studio): State<Studio>) -> Outcome<Made> {
    let plan = studio.plan(task.plan).await?;
    make(&studio, plan.probe.source.id, &plan.tracks[task.track as usize].key).await
}

async fn frames(task: Frames, State(studio): State<Studio>) -> Outcome<Made> {
    let plan = studio.plan(task.plan).await?;
    if plan.probe.source.id == BlobId::of(UNSEEN) {
        return Err(Failure::dead("ffmpeg took no picture"));
    }
    make(&studio, plan.probe.source.id, plan.frames.as_ref().unwrap()).await
}

async fn mux(task: Mux, State(studio): State<Studio>) -> Outcome<Made> {
    let plan = studio.plan(task.plan).await?;
    make(&studio, plan.probe.source.id, &plan.rungs[task.rung as usize].mp4).await
}

async fn sprite(_: SpriteSheet) -> Outcome<Made> {
    Ok(Made { cost: COST, ..Made::default() })
}

async fn pcm(_: Pcm) -> Outcome<Made> {
    Ok(Made { cost: COST, ..Made::default() })
}

async fn transcribe(_: Transcribe) -> Outcome<Made> {
    Err(Failure::dead("cannot hear a thing"))
}

async fn package(task: Package, State(studio): State<Studio>) -> Outcome<Written> {
    let plan = studio.plan(task.plan).await?;
    let source = plan.probe.source.id;
    let keys = plan.chunks.iter().flat_map(|chunk| &chunk.keys);
    let keys = keys.chain(plan.rungs.iter().map(|rung| &rung.mp4));
    let mut files = Vec::new();
    for key in keys.chain(plan.tracks.iter().map(|track| &track.key)) {
        let blob: Option<Blob> =
            results::find(studio.objects(), source, key).await.map_err(failure)?;
        let blob = blob.ok_or_else(|| Failure::dead(format_args!("{key} is missing")))?;
        files.push(FileEntry {
            path: key.to_string(),
            blob: blob.id,
            offset: 0,
            length: blob.size,
        });
    }
    let skipped = || Part::Skipped { reason: "not asked for".into() };
    let subtitles = match &plan.subtitles {
        Some(_) => Part::Failed { reason: "cannot hear a thing".into() },
        None => skipped(),
    };
    let bytes = studio.objects().get(source).await.map_err(failure)?;
    let manifest = Manifest {
        repaired: if source == BlobId::of(DAMAGED) { 2 } else { 0 },
        recipe: plan.recipe.clone(),
        tools: plan.tools.clone(),
        frames: plan.probe.video.frames,
        probe: plan.probe.clone(),
        duration_ms: 48_000,
        renditions: Vec::new(),
        tracks: Vec::new(),
        subtitles,
        captions: skipped(),
        thumbnails: match bytes == UNSEEN {
            true => Part::Failed { reason: "ffmpeg took no picture".into() },
            false => skipped(),
        },
        texts: Vec::new(),
        notes: Vec::new(),
        repaired_tracks: 0,
        scan: skipped(),
        findings: None,
        needs_review: bytes == b"doubtful",
        files,
        cost: COST,
    };
    let bytes = serde_json::to_vec(&manifest)?;
    let manifest = studio.objects().put(bytes).await.map_err(failure)?.id;
    Ok(Written { manifest, cost: COST })
}

async fn verify(
    _: Verify,
    State(stage): State<Stage>,
    Upstream(written): Upstream<Package>,
) -> Outcome<Written> {
    stage.verify_begun.add_permits(1);
    if stage.verify_holding.load(Ordering::SeqCst) {
        stage.verify_gate.acquire().await.unwrap().forget();
    }
    Ok(written)
}
