//! Decides what is to be done and spawns it: only what has no result yet.
//!
//! What the plan itself looks like is decided by [`Plan::new`]; this decides which tasks follow from it, in which order
//! and under which terms. The ids of the tasks follow from the workflow and their parts, so that the library knows
//! which task is which without asking.

use std::collections::BTreeSet;

use divvy::objects::BlobId;
use divvy::prelude::*;
use divvy::types::{TaskId, Timestamp, WorkflowId};

use super::{
    Audio, Captions, Encode, Frames, Mux, Package, Pcm, PlanVideo, ProbeSource, Publish,
    ScanFrames, SpriteSheet, Transcribe, Verify, provided,
};
use crate::estimate::{self, Estimates, Size};
use crate::fleet::Fleet;
use crate::keys::results_of;
use crate::library::{Video, VideoId, records};
use crate::plan::Plan;
use crate::studio::{Studio, failure};

/// The group of the sound tracks and chunks, however many there are.
const STREAMS: &str = "streams";
/// A worker on another machine copies the source before it begins. That may be as slow as this, in bytes a second, and
/// goes on where it was in the next attempt.
const COPY_BYTES_MIN: u64 = 1_000_000;

/// Makes the plan of a video and spawns its tasks.
pub(crate) async fn plan_video(
    task: PlanVideo,
    State(studio): State<Studio>,
    Upstream(probe): Upstream<ProbeSource>,
    attempt: Attempt,
    spawner: Spawner,
) -> Outcome<BlobId> {
    let objects = studio.objects();
    let Some(workflow) = attempt.workflow else {
        return Err(Failure::dead("a video is planned as a part of its workflow only"));
    };
    let video = records::current(objects, &task.video, attempt.workflow).await?;
    let fleet = Fleet::look(&studio).await?;
    let source = probe.source;
    let plan =
        Plan::new(probe, &video.recipe, &fleet.build, &fleet.providers).map_err(Failure::dead)?;
    let made = objects.record_names(&results_of(source.id)).await.map_err(failure)?;
    let made: BTreeSet<String> = made.into_iter().map(String::from).collect();
    let estimates = objects.record::<Estimates>(estimate::RECORD).await.map_err(failure)?;
    let estimates = estimates.map(|record| record.value).unwrap_or_default();
    let bytes = serde_json::to_vec(&plan)?;
    let blob = objects.put(bytes).await.map_err(failure)?;
    let missing = Missing::of(&plan, &made);
    let length_ms = plan.probe.video.rate.micros(plan.probe.video.frames) / 1_000;
    let terms = Terms {
        video: &video,
        plan_id: blob.id,
        plan: &plan,
        fleet: &fleet,
        estimates: &estimates,
        root: workflow.to_string(),
    };
    let cpu = terms.spawn(&missing, &spawner);
    records::claim_content(objects, source.id, &video).await?;
    let cpu_ms = u64::try_from(cpu.as_millis()).unwrap_or(u64::MAX);
    records::change(objects, &task.video, attempt.workflow, |video| {
        video.source = Some(source);
        video.plan = Some(blob.id);
        video.length_ms = Some(length_ms);
        video.estimated_cpu_ms = Some(cpu_ms);
    })
    .await?;
    Ok(blob.id)
}

/// Every task that the plan of a workflow may have spawned, with its size.
pub(crate) fn planned(plan: &Plan, workflow: WorkflowId) -> Vec<(TaskId, Size)> {
    let root = workflow.to_string();
    let rungs: Vec<u32> = places(plan.rungs.len()).collect();
    let mut tasks = vec![
        (child_id(&root, "frames", 0), Size::frames(plan)),
        (child_id(&root, "sprite", 0), Size::sprite(plan)),
        (child_id(&root, "scan", 0), Size::scan(plan)),
        (child_id(&root, "captions", 0), Size::captions(plan)),
        (child_id(&root, "pcm", 0), Size::pcm(plan)),
        (child_id(&root, "transcribe", 0), Size::transcribe(plan)),
        (child_id(&root, "package", 0), Size::package(plan)),
        (child_id(&root, "verify", 0), Size::verify(plan)),
        (child_id(&root, "publish", 0), Size::small()),
    ];
    for (place, chunk) in places(plan.chunks.len()).zip(&plan.chunks) {
        tasks.push((child_id(&root, "encode", place), Size::encode(plan, chunk, &rungs)));
    }
    for place in places(plan.tracks.len()) {
        tasks.push((child_id(&root, "audio", place), Size::audio(plan)));
    }
    for place in rungs {
        tasks.push((child_id(&root, "mux", place), Size::mux(plan, place)));
    }
    tasks
}

/// What has no result yet.
#[derive(Debug, PartialEq, Eq)]
struct Missing {
    /// Chunks, and their rungs.
    encodes: Vec<(u32, Vec<u32>)>,
    tracks: Vec<u32>,
    files: Vec<u32>,
    frames: bool,
    sprite: bool,
    scan: bool,
    subtitles: bool,
    captions: bool,
}

impl Missing {
    fn of(plan: &Plan, made: &BTreeSet<String>) -> Self {
        let source = plan.probe.source.id;
        let is_missing = |key: &crate::keys::Key| !made.contains(&key.record(source));
        let encodes = places(plan.chunks.len()).zip(&plan.chunks).filter_map(|(place, chunk)| {
            let rungs = places(chunk.keys.len()).zip(&chunk.keys);
            let rungs: Vec<u32> =
                rungs.filter(|(_, key)| is_missing(key)).map(|(rung, _)| rung).collect();
            (!rungs.is_empty()).then_some((place, rungs))
        });
        let tracks = places(plan.tracks.len()).zip(&plan.tracks);
        let files = places(plan.rungs.len()).zip(&plan.rungs);
        Self {
            encodes: encodes.collect(),
            tracks: tracks.filter(|(_, track)| is_missing(&track.key)).map(|(at, _)| at).collect(),
            files: files.filter(|(_, rung)| is_missing(&rung.mp4)).map(|(at, _)| at).collect(),
            frames: plan.frames.as_ref().is_some_and(is_missing),
            sprite: super::sprite::key(plan).is_some_and(|key| is_missing(&key)),
            scan: plan.scan.as_ref().is_some_and(is_missing),
            subtitles: plan.subtitles.as_ref().is_some_and(is_missing),
            captions: plan.captions.as_ref().is_some_and(|captions| is_missing(&captions.key)),
        }
    }
}

/// What the tasks of one video share.
struct Terms<'a> {
    video: &'a Video,
    plan_id: BlobId,
    plan: &'a Plan,
    fleet: &'a Fleet,
    estimates: &'a Estimates,
    root: String,
}

impl Terms<'_> {
    /// Spawns everything; says how much time on processors it is expected to take. What others wait for in a row goes
    /// first, then the longest chunks, so that short ones fill the end.
    fn spawn(&self, missing: &Missing, spawner: &Spawner) -> Duration {
        let (video, plan) = (self.id(), self.plan_id);
        let mut batch = Spawned { terms: self, spawner, cpu: Duration::ZERO };
        let mut optional = Vec::new();
        if missing.subtitles {
            let pcm =
                batch.add("pcm", 0, Pcm { video: video.clone(), plan }, &Size::pcm(self.plan), &[]);
            let task = Transcribe { video: video.clone(), plan };
            let needs = self.fleet.speech_need();
            optional.push(batch.add_with(
                "transcribe",
                0,
                task,
                &Size::transcribe(self.plan),
                |options| after(provided(options).needs([needs]), &[pcm]),
            ));
        }
        if missing.captions {
            let task = Captions { video: video.clone(), plan };
            optional.push(batch.add("captions", 0, task, &Size::captions(self.plan), &[]));
        }
        let mut frames = Vec::new();
        if missing.frames {
            let task = Frames { video: video.clone(), plan };
            frames.push(batch.add("frames", 0, task, &Size::frames(self.plan), &[]));
        }
        if missing.scan {
            let task = ScanFrames { video: video.clone(), plan };
            let needs = self.fleet.scanner_need();
            optional.push(batch.add_with("scan", 0, task, &Size::scan(self.plan), |options| {
                after(provided(options).needs([needs]), &frames)
            }));
        }
        let mut required = Vec::new();
        if missing.sprite {
            let task = SpriteSheet { video: video.clone(), plan };
            optional.push(batch.add("sprite", 0, task, &Size::sprite(self.plan), &frames));
        }
        batch.add_streams(missing);
        for rung in missing.files.iter().copied() {
            let task = Mux { video: video.clone(), plan, rung };
            let size = Size::mux(self.plan, rung);
            required.push(
                batch.add_with("mux", rung, task, &size, |options| options.after_group(STREAMS)),
            );
        }
        let task = Package { video: video.clone(), plan };
        let package = batch.add_with("package", 0, task, &Size::package(self.plan), |options| {
            let options = after(options, &required).after_group(STREAMS);
            optional.iter().copied().fold(options, TaskOptions::after_optional)
        });
        let task = Verify { video: video.clone(), plan };
        let verify = batch.add("verify", 0, task, &Size::verify(self.plan), &[package]);
        batch.add("publish", 0, Publish { video }, &Size::small(), &[verify]);
        batch.cpu
    }

    fn id(&self) -> VideoId {
        self.video.id.clone()
    }
}

/// The tasks that were spawned so far.
struct Spawned<'a> {
    terms: &'a Terms<'a>,
    spawner: &'a Spawner,
    cpu: Duration,
}

impl Spawned<'_> {
    /// Sound tracks, then chunks, longest first.
    fn add_streams(&mut self, missing: &Missing) {
        let Terms { plan, plan_id, estimates, fleet, .. } = *self.terms;
        for track in missing.tracks.iter().copied() {
            let task = Audio { video: self.terms.id(), plan: plan_id, track };
            self.add_with("audio", track, task, &Size::audio(plan), |options| {
                options.group(STREAMS)
            });
        }
        let mut encodes: Vec<(Size, u32, &Vec<u32>)> = missing
            .encodes
            .iter()
            .map(|(chunk, rungs)| {
                (Size::encode(plan, &plan.chunks[*chunk as usize], rungs), *chunk, rungs)
            })
            .collect();
        encodes
            .sort_by_key(|(size, chunk, _)| (std::cmp::Reverse(estimates.expected(size)), *chunk));
        for (size, chunk, rungs) in encodes {
            let rungs = rungs.clone();
            let task = Encode { video: self.terms.id(), plan: plan_id, chunk, rungs };
            let mut needs = vec![fleet.ffmpeg_need(), "encoder.libx264".to_owned()];
            // Brightness of HDR is brought down by a filter that not every build has.
            needs.extend(plan.probe.video.hdr.then(|| "filter.zscale".to_owned()));
            self.add_with("encode", chunk, task, &size, |options| {
                options.group(STREAMS).needs(needs)
            });
        }
    }

    fn add<T: Task>(
        &mut self,
        part: &str,
        place: u32,
        task: T,
        size: &Size,
        parents: &[TaskId],
    ) -> TaskId {
        self.add_with(part, place, task, size, |options| after(options, parents))
    }

    fn add_with<T: Task>(
        &mut self,
        part: &str,
        place: u32,
        task: T,
        size: &Size,
        change: impl FnOnce(TaskOptions) -> TaskOptions,
    ) -> TaskId {
        let Terms { video, plan, estimates, root, .. } = self.terms;
        let expected = estimates.expected(size);
        self.cpu += expected;
        let id = child_id(root, part, place);
        let source = plan.probe.source.id;
        let copying = Duration::from_millis(plan.probe.source.size / (COPY_BYTES_MIN / 1_000));
        let child = self.spawner.spawn_with(task, |options| {
            let options = options
                .id(id)
                .affinity(source.to_string())
                .cost_hint(u64::try_from(expected.as_millis()).unwrap_or(u64::MAX))
                .timeout(estimates.time_limit(size) + copying);
            change(urgency(options, video))
        });
        child.id()
    }
}

/// The priority and the deadline of a video on one of its tasks.
pub(crate) fn urgency(options: TaskOptions, video: &Video) -> TaskOptions {
    let options = options.priority(video.priority);
    match video.deadline {
        Some(at) => options.deadline_at(Timestamp(at)),
        None => options,
    }
}

fn after(options: TaskOptions, parents: &[TaskId]) -> TaskOptions {
    parents.iter().copied().fold(options, TaskOptions::after)
}

fn child_id(root: &str, part: &str, place: u32) -> TaskId {
    TaskId::from_key(&format!("{root}/{part}/{place}"))
}

fn places(count: usize) -> std::ops::Range<u32> {
    0..u32::try_from(count).unwrap_or(u32::MAX)
}
