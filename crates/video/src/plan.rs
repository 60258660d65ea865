//! What is to be done: rungs, chunks and tracks, decided once from probe and recipe, stored as a blob that every task
//! of the video reads.

use serde::{Deserialize, Serialize};

use crate::grid::Span;
use crate::keys::Key;
use crate::probe::Probe;
use crate::recipe::Recipe;

/// All decisions about one video.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What is there.
    pub probe: Probe,
    /// What is wanted.
    pub recipe: Recipe,
    /// The build of ffmpeg that all chunks are encoded with, as workers offer it: `ffmpeg=…`.
    pub tools: String,
    /// The renditions, largest first.
    pub rungs: Vec<Rung>,
    /// Frames of a segment: the distance of key frames.
    pub segment_frames: u32,
    /// The pieces, in order; each begins at a multiple of `segment_frames`.
    pub chunks: Vec<Chunk>,
    /// The sound tracks.
    pub tracks: Vec<Track>,
    /// Where the thumbnails' result is, if any are wanted.
    pub frames: Option<Key>,
    /// Where the subtitles' result is, if any are wanted and there is sound.
    pub subtitles: Option<Key>,
    /// Where the scan's result is, if one is wanted.
    pub scan: Option<Key>,
}

/// One rendition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rung {
    /// Its name, such as `720p`.
    pub name: String,
    /// Width in pixels, even.
    pub width: u32,
    /// Height in pixels, even.
    pub height: u32,
    /// The cap on bits per second.
    pub bitrate_max: u32,
    /// Where the result of its MP4 file is.
    pub mp4: Key,
}

/// One piece of the video.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Its frames.
    pub span: Span,
    /// Frames that must be decoded before the first one, because the source has no key frame there.
    pub lead_in: u64,
    /// Where the result of each rung is, in the order of the rungs.
    pub keys: Vec<Key>,
}

/// One sound track.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Track {
    /// The number of its stream in the source.
    pub index: u32,
    /// Its language.
    pub language: String,
    /// What a player calls it.
    pub name: String,
    /// Where its result is.
    pub key: Key,
}
