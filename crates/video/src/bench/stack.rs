//! A private server with one worker of so many slots, which processes the clip once and is watched while it does.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Recipe;
use crate::library::{Added, NewVideo, VideoState, VideoView};
use crate::manifest::Manifest;
use crate::plan::Plan;
use anyhow::{Context as _, bail};

use divvy_workload::private::Process;
use serde_json::Value;

use super::usage::{Look, tree_cpu_s};
use crate::command::objects::upload;
use crate::command::words;
use divvy::Client;
use divvy::api::Api;
use divvy::objects::{Objects, Reach};
use divvy_workload::console::output::Output;

/// Between two looks before the first piece is encoded, and after that.
const LOOK_FIRST: Duration = Duration::from_millis(25);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A worker that has not come by then will not.
const WORKER_WITHIN: Duration = Duration::from_secs(60);
/// No clip of ours takes longer.
const VIDEO_WITHIN: Duration = Duration::from_secs(4 * 3_600);

/// What came out of one run.
pub(super) struct Run {
    /// From the request to the published video.
    pub(super) wall_s: f64,
    /// Time on processors in between, of server, worker and all their children.
    pub(super) cpu_s: f64,
    /// From the request to the first piece that is encoded.
    pub(super) first_encode_ms: Option<u64>,
    /// What was seen while it ran.
    pub(super) looks: Vec<Look>,
    /// What was decided.
    pub(super) plan: Plan,
    /// Where the results are.
    files: BTreeMap<String, PathBuf>,
}

impl Run {
    /// Processes the clip in this folder, which must be empty.
    pub(super) async fn new(
        clip: &Path,
        recipe: &Recipe,
        slots: u32,
        ffmpeg: Option<&Path>,
        folder: &Path,
        output: &Output,
    ) -> anyhow::Result<Self> {
        let data = folder.join("data");
        let flags: Vec<OsString> =
            ffmpeg.map_or_else(Vec::new, |path| vec!["--ffmpeg".into(), path.into()]);
        let (server, url) = Process::up(&data, slots, &flags)?;
        let client = Client::new(url.as_str())?;
        let api = client.api().clone();
        wait_for_worker(&api).await?;
        let cache = folder.join("cache");
        let reach = Reach { folder: Some(data.join("objects")), cache, cache_bytes: 1 << 40 };
        let objects = Objects::at_server(&client, reach);
        let source = upload(&objects, clip, |_| {}).await?;
        let new = NewVideo {
            source: Some(source.id),
            url: None,
            title: Some("bench".to_owned()),
            recipe: recipe.clone(),
            priority: None,
            deadline_ms: None,
        };
        let before = tree_cpu_s(server.id());
        let began = Instant::now();
        let added: Added = api.post(&["videos"], &new).await?.parse()?;
        let mut watch = Watch { began, first_encode_ms: None, looks: Vec::new() };
        let view = watch.run(&api, &added.video.id.0, server.id(), output).await?;
        let wall_s = began.elapsed().as_secs_f64();
        let cpu_s = tree_cpu_s(server.id()) - before;
        if view.video.state != VideoState::Ready {
            let why = view.video.reason.as_deref().unwrap_or("no reason was recorded");
            bail!("the video is {}: {why}", view.video.state.as_str());
        }
        let path = ["videos", &view.video.id.0, "manifest"];
        let manifest: Manifest = api.get(&path, &[]).await?.parse()?;
        let plan = view.video.plan.context("the video has no plan")?.to_string();
        let plan: Plan = api.get(&["blobs", &plan], &[]).await?.parse()?;
        let mut files = BTreeMap::new();
        for file in &manifest.files {
            let local = objects.local_file(file.blob).await?;
            files.insert(file.path.clone(), local.path().to_owned());
        }
        let Watch { first_encode_ms, looks, .. } = watch;
        Ok(Self { wall_s, cpu_s, first_encode_ms, looks, plan, files })
    }

    /// The file of a rendition.
    pub(super) fn file(&self, rung: &str) -> anyhow::Result<PathBuf> {
        let path = format!("mp4/{rung}.mp4");
        let file = self.files.get(&path);
        file.cloned().with_context(|| format!("the video has no file {path}"))
    }
}

struct Watch {
    began: Instant,
    first_encode_ms: Option<u64>,
    looks: Vec<Look>,
}

impl Watch {
    /// Looks until the video is final.
    async fn run(
        &mut self,
        api: &Api,
        id: &str,
        server: u32,
        output: &Output,
    ) -> anyhow::Result<VideoView> {
        let mut said = 0;
        while self.began.elapsed() < VIDEO_WITHIN {
            let view: VideoView = api.get(&["videos", id], &[]).await?.parse()?;
            let engine = stats(api).await?;
            self.looks.push(Look {
                at: self.began.elapsed(),
                cpu_s: tree_cpu_s(server),
                runnable: figure(&engine, "ready") + figure(&engine, "leased"),
            });
            let encodes = view
                .stages
                .iter()
                .any(|stage| stage.name == "encode" && (stage.running > 0 || stage.done > 0));
            if encodes && self.first_encode_ms.is_none() {
                self.first_encode_ms = u64::try_from(self.began.elapsed().as_millis()).ok();
            }
            if view.video.state.is_final() {
                return Ok(view);
            }
            let tenth = words::percent(view.progress) / 10;
            if tenth > said {
                said = tenth;
                output.note(format_args!("  {}", words::line(&view)));
            }
            let pause = if self.first_encode_ms.is_some() { LOOK_EVERY } else { LOOK_FIRST };
            tokio::time::sleep(pause).await;
        }
        bail!("the video was not ready after {VIDEO_WITHIN:?}")
    }
}

async fn wait_for_worker(api: &Api) -> anyhow::Result<()> {
    let began = Instant::now();
    while began.elapsed() < WORKER_WITHIN {
        if figure(&stats(api).await?, "workers") > 0 {
            return Ok(());
        }
        tokio::time::sleep(LOOK_FIRST).await;
    }
    bail!("the worker process did not connect within {WORKER_WITHIN:?}")
}

/// The engine's own figures.
async fn stats(api: &Api) -> anyhow::Result<Value> {
    Ok(api.get(&["stats"], &[]).await?.value()?["engine"].take())
}

fn figure(stats: &Value, name: &str) -> u64 {
    stats[name].as_u64().unwrap_or(0)
}
