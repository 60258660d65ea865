//! What comes out: every file of a video with its hash, and what is known about it.

use divvy::objects::BlobId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::probe::Probe;
use crate::recipe::Recipe;
use crate::results::{Cost, Scan};

/// Everything about a finished video; also its file `manifest.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// The source.
    pub probe: Probe,
    /// What was wanted.
    pub recipe: Recipe,
    /// The build of the encoder.
    pub tools: String,
    /// Frames of each rendition.
    pub frames: u64,
    /// Length of the picture in milliseconds.
    pub duration_ms: u64,
    /// The renditions, largest first.
    pub renditions: Vec<Rendition>,
    /// The sound tracks.
    pub tracks: Vec<TrackEntry>,
    /// How the subtitles went that are written by listening.
    pub subtitles: Part,
    /// How the subtitles went that the source carries.
    #[serde(default)]
    pub captions: Part,
    /// How thumbnails and poster went.
    #[serde(default)]
    pub thumbnails: Part,
    /// The tracks of subtitles.
    #[serde(default)]
    pub texts: Vec<TextEntry>,
    /// How the scan went.
    pub scan: Part,
    /// What the scan found, if it was done.
    pub findings: Option<Scan>,
    /// Whether a person must look at it before it is shown.
    pub needs_review: bool,
    /// Frames that are not as they were because the source is damaged: made up, or showing faults, those included that
    /// refer to a damaged one. More than none makes the video degraded.
    #[serde(default)]
    pub repaired: u64,
    /// Sound tracks of which damaged places were passed over; these make it degraded too.
    #[serde(default)]
    pub repaired_tracks: u64,
    /// What else people should know, such as subtitles that could not be carried over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The files.
    pub files: Vec<FileEntry>,
    /// What all of it cost, as far as it was made for this video or for one before it.
    pub cost: Cost,
}

impl Manifest {
    /// What is not as it was because the source is damaged, in words.
    pub fn damage(&self) -> Option<String> {
        let frames = match self.repaired {
            0 => None,
            1 => Some("1 frame is made up or shows faults".to_owned()),
            count => Some(format!("{count} frames are made up or show faults")),
        };
        let tracks = match self.repaired_tracks {
            0 => None,
            1 => Some("1 sound track has damaged places".to_owned()),
            count => Some(format!("{count} sound tracks have damaged places")),
        };
        let words: Vec<String> = frames.into_iter().chain(tracks).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

/// One rendition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rendition {
    /// Its name, such as `720p`.
    pub name: String,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Frames.
    pub frames: u64,
    /// Mean bits per second.
    pub bitrate: u64,
    /// Bytes of its segments.
    pub bytes: u64,
}

/// One sound track.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrackEntry {
    /// Its language.
    pub language: String,
    /// What a player calls it.
    pub name: String,
    /// Samples per channel.
    pub samples: u64,
    /// Samples per second.
    pub sample_rate: u32,
}

/// One track of subtitles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextEntry {
    /// Its language.
    pub language: String,
    /// What a player calls it.
    pub name: String,
    /// Its file, such as `subs/de.vtt`.
    pub path: String,
    /// Where it comes from.
    pub origin: Origin,
}

impl Origin {
    /// Where that is, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::File => "from a file",
            Self::Source => "from the source",
            Self::Provider => "by listening",
        }
    }
}

/// Where subtitles come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A file that was given with the video.
    File,
    /// The source carries them.
    Source,
    /// A provider has listened.
    Provider,
}

/// How an optional part went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Part {
    /// It is there.
    Done {
        /// Who made it.
        provider: String,
    },
    /// It was not asked for, or there was nobody to do it.
    Skipped {
        /// Why.
        reason: String,
    },
    /// It was tried.
    Failed {
        /// Why it failed.
        reason: String,
    },
}

impl Default for Part {
    fn default() -> Self {
        Self::Skipped { reason: "not asked for".to_owned() }
    }
}

/// A file: a blob, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileEntry {
    /// Its path, such as `v/720p/seg_00001.m4s`.
    pub path: String,
    /// The blob with its bytes.
    pub blob: BlobId,
    /// Its first byte in the blob.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
}
