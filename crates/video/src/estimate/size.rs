//! How large a task is: what the measured constants predict for it, in parts that are each proportional to an amount.
//!
//! The constants are milliseconds of one core of a common machine. They only matter until a few tasks have ended.

use std::time::Duration;

use super::model::PARTS;
use crate::plan::{Chunk, Plan};
use crate::recipe::Recipe;
use crate::tools::provider;

/// Per million pixels of decoded source, and of scaled and encoded frames with preset `veryfast`.
const DECODE_MS: f64 = 8.0;
const ENCODE_MS: f64 = 20.0;
/// Per megabyte of source: decoding and encoding of what usually is in one.
const SOURCE_MS: f64 = 4_000.0;

/// How large a task is.
#[derive(Clone, Debug, PartialEq)]
pub struct Size {
    name: String,
    parts: [f64; PARTS],
    /// How long an attempt is allowed to take whatever was learnt.
    allowed: Duration,
}

impl Size {
    /// A chunk in some rungs.
    pub fn encode(plan: &Plan, chunk: &Chunk, rungs: &[u32]) -> Self {
        let frames = as_float(chunk.span.frames());
        let pixels: f64 = rungs
            .iter()
            .filter_map(|rung| plan.rungs.get(*rung as usize))
            .map(|rung| megapixels(rung.width, rung.height))
            .sum();
        let source = megapixels(plan.probe.video.width, plan.probe.video.height);
        let decoded = as_float(chunk.span.frames().saturating_add(chunk.lead_in));
        Self::of_encode(&plan.recipe.preset, pixels * frames, source * decoded)
    }

    /// Encoding of so many million pixels, after so many were decoded.
    pub(super) fn of_encode(preset: &str, encoded: f64, decoded: f64) -> Self {
        let each = ENCODE_MS * preset_factor(preset);
        Self::new(format!("encode/{preset}"), [200.0, encoded * each, decoded * DECODE_MS])
    }

    /// A sound track.
    pub fn audio(plan: &Plan) -> Self {
        Self::new("audio", [200.0, seconds(plan) * 12.0, 0.0])
    }

    /// The thumbnails. What is decoded for each begins at the key frame before it, half of their distance on average.
    pub fn frames(plan: &Plan) -> Self {
        let video = &plan.probe.video;
        let (frames, keys) = (as_float(video.frames), as_float(video.keyframes.len() as u64));
        let decoded = (stills(plan) * frames / keys.max(1.0) / 2.0).min(frames);
        let decoded = megapixels(video.width, video.height) * decoded;
        Self::new("frames", [200.0, stills(plan) * 30.0, decoded * DECODE_MS])
    }

    /// The sheets of thumbnails.
    pub fn sprite(plan: &Plan) -> Self {
        Self::new("sprite", [200.0, stills(plan) * 5.0, 0.0])
    }

    /// A scan of the thumbnails.
    pub fn scan(plan: &Plan) -> Self {
        let size = Self::new("scan", [1_000.0, stills(plan) * 25.0, 0.0]);
        Self { allowed: provider::frames_limit(stills(plan) as u64), ..size }
    }

    /// The subtitles that the source carries: all of it is read.
    pub fn captions(plan: &Plan) -> Self {
        Self::new("captions", [200.0, as_float(plan.probe.source.size) / 1e6, 0.0])
    }

    /// The sound for speech recognition.
    pub fn pcm(plan: &Plan) -> Self {
        Self::new("pcm", [200.0, seconds(plan) * 3.0, 0.0])
    }

    /// Speech recognition.
    pub fn transcribe(plan: &Plan) -> Self {
        let size = Self::new("transcribe", [1_500.0, seconds(plan) * 60.0, 0.0]);
        Self { allowed: provider::sound_limit(Duration::from_secs(seconds(plan) as u64)), ..size }
    }

    /// An MP4 file: packets are copied one by one, and their bytes follow from the pixels.
    pub fn mux(plan: &Plan, rung: u32) -> Self {
        let rung = plan.rungs.get(rung as usize);
        let pixels = rung.map_or(0.0, |rung| megapixels(rung.width, rung.height));
        Self::new("mux", [150.0, seconds(plan) * 2.0, seconds(plan) * pixels * 2.0])
    }

    /// Playlists and the manifest: every result is looked up, and every segment is written down.
    pub fn package(plan: &Plan) -> Self {
        let (pieces, segments) = pieces(plan);
        Self::new("package", [50.0, pieces * 2.0, segments * 0.05])
    }

    /// The check of the whole: some runs of ffmpeg for each rung, and every file is looked at and its packets counted.
    pub fn verify(plan: &Plan) -> Self {
        let count = as_float(plan.rungs.len() as u64);
        let (pieces, _) = pieces(plan);
        Self::new("verify", [300.0, count * 300.0, seconds(plan) * count + pieces * 2.0])
    }

    /// A whole video, from the size of its source alone.
    pub fn source(bytes: u64, recipe: &Recipe) -> Self {
        let each = SOURCE_MS * preset_factor(&recipe.preset);
        Self::new(
            format!("source/{}", recipe.preset),
            [1_500.0, as_float(bytes) / 1e6 * each, as_float(bytes) / 1e6 * 100.0 * DECODE_MS],
        )
    }

    /// A small task, or one of a kind that is not known here.
    pub fn small() -> Self {
        Self::new("small", [50.0, 0.0, 0.0])
    }

    /// Which model it belongs to.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What the constants predict, in milliseconds.
    pub(super) fn parts(&self) -> [f64; PARTS] {
        self.parts
    }

    /// How long an attempt is allowed to take whatever was learnt.
    pub(super) fn allowed(&self) -> Duration {
        self.allowed
    }

    fn new(name: impl Into<String>, parts: [f64; PARTS]) -> Self {
        // A source may claim any size; what cannot be is nothing, and nothing takes longer than a year.
        let bounded = |part: f64| if part.is_nan() { 0.0 } else { part.clamp(0.0, 3.2e10) };
        Self { name: name.into(), parts: parts.map(bounded), allowed: Duration::ZERO }
    }
}

fn seconds(plan: &Plan) -> f64 {
    let rate = plan.probe.video.rate.per_second();
    as_float(plan.probe.video.frames) / rate.max(0.001)
}

/// Chunks, and segments, of all rungs together.
fn pieces(plan: &Plan) -> (f64, f64) {
    let rungs = as_float(plan.rungs.len() as u64);
    let segments = as_float(plan.probe.video.frames) / f64::from(plan.segment_frames.max(1));
    (rungs * as_float(plan.chunks.len() as u64), rungs * segments)
}

fn stills(plan: &Plan) -> f64 {
    match plan.recipe.thumbnails_ms {
        0 => 1.0,
        distance => seconds(plan) * 1_000.0 / f64::from(distance) + 1.0,
    }
}

fn megapixels(width: u32, height: u32) -> f64 {
    f64::from(width) * f64::from(height) / 1e6
}

/// How much longer a preset takes than `veryfast`.
fn preset_factor(preset: &str) -> f64 {
    match preset {
        "ultrafast" => 0.4,
        "superfast" => 0.6,
        "faster" => 1.4,
        "fast" => 2.0,
        "medium" => 2.8,
        "slow" => 5.0,
        "slower" => 10.0,
        "veryslow" | "placebo" => 18.0,
        _ => 1.0,
    }
}

#[expect(clippy::cast_precision_loss, reason = "an estimate needs no 53 bits")]
fn as_float(number: u64) -> f64 {
    number as f64
}
