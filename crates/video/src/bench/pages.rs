//! How long a page of a large library takes: so many made-up records in the folder of a private server, a few videos that
//! are being made before them, and pages asked for over HTTP. Then some of the videos are removed.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use divvy::Client;
use divvy::api::Api;
use divvy::objects::{Blob, BlobId};
use serde::Serialize;
use serde_json::{Value, json};

use super::removal::{self, Removal};
use crate::Recipe;
use crate::library::{Video, VideoId, VideoState};
use divvy_workload::console::output::Output;
use divvy_workload::console::output::table::Table;
use divvy_workload::private::{Process, rounded};

/// Videos that wait for a worker: as many as a page has.
const OPEN: u32 = 100;
/// When the first video was added, in microseconds since 1970; the others follow by ten seconds, 8,640 a day.
const FIRST: u64 = 1_700_000_000_000_000;
const APART: u64 = 10_000_000;
/// Each page is asked for so often.
const ASKED: usize = 200;

/// The figures.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    videos: u32,
    /// From the start of the server to the first page, which reads every record once.
    first_page_ms: f64,
    server_mb: u64,
    pages: Vec<Page>,
    removal: Removal,
}

/// How long a page takes.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    name: &'static str,
    query: String,
    rows: usize,
    p50_ms: f64,
    p95_ms: f64,
}

/// Measures.
pub(super) async fn run(videos: u32, folder: &Path, output: &Output) -> anyhow::Result<Figures> {
    let data = folder.join("data");
    output.note(format_args!("writing the records of {videos} videos …"));
    let objects = data.join("objects");
    write(&objects, videos)?;
    let (server, url) = Process::server(&data)?;
    let api = Client::new(url.as_str())?.api().clone();
    output.note("asking for the first page …");
    let began = Instant::now();
    let page = api.get(&["videos"], &[]).await?.text().len();
    ensure!(page > 2, "the first page is empty");
    let first_page_ms = rounded(began.elapsed().as_secs_f64() * 1_000.0);
    for number in 0..OPEN {
        let url = format!("https://example.invalid/{number}.mp4");
        api.post(&["videos"], &json!({ "url": url })).await?;
    }
    let at = |number: u32| format!("{}.{}", added_at(number), name(number));
    let mut pages = Vec::new();
    for (name, query) in [
        ("latest, being made", vec![]),
        ("latest that ended", vec![("after", at(videos))]),
        ("middle", vec![("after", at(videos / 2))]),
        ("last", vec![("after", at(100))]),
        ("being made", vec![("state", "processing".to_owned())]),
        (
            "failed, from the middle",
            vec![("state", "failed".to_owned()), ("after", at(videos / 2))],
        ),
        ("ready, from the middle", vec![("state", "ready".to_owned()), ("after", at(videos / 2))]),
        ("by the start of an id", vec![("id", name(videos / 2)[..11].to_owned())]),
    ] {
        output.note(format_args!("{name} …"));
        let mut asked = Asked::new(name, query);
        for _ in 0..ASKED {
            asked.ask(&api).await?;
        }
        pages.push(asked.page());
    }
    let server_mb = server.rss_mb()?.0;
    let removal = removal::run(&api, &server, videos, output).await?;
    Ok(Figures { videos, first_page_ms, server_mb, pages, removal })
}

/// A page that is asked for again and again.
pub(super) struct Asked {
    name: &'static str,
    query: Vec<(&'static str, String)>,
    took: Vec<Duration>,
    rows: usize,
}

impl Asked {
    pub(super) fn new(name: &'static str, query: Vec<(&'static str, String)>) -> Self {
        Self { name, query, took: Vec::new(), rows: 0 }
    }

    /// Asks for it once more.
    pub(super) async fn ask(&mut self, api: &Api) -> anyhow::Result<()> {
        let began = Instant::now();
        let page = api.get(&["videos"], &self.query).await?;
        let text = page.text();
        self.took.push(began.elapsed());
        self.rows = serde_json::from_slice::<Value>(text.as_bytes())?["items"]
            .as_array()
            .map_or(0, Vec::len);
        Ok(())
    }

    /// How long it took.
    pub(super) fn page(mut self) -> Page {
        self.took.sort_unstable();
        let mut query = String::new();
        for (key, value) in &self.query {
            let _ = write!(query, "{}{key}={value}", if query.is_empty() { "" } else { "&" });
        }
        let [p50_ms, p95_ms] = [50, 95].map(|percent| percentile_ms(&self.took, percent));
        Page { name: self.name, query, rows: self.rows, p50_ms, p95_ms }
    }
}

/// Of times in order, in milliseconds.
pub(super) fn percentile_ms(took: &[Duration], percent: usize) -> f64 {
    let place = (took.len() * percent).div_ceil(100).saturating_sub(1);
    rounded(took.get(place).map_or(0.0, Duration::as_secs_f64) * 1_000.0)
}

/// Writes the records as the library would have, without waiting for the disk at each of them.
fn write(objects: &Path, videos: u32) -> anyhow::Result<()> {
    let folder = objects.join("records/video/library");
    std::fs::create_dir_all(&folder)?;
    for number in 1..=videos {
        let mut video = video(number);
        removal::furnish(&mut video, objects, removal::is_removed(number, videos))?;
        let file = folder.join(format!("{}.json", video.id.0));
        std::fs::write(file, serde_json::to_vec(&video)?)?;
    }
    Ok(())
}

pub(super) fn name(number: u32) -> String {
    format!("bench{number:07}")
}

fn added_at(number: u32) -> u64 {
    FIRST + u64::from(number) * APART
}

fn video(number: u32) -> Video {
    let state = match number % 100 {
        0 => VideoState::Cancelled,
        1..=3 => VideoState::Failed,
        4..=5 => VideoState::Degraded,
        6 => VideoState::NeedsReview,
        _ => VideoState::Ready,
    };
    let blob = |what: &str| BlobId::of(format!("{what} {number}").as_bytes());
    Video {
        id: VideoId(name(number)),
        title: format!("Video {number} of a large library"),
        added_at: added_at(number),
        url: None,
        source: Some(Blob { id: blob("source"), size: 100_000_000 }),
        recipe: Recipe::default(),
        priority: 3,
        deadline: None,
        workflow: uuid::Uuid::from_u128(u128::from(number)).to_string(),
        state,
        reason: (state == VideoState::Failed).then(|| "probe: the file is refused".to_owned()),
        plan: Some(blob("plan")),
        manifest: Some(blob("manifest")),
        has_poster: true,
        ended_at: Some(added_at(number) + 60_000_000),
        length_ms: Some(600_000),
        estimated_cpu_ms: Some(900_000),
    }
}

impl Figures {
    /// As tables.
    pub(crate) fn print(&self, output: &Output) -> anyhow::Result<()> {
        let mut table = Table::new(&["PAGE", ">ROWS", ">P50 MS", ">P95 MS"]);
        for page in self.pages.iter().chain([self.removal.beside()]) {
            table.row([
                page.name.into(),
                page.rows.to_string().into(),
                page.p50_ms.to_string().into(),
                page.p95_ms.to_string().into(),
            ]);
        }
        table.print(output)?;
        output.data(format_args!(
            "{} videos; the first page after a start {} ms; the server has {} MiB",
            self.videos, self.first_page_ms, self.server_mb
        ))?;
        self.removal.print(output)?;
        Ok(())
    }
}
