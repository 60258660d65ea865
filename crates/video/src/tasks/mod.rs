//! Who does it: the tasks of a video and their handlers, one file each.
//!
//! Every handler looks for its result first and returns it if there is one, so that a task that runs again costs nothing.
//!
//! A workflow begins with [`Fetch`] (if there is an address), [`ProbeSource`] and [`PlanVideo`], which spawns the rest;
//! [`Close`] runs if one of them fails.

mod audio;
mod captions;
#[cfg(test)]
#[path = "../../tests/video/corpus/mod.rs"]
mod corpus;
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

use std::time::Instant;

pub(crate) use plan::{planned, urgency};

use divvy::objects::{Blob, BlobId};
use divvy::prelude::*;
use divvy::types::{ErrorClass, RetryPolicy, RetryRule};

use crate::library::VideoId;
use crate::probe::Probe;
use crate::results::Cost;
use crate::studio::Studio;
use crate::tools::STOPPED;

/// The queue of all video tasks.
pub const QUEUE: &str = "video";

/// The capability of workers that recognise speech; its value names the provider and its model.
pub const SPEECH: &str = "speech";

/// The capability of workers that scan frames; its value names the provider and its model.
pub const SCANNER: &str = "scan";

/// All handlers of a worker that makes videos.
///
/// # Errors
/// Never in practice: only a kind that is registered twice would be one.
pub fn registry(studio: Studio) -> Result<divvy::Registry, divvy::WorkerError> {
    worker(studio).into_registry()
}

/// Those that run programs are on the process tier, one per slot.
fn worker(studio: Studio) -> Worker {
    bookkeeping(studio)
        .on(package::package)
        .on_process(probe::probe_source)
        .on_process(encode::encode)
        .on_process(audio::audio)
        .on_process(frames::frames)
        .on_process(sprite::sprite_sheet)
        .on_process(scan::scan_frames)
        .on_process(captions::captions)
        .on_process(pcm::pcm)
        .on_process(transcribe::transcribe)
        .on_process(mux::mux)
        .on_process(verify::verify)
}

/// Those that only move data and records.
pub(crate) fn bookkeeping(studio: Studio) -> Worker {
    Worker::new("video")
        .state(studio)
        .on(fetch::fetch)
        .on(plan::plan_video)
        .on(publish::publish)
        .on(publish::close)
}

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

/// What a task returns that wrote or checked a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The manifest's blob.
    pub manifest: BlobId,
    /// What it cost. Its time on processors is not measured apart: it counts as the time on the clock.
    pub cost: Cost,
}

impl Written {
    /// A manifest on which work began then.
    pub(crate) fn since(began: Instant, manifest: BlobId) -> Self {
        // What took less than a millisecond took some time all the same, and nothing would mean that nothing is known.
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        Self { manifest, cost: Cost { cpu_ms: ms, wall_ms: ms } }
    }
}

/// What every video task has in common. A task that failed on a worker goes to another one if there is one, so a few
/// attempts are enough. What no attempt can cure is dead at once.
fn options(needs: &[&'static str], minutes: u64) -> TaskOptions {
    let policy = RetryPolicy { limit: 3, base_ms: 1_000, cap_ms: 10_000, ..RetryPolicy::default() };
    TaskOptions::new()
        .queue(QUEUE)
        .needs(needs.iter().copied())
        .retry(policy)
        .timeout(Duration::from_secs(minutes * 60))
}

/// What holds for the tasks of providers besides: the video goes on without them, so they have fewer attempts. One that
/// was stopped by a limit has used all of its time, and will hardly do better: it has one more.
pub(crate) fn provided(options: TaskOptions) -> TaskOptions {
    let once = |rule: RetryRule| RetryRule { limit: Some(1), ..rule };
    options
        .retries(3)
        .retry_rule(once(RetryRule { class: Some(ErrorClass::Timeout), ..RetryRule::default() }))
        .retry_rule(once(RetryRule { contains: Some(STOPPED.into()), ..RetryRule::default() }))
}

/// A kind of task: what its worker needs, and how many minutes an attempt may take if its estimate does not say.
macro_rules! task {
    (
        $(#[$doc:meta])* $name:ident, $kind:literal, $output:ty, [$($need:literal),*], $minutes:literal,
        { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Serialize, Deserialize)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Task for $name {
            const KIND: &'static str = $kind;
            type Output = $output;
            fn options() -> TaskOptions {
                options(&[$($need),*], $minutes)
            }
        }
    };
}

task!(
    /// Brings a source here from its address.
    Fetch, "video.fetch", Blob, [], 720, {
        /// The video.
        video: VideoId,
        /// The address.
        url: String,
    }
);
task!(
    /// Finds out what a source holds.
    ProbeSource, "video.probe", Probe, ["ffmpeg"], 60, {
        /// The video.
        video: VideoId,
        /// The source; nothing if a [`Fetch`] before it brings it.
        source: Option<Blob>,
    }
);
task!(
    /// Decides what is to be done and spawns all of it.
    PlanVideo, "video.plan", BlobId, [], 10, {
        /// The video.
        video: VideoId,
    }
);
task!(
    /// Encodes one chunk to the rungs that are missing, with one decode.
    Encode, "video.encode", Made, ["ffmpeg", "encoder.libx264"], 720, {
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
    Audio, "video.audio", Made, ["ffmpeg"], 720, {
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
    Frames, "video.frames", Made, ["ffmpeg"], 720, {
        /// The video.
        video: VideoId,
        /// Its plan.
        plan: BlobId,
    }
);
task!(
    /// Puts the thumbnails on sheets.
    SpriteSheet, "video.sprite", Made, ["ffmpeg"], 60, {
        /// The video.
        video: VideoId,
        /// Its plan.
        plan: BlobId,
    }
);
task!(
    /// Lets a scanner look at the thumbnails.
    ScanFrames, "video.scan", Made, ["scan"], 720, {
        /// The video.
        video: VideoId,
        /// Its plan.
        plan: BlobId,
    }
);
task!(
    /// Takes the subtitles that the source carries as text.
    Captions, "video.captions", Made, ["ffmpeg"], 720, {
        /// The video.
        video: VideoId,
        /// Its plan.
        plan: BlobId,
    }
);
task!(
    /// Brings the sound into the form that speech recognition wants: 16 kHz, one channel.
    Pcm, "video.pcm", Made, ["ffmpeg"], 720, {
        /// The video.
        video: VideoId,
        /// Its plan.
        plan: BlobId,
    }
);
task!(
    /// Lets a recogniser listen, and writes subtitles.
    Transcribe, "video.transcribe", Made, ["speech"], 720, {
        /// The video.
        video: VideoId,
        /// Its plan.
        plan: BlobId,
    }
);
task!(
    /// Joins the chunks of one rung and the sound to an MP4 file.
    Mux, "video.mux", Made, ["ffmpeg"], 720, {
        /// The video.
        video: VideoId,
        /// Its plan.
        plan: BlobId,
        /// The place of the rung in the plan.
        rung: u32,
    }
);
task!(
    /// Writes playlists and the manifest.
    Package, "video.package", Written, [], 60, {
        /// The video.
        video: VideoId,
        /// Its plan.
        plan: BlobId,
    }
);
task!(
    /// Checks the whole before anyone sees it.
    Verify, "video.verify", Written, ["ffmpeg"], 60, {
        /// The video.
        video: VideoId,
        /// Its plan.
        plan: BlobId,
    }
);
task!(
    /// Puts the finished video into the library.
    Publish, "video.publish", (), [], 10, {
        /// The video.
        video: VideoId,
    }
);
task!(
    /// Records why a video could not be made; runs when its workflow has ended with a failure.
    Close, "video.close", (), [], 10, {
        /// The video.
        video: VideoId,
    }
);
