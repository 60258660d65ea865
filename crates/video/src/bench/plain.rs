//! One plain ffmpeg that makes the same renditions at the same settings: what everything is compared with.
//!
//! The sound is encoded once, as divvy does, though a user who makes three files would pay for it three times.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::plan::Plan;
use anyhow::{Context as _, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use serde::Serialize;

use divvy_workload::private::rounded;

/// What it cost.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Cost {
    pub(super) wall_s: f64,
    pub(super) cpu_s: f64,
}

/// Encodes all renditions of the plan into the folder.
pub(super) fn run(ffmpeg: &Path, clip: &Path, plan: &Plan, folder: &Path) -> anyhow::Result<Cost> {
    let before = children_cpu_s()?;
    let began = Instant::now();
    let output = Command::new(ffmpeg)
        .args(arguments(clip, plan, folder))
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", ffmpeg.display()))?;
    let wall_s = began.elapsed().as_secs_f64();
    if !output.status.success() {
        bail!("plain ffmpeg failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(Cost { wall_s: rounded(wall_s), cpu_s: rounded(children_cpu_s()? - before) })
}

/// Where a rendition is.
pub(super) fn file(folder: &Path, rung: &str) -> PathBuf {
    folder.join(format!("plain_{rung}.mp4"))
}

fn arguments(clip: &Path, plan: &Plan, folder: &Path) -> Vec<String> {
    let text = |path: &Path| path.display().to_string();
    let mut words: Vec<String> =
        ["-nostdin", "-hide_banner", "-loglevel", "error", "-y", "-i"].map(str::to_owned).to_vec();
    words.push(text(clip));
    let count = plan.rungs.len();
    let inputs: String = (0..count).map(|place| format!("[i{place}]")).collect();
    let scales = plan.rungs.iter().enumerate().map(|(place, rung)| {
        format!(
            "[i{place}]scale={}:{}:flags=bicubic,setsar=1,format=yuv420p[o{place}]",
            rung.width, rung.height
        )
    });
    let index = plan.probe.video.index;
    let graph: Vec<String> =
        std::iter::once(format!("[0:{index}]split={count}{inputs}")).chain(scales).collect();
    words.extend(["-filter_complex".to_owned(), graph.join(";")]);
    for (place, rung) in plan.rungs.iter().enumerate() {
        let (gop, recipe) = (plan.segment_frames, &plan.recipe);
        let (max, buffer) = (rung.bitrate_max, u64::from(rung.bitrate_max) * 2);
        let settings = format!(
            "-map [o{place}] -c:v libx264 -preset {} -crf {} -maxrate {max} -bufsize {buffer} -pix_fmt yuv420p \
             -g {gop} -keyint_min {gop} -sc_threshold 0 -flags +cgop -movflags +faststart",
            recipe.preset, recipe.crf
        );
        words.extend(settings.split_whitespace().map(str::to_owned));
        words.push(text(&file(folder, &rung.name)));
    }
    if let Some(track) = plan.tracks.first() {
        let rate = plan.recipe.audio_bitrate;
        let settings = format!("-map 0:{} -c:a aac -b:a {rate} -ar 48000 -ac 2", track.index);
        words.extend(settings.split_whitespace().map(str::to_owned));
        words.push(text(&folder.join("plain_sound.m4a")));
    }
    words
}

/// Seconds on processors of all children of this process that have ended.
fn children_cpu_s() -> anyhow::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(micros as f64 / 1e6)
}
