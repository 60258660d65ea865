//! A video is made whole whatever happens to the processes that make it, and nothing of it is made twice.
//!
//! Real processes, the real ffmpeg, real kills. Clips are short and chunks are small, so that there is something to lose.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::api::Api;
use divvy_e2e::process::{Process, divvy, free_port, serve_with};
use divvy_e2e::video::{
    add, clip, ended, ffmpeg_after, slow_ffmpeg, tasks_of, upload, video_worker,
};
use serde_json::{Value, json};
use tempfile::TempDir;

struct Site {
    api: Api,
    folder: TempDir,
    port: u16,
    server: Process,
}

impl Site {
    fn new() -> Result<Self> {
        let (folder, port) = (tempfile::tempdir()?, free_port()?);
        let server = start(folder.path(), port)?;
        Ok(Self { api: Api::on(port), folder, port, server })
    }

    fn worker(&self, name: &str, more: &[&str]) -> Result<Process> {
        video_worker(&self.api, name, self.folder.path(), more)
    }

    fn clip(&self, name: &str, size: &str, seconds: u32) -> Result<std::path::PathBuf> {
        clip(self.folder.path(), name, size, seconds)
    }

    /// Waits until so many encode tasks are done, or one runs for so long.
    async fn encodes(&self, what: &str, ready: impl Fn(&[Value]) -> bool) -> Result<Vec<Value>> {
        let started = Instant::now();
        loop {
            let tasks = self.api.all_tasks("kind=video.encode").await?;
            if ready(&tasks) {
                return Ok(tasks);
            }
            ensure!(started.elapsed() < Duration::from_secs(120), "{what}; last seen: {tasks:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn start(folder: &Path, port: u16) -> Result<Process> {
    let mut command = divvy()?;
    command.args(["--config", "/dev/null", "serve", "--json", "--lease", "5s", "--data"]);
    command.arg(folder.join("data")).args(["--listen", &format!("127.0.0.1:{port}")]);
    serve_with(&mut command)
}

/// Two rungs in chunks of two seconds.
fn recipe(preset: &str) -> Value {
    json!({ "ladder": [360, 180], "preset": preset, "segment_ms": 1_000, "chunk_ms": 2_000, "thumbnails_ms": 2_000 })
}

fn id_of(added: &Value) -> Result<&str> {
    added["video"]["id"].as_str().with_context(|| format!("no id in {added}"))
}

fn in_state<'a>(tasks: &'a [Value], state: &str) -> Vec<&'a Value> {
    tasks.iter().filter(|task| task["state"] == state).collect()
}

/// Attempts of each task that ended without an error.
fn successes(tasks: &[Value]) -> BTreeMap<String, usize> {
    let count = |task: &Value| {
        let history = task["history"].as_array().map_or(&[][..], Vec::as_slice);
        history.iter().filter(|attempt| attempt["error"].is_null()).count()
    };
    tasks.iter().map(|task| (task["id"].to_string(), count(task))).collect()
}

/// What must hold for every finished video of these tests.
async fn check_whole(site: &Site, id: &str, frames: u64) -> Result<Value> {
    let manifest = site.api.get(&format!("videos/{id}/manifest")).await?;
    ensure!(manifest["frames"] == frames, "{frames} frames expected: {}", manifest["frames"]);
    for rendition in manifest["renditions"].as_array().context("no renditions")? {
        ensure!(rendition["frames"] == frames, "a rendition lost frames: {rendition}");
    }
    Ok(manifest)
}

#[tokio::test]
async fn a_killed_worker_costs_the_chunk_in_its_slot_and_no_more() -> Result<()> {
    let site = Site::new()?;
    let source = upload(&site.api, &site.clip("clip.mp4", "640x360", 8)?).await?;
    let mut first = site.worker("first", &["--ffmpeg", &slow_ffmpeg(site.folder.path(), "2")?])?;
    let added = add(&site.api, &source, &recipe("ultrafast")).await?;
    let id = id_of(&added)?;
    // The second one comes when the first is in the middle of its work.
    site.encodes("no chunk was finished", |tasks| {
        !in_state(tasks, "done").is_empty() && !in_state(tasks, "leased").is_empty()
    })
    .await?;
    first.kill_nine()?;
    let before = tasks_of(&site.api, "video.encode").await?;
    let done: Vec<String> =
        in_state(&before, "done").iter().map(|task| task["id"].to_string()).collect();
    let _second = site.worker("second", &[])?;
    let video = ended(&site.api, id).await?;
    ensure!(video["state"] == "ready", "{video}");
    let after = tasks_of(&site.api, "video.encode").await?;
    ensure!(after.len() == 4, "8 seconds are 4 chunks: {}", after.len());
    let attempts: u64 = after.iter().filter_map(|task| task["attempts"].as_u64()).sum();
    // What only waited there for the slot is not charged.
    ensure!(attempts <= 4 + 1, "{attempts} attempts for 4 chunks, one of which was lost");
    ensure!(successes(&after).values().all(|count| *count == 1), "a chunk was finished twice");
    for task in after.iter().filter(|task| done.contains(&task["id"].to_string())) {
        ensure!(task["worker"] == "first", "a finished chunk was encoded again: {task}");
    }
    check_whole(&site, id, 240).await?;
    Ok(())
}

#[tokio::test]
async fn a_killed_server_finds_its_running_chunks_again() -> Result<()> {
    let mut site = Site::new()?;
    let source = upload(&site.api, &site.clip("clip.mp4", "320x180", 3)?).await?;
    let slow = slow_ffmpeg(site.folder.path(), "0.4")?;
    let _worker = site.worker("steady", &["--ffmpeg", &slow])?;
    let recipe =
        json!({ "ladder": [180], "preset": "ultrafast", "segment_ms": 2_000, "chunk_ms": 4_000 });
    let added = add(&site.api, &source, &recipe).await?;
    let id = id_of(&added)?;
    let has_begun = |task: &&Value| task["progress"]["done"].as_u64() > Some(0);
    site.encodes("no chunk made progress", |tasks| in_state(tasks, "leased").iter().any(has_begun))
        .await?;
    // An attempt that runs for more than two seconds is recorded as held.
    tokio::time::sleep(Duration::from_secs(3)).await;
    site.server.kill_nine()?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    site.server = start(site.folder.path(), site.port)?;
    let video = ended(&site.api, id).await?;
    ensure!(video["state"] == "ready", "{video}");
    for task in tasks_of(&site.api, "video.encode").await? {
        ensure!(task["attempts"] == 1, "a chunk was encoded again: {task}");
    }
    check_whole(&site, id, 90).await?;
    Ok(())
}

#[tokio::test]
async fn the_same_content_again_costs_nothing_and_a_new_rung_only_itself() -> Result<()> {
    let site = Site::new()?;
    let path = site.clip("clip.mp4", "640x360", 6)?;
    let source = upload(&site.api, &path).await?;
    let _worker = site.worker("only", &[])?;
    let added = add(&site.api, &source, &recipe("ultrafast")).await?;
    let video = ended(&site.api, id_of(&added)?).await?;
    ensure!(video["state"] == "ready", "{video}");
    let tasks = site.api.all_tasks("").await?.len();
    // The same file, uploaded anew.
    ensure!(upload(&site.api, &path).await? == source, "the same bytes have the same name");
    let again = add(&site.api, &source, &recipe("ultrafast")).await?;
    ensure!(again["known"] == true && again["video"]["id"] == added["video"]["id"], "{again}");
    ensure!(site.api.all_tasks("").await?.len() == tasks, "a second copy made tasks");
    let mut wider = recipe("ultrafast");
    wider["ladder"] = json!([360, 240, 180]);
    let more = add(&site.api, &source, &wider).await?;
    let video = ended(&site.api, id_of(&more)?).await?;
    ensure!(video["state"] == "ready", "{video}");
    let encodes = tasks_of(&site.api, "video.encode").await?;
    ensure!(encodes.len() == 3 + 3, "3 chunks, then the new rung of each: {}", encodes.len());
    let payload = |task: &Value| task["payload"]["rungs"].as_array().map_or(0, Vec::len);
    ensure!(encodes.iter().filter(|task| payload(task) == 1).count() == 3, "{encodes:?}");
    ensure!(tasks_of(&site.api, "video.audio").await?.len() == 1, "the sound was encoded again");
    let manifest = check_whole(&site, id_of(&more)?, 180).await?;
    ensure!(manifest["renditions"].as_array().map(Vec::len) == Some(3), "{manifest}");
    Ok(())
}

#[tokio::test]
async fn what_is_no_video_is_dead_at_once_with_a_reason() -> Result<()> {
    let site = Site::new()?;
    let _worker = site.worker("only", &[])?;
    let whole = std::fs::read(site.clip("clip.mp4", "320x180", 2)?)?;
    let playlist =
        "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n";
    for (name, bytes) in [
        ("truncated.mp4", &whole[..whole.len() / 2]),
        ("text.mp4", b"this is not a video"),
        ("playlist.mp4", playlist.as_bytes()),
    ] {
        let path = site.folder.path().join(name);
        std::fs::write(&path, bytes)?;
        let source = upload(&site.api, &path).await?;
        let added = add(&site.api, &source, &recipe("ultrafast")).await?;
        let video = ended(&site.api, id_of(&added)?).await?;
        ensure!(video["state"] == "failed", "{name}: {video}");
        let reason = video["reason"].as_str().unwrap_or_default();
        ensure!(!reason.is_empty() && !reason.contains("passwd"), "{name}: {reason}");
    }
    for probe in tasks_of(&site.api, "video.probe").await? {
        ensure!(probe["state"] == "dead" && probe["attempts"] == 1, "it was retried: {probe}");
    }
    ensure!(tasks_of(&site.api, "video.encode").await?.is_empty(), "something was encoded");
    Ok(())
}

#[tokio::test]
async fn providers_that_fail_leave_a_degraded_video_that_says_why() -> Result<()> {
    let site = Site::new()?;
    let source = upload(&site.api, &site.clip("clip.mp4", "320x180", 4)?).await?;
    // One cannot even be started, the other one crashes when it is given work.
    let write = |name: &str, text: &str| -> Result<String> {
        let path = site.folder.path().join(name);
        std::fs::write(&path, text)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        Ok(format!("exec:{}", path.display()))
    };
    let ear = write("ear", "#!/no/such/python3\n")?;
    let eye = "#!/bin/sh\nread request\necho '{\"provider\":\"eye\",\"version\":\"1\",\"model\":\"m\"}'\n\
        case $request in *scan*) echo 'the lens is dirty' >&2; exit 3;; esac\necho '{\"done\":true}'\n";
    let eye = write("eye", eye)?;
    let _worker = site.worker("only", &["--speech", &ear, "--scanner", &eye])?;
    let mut recipe = recipe("ultrafast");
    (recipe["subtitles"], recipe["scan"]) = (json!("en"), json!(true));
    let added = add(&site.api, &source, &recipe).await?;
    let id = id_of(&added)?;
    let video = ended(&site.api, id).await?;
    ensure!(video["state"] == "degraded", "{video}");
    let manifest = check_whole(&site, id, 120).await?;
    let shown = divvy()?
        .args(["--config", "/dev/null", "--server", site.api.url(), "video", "show", id])
        .output()?;
    let shown = String::from_utf8(shown.stdout)?;
    for (part, words) in [
        ("subtitles", "/ear` does not work: cannot start ear: "),
        ("scan", "the provider failed: eye ended with exit code 3: the lens is dirty"),
    ] {
        let reason = manifest[part]["reason"].as_str().unwrap_or_default();
        ensure!(manifest[part]["status"] == "failed" && reason.contains(words), "{manifest}");
        ensure!(video["reason"].as_str().unwrap_or_default().contains(words), "{video}");
        ensure!(shown.contains("FAILED"), "{shown}");
    }
    ensure!(shown.contains("the lens is dirty"), "{shown}");
    let attempts =
        |tasks: &[Value]| tasks.iter().filter_map(|task| task["attempts"].as_u64()).sum();
    let (speech, scan): (u64, u64) = (
        attempts(&tasks_of(&site.api, "video.transcribe").await?),
        attempts(&tasks_of(&site.api, "video.scan").await?),
    );
    ensure!((speech, scan) == (1, 4), "{speech} attempts at speech, {scan} at the scan");
    Ok(())
}

#[tokio::test]
async fn a_worker_whose_encoder_fails_does_not_poison_the_queue() -> Result<()> {
    let site = Site::new()?;
    let source = upload(&site.api, &site.clip("clip.mp4", "640x360", 12)?).await?;
    // Works when it is tried out, and fails whatever reads a real source.
    let broken = ffmpeg_after(
        site.folder.path(),
        "case \"$*\" in *blobs*|*cache*) echo broken >&2; exit 1;; esac",
    )?;
    let _bad = site.worker("bad", &["--ffmpeg", &broken])?;
    let _good = site.worker("good", &[])?;
    let added = add(&site.api, &source, &recipe("veryfast")).await?;
    let video = ended(&site.api, id_of(&added)?).await?;
    ensure!(video["state"] == "ready", "{video}");
    for task in tasks_of(&site.api, "video.encode").await? {
        ensure!(task["state"] == "done" && task["worker"] == "good", "{task}");
    }
    check_whole(&site, id_of(&added)?, 360).await?;
    Ok(())
}
