//! Videos as a client without our crates would add them, and clips that ffmpeg makes.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::api::{Api, Method};
use crate::process::{Process, divvy};

/// How long a video may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// A clip with a moving picture and a tone.
pub fn clip(folder: &Path, name: &str, size: &str, seconds: u32) -> Result<PathBuf> {
    let path = folder.join(name);
    let picture = format!("testsrc2=size={size}:rate=30:duration={seconds}");
    let tone = format!("sine=frequency=440:sample_rate=48000:duration={seconds}");
    let status = Command::new("ffmpeg")
        .args(["-nostdin", "-loglevel", "error", "-y", "-f", "lavfi", "-i", &picture])
        .args(["-f", "lavfi", "-i", &tone, "-c:v", "libx264", "-preset", "ultrafast", "-g", "30"])
        .args(["-pix_fmt", "yuv420p", "-c:a", "aac", "-shortest"])
        .arg(&path)
        .status()
        .context("ffmpeg is missing; install it: apt-get install ffmpeg")?;
    ensure!(status.success(), "ffmpeg could not make {name}: {status}");
    Ok(path)
}

/// An ffmpeg in this folder whose encodes take long on any machine, because they read so many seconds of a video in each
/// second, and not because they have much to do.
pub fn slow_ffmpeg(folder: &Path, rate: &str) -> Result<String> {
    let slowly = format!("set -- -readrate {rate} \"$@\"");
    ffmpeg_after(
        folder,
        &format!("case \"$*\" in *blobs*libx264*|*cache*libx264*) {slowly};; esac"),
    )
}

/// An ffmpeg in this folder that does this first, in the language of the shell.
pub fn ffmpeg_after(folder: &Path, first: &str) -> Result<String> {
    let path = folder.join("ffmpeg");
    std::fs::write(&path, format!("#!/bin/sh\n{first}\nexec /usr/bin/ffmpeg \"$@\"\n"))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    path.into_os_string().into_string().ok().context("a path that is not text")
}

/// A worker for videos, with folders of its own.
pub fn video_worker(api: &Api, name: &str, folder: &Path, more: &[&str]) -> Result<Process> {
    let own = folder.join(name);
    std::fs::create_dir_all(&own)?;
    let mut command = divvy()?;
    command
        .args(["--config", "/dev/null", "--server", api.url(), "work", "--name", name])
        .args(["--slots", "process=1"])
        .arg("--scratch")
        .arg(own.join("scratch"))
        .arg("--cache")
        .arg(own.join("cache"))
        .args(more)
        .stdout(Stdio::null());
    Process::start(&mut command)
}

/// Uploads a file by the tus protocol, in two pieces; returns the name of its blob.
pub async fn upload(api: &Api, path: &Path) -> Result<String> {
    let bytes = std::fs::read(path)?;
    let client = reqwest::Client::new();
    let made = client
        .post(format!("{}/api/v1/uploads", api.url()))
        .header("Tus-Resumable", "1.0.0")
        .header("Upload-Length", bytes.len())
        .send()
        .await?;
    ensure!(made.status().as_u16() == 201, "the upload was refused: {}", made.text().await?);
    let place = made.headers()["location"].to_str()?.to_owned();
    let place = if place.starts_with('/') { format!("{}{place}", api.url()) } else { place };
    let mut blob = None;
    let middle = bytes.len() / 2;
    for (offset, piece) in [(0, &bytes[..middle]), (middle, &bytes[middle..])] {
        let sent = client
            .patch(&place)
            .header("Tus-Resumable", "1.0.0")
            .header("Upload-Offset", offset)
            .header("Content-Type", "application/offset+octet-stream")
            .body(piece.to_vec())
            .send()
            .await?;
        ensure!(sent.status().is_success(), "a piece was refused: {}", sent.text().await?);
        blob = sent.headers().get("divvy-blob").and_then(|id| id.to_str().ok()).map(str::to_owned);
    }
    blob.context("the upload is whole, but no blob was named")
}

/// Adds an uploaded video; the answer.
pub async fn add(api: &Api, source: &str, recipe: &Value) -> Result<Value> {
    let body = json!({ "source": source, "title": "a clip", "recipe": recipe });
    api.set(Method::POST, "videos", &body).await
}

/// Waits until a video is in a final state.
pub async fn ended(api: &Api, id: &str) -> Result<Value> {
    let started = Instant::now();
    loop {
        let seen = api.get(&format!("videos/{id}")).await;
        match seen {
            Ok(video) if video["state"] != "processing" => return Ok(video),
            seen if started.elapsed() > PATIENCE => bail!("the video did not end; last: {seen:?}"),
            _ => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// The tasks of a kind, with all that is known about them.
pub async fn tasks_of(api: &Api, kind: &str) -> Result<Vec<Value>> {
    let mut details = Vec::new();
    for task in api.all_tasks(&format!("kind={kind}")).await? {
        let id = task["id"].as_str().context("a task without an id")?;
        details.push(api.get(&format!("tasks/{id}")).await?);
    }
    Ok(details)
}
