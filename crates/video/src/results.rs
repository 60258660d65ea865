//! What is never done twice: the results of tasks as records, and how they are looked up and committed.
//!
//! A result is written only after its blobs are stored, and only if there is none yet: of two attempts that did the
//! same work, the first to record it is believed, and both return that.

use std::iter::Sum;
use std::ops::Add;
use std::time::Duration;

use divvy::objects::{Blob, BlobId, ObjectError, Objects};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::keys::Key;
use crate::tools::Finished;

/// A chunk in one rung: fragments of an MP4 file that can be joined with those of its neighbours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Piece {
    /// The beginning of the file, the same for all chunks of a rung.
    pub init: Blob,
    /// The fragments, one after the other, timed from the beginning of the video.
    pub media: Blob,
    /// Each fragment is a segment of the playlist.
    pub fragments: Vec<Fragment>,
    /// Frames that are made up or show faults because the source is damaged there.
    #[serde(default)]
    pub repaired: u64,
    /// What it cost.
    pub cost: Cost,
}

/// A sound track: the same as a [`Piece`], for the whole length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sound {
    /// The beginning of the file.
    pub init: Blob,
    /// The fragments.
    pub media: Blob,
    /// Each fragment is a segment of the playlist.
    pub fragments: Vec<Fragment>,
    /// Samples per second.
    pub sample_rate: u32,
    /// Samples per channel that a player hears.
    pub samples: u64,
    /// The codec as a playlist says it, such as `mp4a.40.2`.
    pub codec: String,
    /// 1 if the source is damaged somewhere and that was passed over.
    #[serde(default)]
    pub repaired: u64,
    /// What it cost.
    pub cost: Cost,
}

/// A rung as one file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Joined {
    /// The MP4 file, with picture and all sound tracks.
    pub file: Blob,
    /// Its frames.
    pub frames: u64,
    /// What it cost.
    pub cost: Cost,
}

/// Where a fragment is in its blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fragment {
    /// Its first byte.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Frames, or sound samples, of it that a player shows.
    pub samples: u64,
}

/// One thumbnail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Still {
    /// When it is shown, in milliseconds from the beginning of the video.
    pub at_ms: u64,
    /// The picture, a JPEG.
    pub picture: Blob,
}

/// The thumbnails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stills {
    /// All of them, in order; at least one.
    pub stills: Vec<Still>,
    /// What they cost.
    pub cost: Cost,
}

/// The thumbnails on sheets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sprite {
    /// The sheets, JPEGs.
    pub sheets: Vec<Blob>,
    /// Which picture is where, as WebVTT; it names the sheets `sprite_000.jpg` and so on.
    pub index: Blob,
    /// The picture to show before the video plays, a JPEG.
    pub poster: Blob,
    /// What they cost.
    pub cost: Cost,
}

/// Sound for speech recognition.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pcm {
    /// A WAV file with 16 kHz, one channel and 16 bits; it begins with the picture.
    pub sound: Blob,
    /// Its samples.
    pub samples: u64,
    /// What it cost.
    pub cost: Cost,
}

/// What the sound says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Transcript {
    /// Who heard it, such as `whisper tiny.en 1.2.1`.
    pub provider: String,
    /// The language.
    pub language: String,
    /// The subtitles as WebVTT.
    pub subtitles: Blob,
    /// How many cues they have.
    pub cues: u32,
    /// What it cost.
    pub cost: Cost,
}

/// The subtitles that a source carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Captions {
    /// One entry per track, in the order of the plan.
    pub tracks: Vec<Caption>,
    /// What they cost.
    pub cost: Cost,
}

/// One track of subtitles that a source carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Caption {
    /// The subtitles as WebVTT.
    pub subtitles: Blob,
    /// How many cues they have.
    pub cues: u32,
}

/// What the frames show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scan {
    /// Who looked, such as `open_nsfw 0.1.0`.
    pub provider: String,
    /// Frames that were looked at.
    pub frames: u32,
    /// The highest score.
    pub highest: f64,
    /// The scores of all frames.
    pub scores: Vec<Score>,
    /// What it cost.
    pub cost: Cost,
}

/// What a scanner says about one frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Score {
    /// When it is shown.
    pub at_ms: u64,
    /// What was looked for.
    pub label: String,
    /// From 0 to 1.
    pub score: f64,
}

/// What a result cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Time on processors.
    pub cpu_ms: u64,
    /// Time on the clock.
    pub wall_ms: u64,
}

impl Cost {
    /// What a run of a program cost.
    pub fn of(finished: &Finished) -> Self {
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self { cpu_ms: millis(finished.cpu), wall_ms: millis(finished.wall) }
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            cpu_ms: self.cpu_ms.saturating_add(other.cpu_ms),
            wall_ms: self.wall_ms.saturating_add(other.wall_ms),
        }
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

/// The result under a key, if there is one.
pub async fn find<T: DeserializeOwned>(
    objects: &Objects,
    source: BlobId,
    key: &Key,
) -> Result<Option<T>, ObjectError> {
    Ok(objects.record(&key.record(source)).await?.map(|record| record.value))
}

/// Records a result whose blobs are stored; returns the one that holds, which is an earlier one if there is any.
pub async fn commit<T: Serialize + DeserializeOwned>(
    objects: &Objects,
    source: BlobId,
    key: &Key,
    result: T,
) -> Result<T, ObjectError> {
    if objects.create_record(&key.record(source), &result).await? {
        return Ok(result);
    }
    Ok(find(objects, source, key).await?.unwrap_or(result))
}
