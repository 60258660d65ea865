//! What is wanted of a video: the settings that a user may choose, their defaults and their limits.
//!
//! The recipe travels with every task, so that workers need no settings of their own.

use serde::{Deserialize, Serialize};

/// Everything that decides what the results look like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recipe {
    /// Heights of the renditions (the short side, for portrait), from 16 to 4320. Larger ones than the source's are left
    /// out, and the source's own height joins if it lies between.
    pub ladder: Vec<u32>,
    /// How much x264 thinks: `ultrafast` to `veryslow`.
    pub preset: String,
    /// The constant quality, 0 to 51; less is better.
    pub crf: u32,
    /// Length of a segment, which is also the distance of key frames, in milliseconds: 1000 to 10000.
    pub segment_ms: u32,
    /// Length of a chunk that one task encodes, in milliseconds: at least 8000; nothing lets the plan choose.
    pub chunk_ms: Option<u32>,
    /// Bits per second of each audio track.
    pub audio_bitrate: u32,
    /// Distance of thumbnails in milliseconds; 0 for none.
    pub thumbnails_ms: u32,
    /// The language to transcribe, such as `en`; nothing for no subtitles.
    pub subtitles: Option<String>,
    /// Whether frames are scanned for content that needs a review.
    pub scan: bool,
    /// The score from which a frame is flagged, above 0 up to 1.
    pub flag_at: f64,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            ladder: vec![1080, 720, 480],
            preset: "veryfast".to_owned(),
            crf: 23,
            segment_ms: 2_000,
            chunk_ms: None,
            audio_bitrate: 128_000,
            thumbnails_ms: 10_000,
            subtitles: None,
            scan: false,
            flag_at: 0.8,
        }
    }
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct RecipeError {
    /// Which one.
    pub field: &'static str,
    /// What is wrong, and what would be right.
    pub problem: String,
}
