//! What is there: the streams of a source, as far as they matter, and where its key frames are.
//!
//! Decides what is refused, which picture counts, and the output's grid. Headers are believed about what a stream is,
//! never about how long it is: that is what its packets say. Whether all of it can be decoded
//! is not known here.

mod examine;
mod packets;
mod rate;
mod streams;

use std::fmt;

use divvy::objects::Blob;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::FrameRate;

pub use examine::{Examined, Unsteady, examine};

/// A source may have so many pixels …
pub const PIXELS_MAX: u64 = 8_192 * 4_320;
/// … and on each side so many.
pub const SIDE_MAX: u32 = 16_384;
/// A source may last so many hours.
pub const HOURS_MAX: u64 = 12;
/// A source may have so many streams.
pub const STREAMS_MAX: usize = 32;
/// Of a source, so many key frames are remembered; of more, those at larger distances.
pub const KEYFRAMES_MAX: usize = 16_384;

/// Subtitles that are text.
const TEXTS: [&str; 6] = ["mov_text", "subrip", "webvtt", "ass", "ssa", "text"];

/// A source that can be processed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    /// The source.
    pub source: Blob,
    /// What was given, if its clock jumps or begins before zero: the source is a copy of its streams on one clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied_from: Option<Blob>,
    /// What its container calls itself, such as `mov,mp4,m4a,3gp,3g2,mj2`.
    pub format: String,
    /// The picture.
    pub video: VideoStream,
    /// The sound, one entry per track.
    pub audio: Vec<AudioStream>,
    /// The subtitles, one entry per track; those that are pictures are not carried over.
    #[serde(default)]
    pub subtitles: Vec<TextStream>,
}

/// The picture of a source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VideoStream {
    /// Its number among all streams of the source.
    pub index: u32,
    /// Its codec, such as `h264`.
    pub codec: String,
    /// As it is shown: rotated, with square pixels.
    pub width: u32,
    /// As it is shown.
    pub height: u32,
    /// The pixel format, such as `yuv420p10le`.
    pub pixel_format: String,
    /// The output's grid.
    pub rate: FrameRate,
    /// How many frames the output has on that grid.
    pub frames: u64,
    /// How many packets the source has.
    pub packets: u64,
    /// When the first frame is shown, in microseconds of the source's clock; the grid begins there.
    pub start_us: i64,
    /// Whether frames are not at equal distances.
    pub variable_rate: bool,
    /// Whether it is interlaced.
    pub interlaced: bool,
    /// Whether brightness is coded for HDR (PQ or HLG).
    pub hdr: bool,
    /// Whether its colours are coded as those of the outputs are, so that nothing has to be converted: BT.709 in the
    /// range of television. A source that does not say is believed to be, if it is large enough.
    #[serde(default)]
    pub bt709: bool,
    /// The grid frame that shows each key frame of the source, in order, without repetition, at most
    /// [`KEYFRAMES_MAX`] and not more than about two a second.
    pub keyframes: Vec<u64>,
}

/// A sound track of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AudioStream {
    /// Its number among all streams of the source.
    pub index: u32,
    /// Its codec.
    pub codec: String,
    /// Channels.
    pub channels: u32,
    /// Its language as the source says it (`und` if it does not).
    pub language: String,
    /// Its title, if it has one.
    pub title: Option<String>,
}

/// Subtitles of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextStream {
    /// Its number among all streams of the source.
    pub index: u32,
    /// Its codec.
    pub codec: String,
    /// Its language as the source says it (`und` if it does not).
    pub language: String,
    /// Its title, if it has one.
    pub title: Option<String>,
}

impl TextStream {
    /// Whether it is text; others are pictures.
    pub fn is_text(&self) -> bool {
        TEXTS.contains(&self.codec.as_str())
    }
}

/// Why a source is refused, for the one who gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) String);

impl Refusal {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
