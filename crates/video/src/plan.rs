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

impl Plan {
    /// A stand-in until the planner is merged: all rungs below the source's height, chunks of 24 seconds.
    pub fn new(
        probe: Probe,
        recipe: &Recipe,
        tools: &str,
        speech: Option<&str>,
        scanner: Option<&str>,
    ) -> Self {
        let source = probe.source.id;
        let rate = probe.video.rate;
        let segment_frames = (rate.per_second() * f64::from(recipe.segment_ms) / 1_000.0) as u32;
        let rungs: Vec<Rung> = recipe
            .ladder
            .iter()
            .filter(|height| **height <= probe.video.height)
            .map(|height| Rung {
                name: format!("{height}p"),
                width: height * 16 / 9 / 2 * 2,
                height: *height,
                bitrate_max: 1_000_000,
                mp4: Key::of("mp4", source, &(height, &recipe.preset)),
            })
            .collect();
        let step = u64::from(segment_frames) * 12;
        let chunks = (0..probe.video.frames.div_ceil(step)).map(|place| {
            let (from, to) = (place * step, ((place + 1) * step).min(probe.video.frames));
            let keys = rungs.iter().map(|rung| Key::of("encode", source, &(from, to, rung.height)));
            Chunk { span: Span { from, to }, lead_in: 0, keys: keys.collect() }
        });
        let tracks = probe.audio.iter().map(|stream| Track {
            index: stream.index,
            language: stream.language.clone(),
            name: stream.language.clone(),
            key: Key::of("audio", source, &stream.index),
        });
        Self {
            chunks: chunks.collect(),
            tracks: tracks.collect(),
            segment_frames,
            tools: tools.to_owned(),
            frames: (recipe.thumbnails_ms > 0)
                .then(|| Key::of("frames", source, &recipe.thumbnails_ms)),
            subtitles: speech
                .filter(|_| recipe.subtitles.is_some())
                .map(|by| Key::of("subtitles", source, &by)),
            scan: scanner.filter(|_| recipe.scan).map(|by| Key::of("scan", source, &by)),
            recipe: recipe.clone(),
            rungs,
            probe,
        }
    }
}
