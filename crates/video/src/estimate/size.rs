//! How large a task is: what the measured constants predict for it, in parts that are each proportional to an amount.
//!
//! The constants are milliseconds of one core of a common machine. They only matter until a few tasks have ended.

use super::model::PARTS;
use crate::plan::{Chunk, Plan};
use crate::recipe::Recipe;

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

    /// The thumbnails.
    pub fn frames(plan: &Plan) -> Self {
        let source = megapixels(plan.probe.video.width, plan.probe.video.height);
        let decoded = source * as_float(plan.probe.video.frames);
        Self::new("frames", [200.0, stills(plan) * 30.0, decoded * DECODE_MS])
    }

    /// The sheets of thumbnails.
    pub fn sprite(plan: &Plan) -> Self {
        Self::new("sprite", [200.0, stills(plan) * 5.0, 0.0])
    }

    /// A scan of the thumbnails.
    pub fn scan(plan: &Plan) -> Self {
        Self::new("scan", [1_000.0, stills(plan) * 25.0, 0.0])
    }

    /// The sound for speech recognition.
    pub fn pcm(plan: &Plan) -> Self {
        Self::new("pcm", [200.0, seconds(plan) * 3.0, 0.0])
    }

    /// Speech recognition.
    pub fn transcribe(plan: &Plan) -> Self {
        Self::new("transcribe", [1_500.0, seconds(plan) * 60.0, 0.0])
    }

    /// An MP4 file.
    pub fn mux(plan: &Plan) -> Self {
        Self::new("mux", [150.0, seconds(plan) * 4.0, 0.0])
    }

    /// Playlists and the manifest.
    pub fn package(plan: &Plan) -> Self {
        Self::new("package", [50.0, as_float(plan.chunks.len() as u64) * 5.0, 0.0])
    }

    /// The check of the whole.
    pub fn verify(plan: &Plan) -> Self {
        let count = as_float(plan.rungs.len() as u64);
        Self::new("verify", [300.0, count * 300.0, seconds(plan) * 2.0])
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

    fn new(name: impl Into<String>, parts: [f64; PARTS]) -> Self {
        // A source may claim any size; what cannot be is nothing, and nothing takes longer than a year.
        let bounded = |part: f64| if part.is_nan() { 0.0 } else { part.clamp(0.0, 3.2e10) };
        Self { name: name.into(), parts: parts.map(bounded) }
    }
}

fn seconds(plan: &Plan) -> f64 {
    let rate = plan.probe.video.rate.per_second();
    as_float(plan.probe.video.frames) / rate.max(0.001)
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
