//! Who does it: the stages of a video in one table, and their handlers, one file each.
//!
//! `STAGES` is where the pipeline is declared. From it follow the handlers of a worker, what a plan spawns and in which
//! order, what is shown of a video's progress, and which failures a video survives. A new stage is a type and a row
//! here, its handler, the key of its result in [`crate::plan`], and its size in [`crate::estimate`].
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

use crate::estimate::Size;
use crate::fleet::Fleet;
use crate::keys::Key;
use crate::library::VideoId;
use crate::plan::Plan;
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
    worker(studio, |_| true).into_registry()
}

/// A worker with the handlers of these stages.
pub(crate) fn worker(studio: Studio, wanted: impl Fn(&Stage) -> bool) -> Worker {
    let worker = Worker::new("video").state(studio).on(publish::close);
    STAGES
        .iter()
        .filter(|stage| wanted(stage))
        .fold(worker, |worker, stage| (stage.handler)(worker))
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

/// A kind of task: what its worker needs, and how many minutes an attempt may take if its estimate does not say. One that
/// is `planned` follows from its plan; its fields are taken from the `Order`.
macro_rules! task {
    (
        $(#[$doc:meta])* $name:ident, $kind:literal, $output:ty, $needs:tt, $minutes:literal,
        planned { $($(#[$field_doc:meta])* $field:ident: $type:ty = $from:ident),* $(,)? }
    ) => {
        task!($(#[$doc])* $name, $kind, $output, $needs, $minutes, {
            /// Its plan.
            plan: BlobId,
            $($(#[$field_doc])* $field: $type,)*
        });

        impl From<Order> for $name {
            fn from(order: Order) -> Self {
                Self { video: order.video, plan: order.plan, $($field: order.$from),* }
            }
        }
    };
    (
        $(#[$doc:meta])* $name:ident, $kind:literal, $output:ty, [$($need:literal),*], $minutes:literal,
        { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Serialize, Deserialize)]
        pub struct $name {
            /// The video.
            pub video: VideoId,
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
        /// The address.
        url: String,
    }
);
task!(
    /// Finds out what a source holds.
    ProbeSource, "video.probe", Probe, ["ffmpeg"], 60, {
        /// The source; nothing if a [`Fetch`] before it brings it.
        source: Option<Blob>,
    }
);
task!(
    /// Decides what is to be done and spawns all of it.
    PlanVideo, "video.plan", BlobId, [], 10, {}
);
task!(
    /// Brings the sound into the form that speech recognition wants: 16 kHz, one channel.
    Pcm, "video.pcm", Made, ["ffmpeg"], 720, planned {}
);
task!(
    /// Lets a recogniser listen, and writes subtitles.
    Transcribe, "video.transcribe", Made, ["speech"], 720, planned {}
);
task!(
    /// Takes the subtitles that the source carries as text.
    Captions, "video.captions", Made, ["ffmpeg"], 720, planned {}
);
task!(
    /// Takes the thumbnails.
    Frames, "video.frames", Made, ["ffmpeg"], 720, planned {}
);
task!(
    /// Lets a scanner look at the thumbnails.
    ScanFrames, "video.scan", Made, ["scan"], 720, planned {}
);
task!(
    /// Puts the thumbnails on sheets.
    SpriteSheet, "video.sprite", Made, ["ffmpeg"], 60, planned {}
);
task!(
    /// Encodes one sound track.
    Audio, "video.audio", Made, ["ffmpeg"], 720, planned {
        /// The place of the track in the plan.
        track: u32 = place,
    }
);
task!(
    /// Encodes one chunk to the rungs that are missing, with one decode.
    Encode, "video.encode", Made, ["ffmpeg", "encoder.libx264"], 720, planned {
        /// The place of the chunk in the plan.
        chunk: u32 = place,
        /// The places of the rungs in the plan.
        rungs: Vec<u32> = rungs,
    }
);
task!(
    /// Joins the chunks of one rung and the sound to an MP4 file.
    Mux, "video.mux", Made, ["ffmpeg"], 720, planned {
        /// The place of the rung in the plan.
        rung: u32 = place,
    }
);
task!(
    /// Writes playlists and the manifest.
    Package, "video.package", Written, [], 60, planned {}
);
task!(
    /// Checks the whole before anyone sees it.
    Verify, "video.verify", Written, ["ffmpeg"], 60, planned {}
);
task!(
    /// Puts the finished video into the library.
    Publish, "video.publish", (), [], 10, {}
);
task!(
    /// Records why a video could not be made; runs when its workflow has ended with a failure.
    Close, "video.close", (), [], 10, {}
);

impl From<Order> for Publish {
    fn from(order: Order) -> Self {
        Self { video: order.video }
    }
}

/// A sort of tasks of a video, with all that has to be known of it.
#[derive(Debug)]
pub(crate) struct Stage {
    /// The kind of its tasks: `video.` and its name.
    pub(crate) kind: &'static str,
    /// What people call it.
    pub(crate) about: &'static str,
    /// Whether a video is published without it.
    pub(crate) is_optional: bool,
    /// The names of the stages, or groups, that it waits for.
    after: &'static [&'static str],
    /// What a plan wants of it, as far as it is missing.
    parts: fn(&Plan, &Missing<'_>) -> Vec<Part>,
    /// What holds for its tasks besides what holds for their kind.
    terms: fn(TaskOptions, &Plan, &Fleet) -> TaskOptions,
    /// Adds one of its tasks to the children of the plan.
    spawn: fn(&Spawner, Order, Change<'_>),
    /// Gives its handler to a worker.
    handler: fn(Worker) -> Worker,
}

/// Says whether there is no result under a key.
type Missing<'a> = dyn Fn(&Key) -> bool + 'a;
/// Adds to the options of a task.
type Change<'a> = &'a dyn Fn(TaskOptions) -> TaskOptions;

/// One task of a stage.
#[derive(Debug)]
struct Part {
    /// Its place among those of its stage.
    place: u32,
    /// The rungs that it makes, if it makes any.
    rungs: Vec<u32>,
    size: Size,
}

/// What a planned task is made of.
#[derive(Debug)]
struct Order {
    video: VideoId,
    plan: BlobId,
    place: u32,
    rungs: Vec<u32>,
}

impl Stage {
    /// A stage that comes before the plan.
    const fn first<T: Task>(about: &'static str, handler: fn(Worker) -> Worker) -> Self {
        Self {
            kind: T::KIND,
            about,
            is_optional: false,
            after: &[],
            parts: |_, _| Vec::new(),
            terms: |options, _, _| options,
            spawn: |_, _, _| unreachable!("no plan has parts of it"),
            handler,
        }
    }

    /// A stage that plans spawn.
    const fn planned<T: Task + From<Order>>(
        about: &'static str,
        handler: fn(Worker) -> Worker,
    ) -> Self {
        let spawn = |spawner: &Spawner, order: Order, change: Change<'_>| {
            spawner.spawn_with(T::from(order), change);
        };
        Self { spawn, ..Self::first::<T>(about, handler) }
    }

    /// Its name in every interface.
    pub(crate) fn name(&self) -> &'static str {
        self.kind.strip_prefix("video.").unwrap_or(self.kind)
    }

    /// The stage of a kind of tasks.
    pub(crate) fn of(kind: &str) -> Option<&'static Self> {
        STAGES.iter().find(|stage| stage.kind == kind)
    }
}

/// The group of the sound tracks and chunks, however many there are.
const STREAMS: &str = "streams";

/// The pipeline. Stages stand after those that they wait for; their tasks are spawned and shown in this order. What others
/// wait for in a row goes first.
pub(crate) static STAGES: [Stage; 15] = [
    Stage::first::<Fetch>("Fetch the source", |worker| worker.on(fetch::fetch)),
    Stage::first::<ProbeSource>("Look at the source", |w| w.on_process(probe::probe_source)),
    Stage::first::<PlanVideo>("Plan the work", |worker| worker.on(plan::plan_video)),
    Stage {
        is_optional: true,
        // The sound goes when the subtitles are there.
        parts: |plan, missing| one(plan.subtitles.as_ref(), missing, Size::pcm(plan)),
        ..Stage::planned::<Pcm>("Prepare the sound", |worker| worker.on_process(pcm::pcm))
    },
    Stage {
        is_optional: true,
        after: &["pcm"],
        parts: |plan, missing| one(plan.subtitles.as_ref(), missing, Size::transcribe(plan)),
        terms: |options, _, fleet| provided(options).needs([fleet.speech_need()]),
        ..Stage::planned::<Transcribe>("Write subtitles", |w| w.on_process(transcribe::transcribe))
    },
    Stage {
        is_optional: true,
        parts: |plan, missing| {
            one(plan.captions.as_ref().map(|found| &found.key), missing, Size::captions(plan))
        },
        ..Stage::planned::<Captions>("Carry subtitles over", |w| w.on_process(captions::captions))
    },
    Stage {
        is_optional: true,
        parts: |plan, missing| one(plan.frames.as_ref(), missing, Size::frames(plan)),
        ..Stage::planned::<Frames>("Take thumbnails", |worker| worker.on_process(frames::frames))
    },
    Stage {
        is_optional: true,
        after: &["frames"],
        parts: |plan, missing| one(plan.scan.as_ref(), missing, Size::scan(plan)),
        terms: |options, _, fleet| provided(options).needs([fleet.scanner_need()]),
        ..Stage::planned::<ScanFrames>("Scan the content", |w| w.on_process(scan::scan_frames))
    },
    Stage {
        is_optional: true,
        after: &["frames"],
        parts: |plan, missing| one(sprite::key(plan).as_ref(), missing, Size::sprite(plan)),
        ..Stage::planned::<SpriteSheet>("Lay out thumbnails", |w| {
            w.on_process(sprite::sprite_sheet)
        })
    },
    Stage {
        parts: |plan, missing| {
            let keys = plan.tracks.iter().map(|track| &track.key);
            many(keys, missing, |_| Size::audio(plan))
        },
        terms: |options, _, _| options.group(STREAMS),
        ..Stage::planned::<Audio>("Encode the sound", |worker| worker.on_process(audio::audio))
    },
    Stage {
        parts: chunks,
        terms: encode_terms,
        ..Stage::planned::<Encode>("Encode the picture", |w| w.on_process(encode::encode))
    },
    Stage {
        after: &[STREAMS],
        parts: |plan, missing| {
            many(plan.rungs.iter().map(|rung| &rung.mp4), missing, |rung| Size::mux(plan, rung))
        },
        ..Stage::planned::<Mux>("Write MP4 files", |worker| worker.on_process(mux::mux))
    },
    Stage {
        after: &["mux", STREAMS, "transcribe", "captions", "scan", "sprite"],
        parts: |plan, _| vec![Part { place: 0, rungs: Vec::new(), size: Size::package(plan) }],
        ..Stage::planned::<Package>("Package", |worker| worker.on(package::package))
    },
    Stage {
        after: &["package"],
        parts: |plan, _| vec![Part { place: 0, rungs: Vec::new(), size: Size::verify(plan) }],
        ..Stage::planned::<Verify>("Verify", |worker| worker.on_process(verify::verify))
    },
    Stage {
        after: &["verify"],
        parts: |_, _| vec![Part { place: 0, rungs: Vec::new(), size: Size::small() }],
        ..Stage::planned::<Publish>("Publish", |worker| worker.on(publish::publish))
    },
];

/// The one task of a stage, if it is wanted and missing.
fn one(key: Option<&Key>, missing: &Missing<'_>, size: Size) -> Vec<Part> {
    many(key.into_iter(), missing, |_| size.clone())
}

/// A task for each of these results that is missing.
fn many<'a>(
    keys: impl Iterator<Item = &'a Key>,
    missing: &Missing<'_>,
    size: impl Fn(u32) -> Size,
) -> Vec<Part> {
    let parts = (0..).zip(keys).filter(|(_, key)| missing(key));
    parts.map(|(place, _)| Part { place, rungs: Vec::new(), size: size(place) }).collect()
}

/// The chunks, each with the rungs that are missing.
fn chunks(plan: &Plan, missing: &Missing<'_>) -> Vec<Part> {
    let parts = (0..).zip(&plan.chunks).map(|(place, chunk)| {
        let rungs = (0..).zip(&chunk.keys).filter(|(_, key)| missing(key));
        let rungs: Vec<u32> = rungs.map(|(rung, _)| rung).collect();
        Part { place, size: Size::encode(plan, chunk, &rungs), rungs }
    });
    parts.filter(|part| !part.rungs.is_empty()).collect()
}

/// All chunks of a video must be of one build, or they could not be joined.
fn encode_terms(options: TaskOptions, plan: &Plan, fleet: &Fleet) -> TaskOptions {
    let mut needs = vec![fleet.ffmpeg_need(), "encoder.libx264".to_owned()];
    // Brightness of HDR is brought down by a filter that not every build has.
    needs.extend(plan.probe.video.hdr.then(|| "filter.zscale".to_owned()));
    options.group(STREAMS).needs(needs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_stands_after_what_it_waits_for_and_in_the_guides() {
        let guides = [
            include_str!("../../../../docs/guides/video.md"),
            include_str!("../../../../ARCHITECTURE.md"),
        ];
        for (at, stage) in STAGES.iter().enumerate() {
            for name in stage.after.iter().filter(|name| **name != STREAMS) {
                assert!(STAGES[..at].iter().any(|stage| stage.name() == *name), "{name}");
            }
            for guide in guides {
                assert!(guide.contains(stage.name()), "{} is not in a guide", stage.name());
            }
        }
    }
}
