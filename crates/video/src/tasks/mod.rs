//! Who does it: the tasks of a video and their handlers, one file each.
//!
//! Every handler looks for its result first and returns it if there is one, so that a task that runs again costs nothing.

mod audio;
mod encode;
mod fetch;
#[cfg(test)]
pub(crate) mod fixtures;
mod frames;
mod mux;
mod package;
mod pcm;
mod plan;
mod probe;
mod publish;
mod scan;
mod sprite;
mod transcribe;
mod verify;

use divvy::objects::{Blob, BlobId};
use divvy::prelude::*;

use crate::library::VideoId;
use crate::probe::Probe;
use crate::results::Cost;

/// The queue of all video tasks.
pub const QUEUE: &str = "video";

/// What a task that made data returns: the data itself is recorded under its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// Frames, samples or pictures.
    pub units: u64,
    /// Bytes that were stored.
    pub bytes: u64,
    /// What it cost; nothing if it was there already.
    pub cost: Cost,
    /// Whether it was there already.
    pub known: bool,
}

macro_rules! task {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $output:ty, { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Serialize, Deserialize)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Task for $name {
            const KIND: &'static str = $kind;
            type Output = $output;
            fn options() -> TaskOptions {
                TaskOptions::new().queue(QUEUE).retries(3)
            }
        }
    };
}

task!(
    /// Brings a source here from its address.
    Fetch, "video.fetch", Blob, {
        /// The video.
        video: VideoId,
        /// The address.
        url: String,
    }
);
task!(
    /// Finds out what a source holds.
    ProbeSource, "video.probe", Probe, {
        /// The video.
        video: VideoId,
        /// The source; nothing if a [`Fetch`] before it brings it.
        source: Option<Blob>,
    }
);
task!(
    /// Decides what is to be done and spawns all of it.
    PlanVideo, "video.plan", BlobId, {
        /// The video.
        video: VideoId,
    }
);
task!(
    /// Encodes one chunk to the rungs that are missing, with one decode.
    Encode, "video.encode", Made, {
        /// The video.
        video: VideoId,
        /// Its plan.
        plan: BlobId,
        /// The place of the chunk in the plan.
        chunk: u32,
        /// The places of the rungs in the plan.
        rungs: Vec<u32>,
    }
);
task!(
    /// Encodes one sound track.
    Audio, "video.audio", Made, {
        /// The video.
        video: VideoId,
        /// Its plan.
        plan: BlobId,
        /// The place of the track in the plan.
        track: u32,
    }
);
task!(
    /// Takes the thumbnails.
    Frames, "video.frames", Made, {
        /// The video.
        video: VideoId,
        /// Its plan.
        plan: BlobId,
    }
);
task!(
    /// Puts the thumbnails on sheets.
    SpriteSheet, "video.sprite", Made, {
        /// The video.
        video: VideoId,
        /// Its plan.
        plan: BlobId,
    }
);
task!(
    /// Lets a scanner look at the thumbnails.
    ScanFrames, "video.scan", Made, {
        /// The video.
        video: VideoId,
        /// Its plan.
        plan: BlobId,
    }
);
task!(
    /// Brings the sound into the form that speech recognition wants: 16 kHz, one channel.
    Pcm, "video.pcm", Made, {
        /// The video.
        video: VideoId,
        /// Its plan.
        plan: BlobId,
    }
);
task!(
    /// Lets a recogniser listen, and writes subtitles.
    Transcribe, "video.transcribe", Made, {
        /// The video.
        video: VideoId,
        /// Its plan.
        plan: BlobId,
    }
);
task!(
    /// Joins the chunks of one rung and the sound to an MP4 file.
    Mux, "video.mux", Made, {
        /// The video.
        video: VideoId,
        /// Its plan.
        plan: BlobId,
        /// The place of the rung in the plan.
        rung: u32,
    }
);
task!(
    /// Writes playlists and the manifest; returns the manifest's blob.
    Package, "video.package", BlobId, {
        /// The video.
        video: VideoId,
        /// Its plan.
        plan: BlobId,
    }
);
task!(
    /// Checks the whole before anyone sees it; returns the manifest's blob.
    Verify, "video.verify", BlobId, {
        /// The video.
        video: VideoId,
        /// Its plan.
        plan: BlobId,
    }
);
task!(
    /// Puts the finished video into the library.
    Publish, "video.publish", (), {
        /// The video.
        video: VideoId,
    }
);
task!(
    /// Records why a video could not be made; runs when its workflow has ended with a failure.
    Close, "video.close", (), {
        /// The video.
        video: VideoId,
    }
);
