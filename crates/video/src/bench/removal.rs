//! How long removals from a large library take, and the pass after them: every video has a manifest with many names; those
//! that are removed have results and small blobs under these names besides.

use std::path::Path;
use std::pin::pin;
use std::time::{Duration, Instant, SystemTime};

use anyhow::ensure;
use divvy::api::Api;
use divvy::objects::BlobId;
use serde::Serialize;
use serde_json::json;

use super::pages::{Asked, Page, name, percentile_ms};
use crate::command::sweep;
use crate::library::{Sweep, Video, VideoState};
use divvy_workload::console::output::Output;
use divvy_workload::private::{Process, rounded};

/// Videos that are removed, one after the other, from all over the library.
const REMOVED: u32 = 100;
/// Blobs, and results, of each video.
const PARTS: u32 = 100;

/// The figures.
#[derive(Debug, Serialize)]
pub(super) struct Removal {
    videos: u32,
    p50_ms: f64,
    p95_ms: f64,
    /// The pass that looks for what nobody uses, for all of them together.
    pass_s: f64,
    /// Blobs that it removed.
    blobs: u64,
    /// A page of the library while the pass goes on.
    beside: Page,
    server_mb_after: u64,
}

/// Removes videos and what they leave.
pub(super) async fn run(
    api: &Api,
    server: &Process,
    videos: u32,
    output: &Output,
) -> anyhow::Result<Removal> {
    output.note(format_args!("removing {REMOVED} videos …"));
    let mut took = Vec::new();
    for number in (1..=videos).filter(|number| is_removed(*number, videos)) {
        let id = name(number);
        let began = Instant::now();
        api.delete(&["videos", &id]).await?;
        took.push(began.elapsed());
    }
    took.sort_unstable();
    output.note("the pass after them …");
    let began = Instant::now();
    let options = Sweep::default();
    let mut pass = pin!(async {
        let swept = sweep::ask(api, &options).await;
        (swept, rounded(began.elapsed().as_secs_f64()))
    });
    // The page and the pass share a thread here, which waits for the server at both.
    let mut asked = Asked::new("latest, beside a pass", Vec::new());
    let (swept, pass_s) = loop {
        tokio::select! {
            done = &mut pass => break done,
            page = asked.ask(api) => page?,
        }
    };
    let (swept, removed) = (swept?, took.len() as u64);
    // Besides its parts, a video leaves a plan and a manifest.
    ensure!(
        (swept.removed, swept.blobs) == (removed, removed * u64::from(PARTS + 2)),
        "the pass removed {} videos and {} blobs",
        swept.removed,
        swept.blobs
    );
    Ok(Removal {
        videos: REMOVED,
        p50_ms: percentile_ms(&took, 50),
        p95_ms: percentile_ms(&took, 95),
        pass_s,
        blobs: swept.blobs,
        beside: asked.page(),
        server_mb_after: server.rss_mb()?.0,
    })
}

/// Whether a video is one of those that are removed.
pub(super) fn is_removed(number: u32, videos: u32) -> bool {
    let apart = videos / REMOVED;
    // Between the multiples of a hundred, which were cancelled and have no plan.
    number % apart == (apart - 1) / 2 && number / apart < REMOVED
}

/// Gives a video a manifest, a plan unless it was cancelled, and, if it is whole, what the manifest names, as if all of it
/// had been stored an hour ago.
pub(super) fn furnish(video: &mut Video, objects: &Path, is_whole: bool) -> anyhow::Result<()> {
    let part = |place: u32| format!("part {place} of {}", video.id.0).into_bytes();
    let parts: Vec<BlobId> = (0..PARTS).map(|place| BlobId::of(&part(place))).collect();
    let manifest = json!({ "files": parts }).to_string().into_bytes();
    video.manifest = Some(BlobId::of(&manifest));
    store(objects, &manifest)?;
    // Results of a source that no plan is for would count as left behind, and be collected beside the pages.
    let plan = json!({ "of": video.id.0, "parts": PARTS }).to_string().into_bytes();
    video.plan = (video.state != VideoState::Cancelled).then(|| BlobId::of(&plan));
    if video.plan.is_some() {
        store(objects, &plan)?;
    }
    if !is_whole {
        return Ok(());
    }
    let source = video.source.map(|source| source.id.to_string()).unwrap_or_default();
    let results = objects.join("records/video/results").join(source);
    std::fs::create_dir_all(&results)?;
    for (place, id) in (0..PARTS).zip(&parts) {
        store(objects, &part(place))?;
        let file = results.join(format!("{place:032x}.json"));
        std::fs::write(file, json!({ "media": id }).to_string())?;
    }
    Ok(())
}

fn store(objects: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let id = BlobId::of(bytes).to_string();
    let folder = objects.join("blobs").join(&id[..2]);
    std::fs::create_dir_all(&folder)?;
    let file = folder.join(id);
    std::fs::write(&file, bytes)?;
    let hour_ago = SystemTime::now() - Duration::from_secs(3_600);
    std::fs::File::open(file)?.set_modified(hour_ago)?;
    Ok(())
}

impl Removal {
    /// A page of the library while the pass goes on.
    pub(super) fn beside(&self) -> &Page {
        &self.beside
    }

    pub(super) fn print(&self, output: &Output) -> anyhow::Result<()> {
        output.data(format_args!(
            "a removal {} ms, p95 {} ms; the pass after {} of them {} s, {} blobs; the server has {} MiB then",
            self.p50_ms, self.p95_ms, self.videos, self.pass_s, self.blobs, self.server_mb_after
        ))?;
        Ok(())
    }
}
