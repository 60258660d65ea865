//! The end of a video: in the library, or with a reason why not.

use divvy::objects::Record;
use divvy::prelude::*;
use divvy::types::view::{TaskDetail, TaskSummary, WorkflowTask};
use divvy::types::{TaskState, WorkflowId};

use super::pcm;
use super::plan::planned;
use super::{Close, Encode, Made, Publish, Stage, Verify, Written};
use crate::estimate::{self, Estimates, Size};
use crate::library::{Video, VideoId, VideoState, now, records};
use crate::manifest::{Manifest, Part};
use crate::plan::Plan;
use crate::studio::{Studio, failure};

/// Finished tasks that are asked what they took.
const SAMPLES_MAX: usize = 256;

/// Puts the finished video into the library.
pub(crate) async fn publish(
    task: Publish,
    State(studio): State<Studio>,
    Upstream(written): Upstream<Verify>,
    attempt: Attempt,
) -> Outcome<()> {
    let (objects, manifest_id) = (studio.objects(), written.manifest);
    let bytes = objects.get(manifest_id).await.map_err(failure)?;
    let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|error| {
        Failure::dead(format_args!("manifest {manifest_id} cannot be read: {error}"))
    })?;
    let (state, reason) = verdict(&manifest);
    let has_poster = manifest.files.iter().any(|file| file.path == "poster.jpg");
    records::change(objects, &task.video, attempt.workflow, |video| {
        video.state = state;
        video.reason.clone_from(&reason);
        video.manifest = Some(manifest_id);
        video.has_poster = has_poster;
        video.ended_at = Some(now());
    })
    .await?;
    forget_sound(&studio, &task.video).await;
    // The video is there whether or not anything is learnt from it.
    if let Err(problem) = learn(&studio, &task, attempt.workflow).await {
        tracing::warn!(video = task.video.0, %problem, "nothing was learnt from a video");
    }
    Ok(())
}

/// Records why a video could not be made. One that was published, or that another workflow makes by now, stays as it
/// is: an optional part that failed calls this too.
pub(crate) async fn close(
    task: Close,
    State(studio): State<Studio>,
    attempt: Attempt,
) -> Outcome<()> {
    let failed = match (studio.client(), attempt.workflow) {
        (Some(client), Some(workflow)) => client.workflow(workflow).await?.failed,
        _ => Vec::new(),
    };
    let (state, reason) = cause(&failed);
    records::change(studio.objects(), &task.video, attempt.workflow, |video| {
        video.state = state;
        video.reason = Some(reason.clone());
        video.ended_at = Some(now());
    })
    .await?;
    forget_sound(&studio, &task.video).await;
    Ok(())
}

/// Removes the sound that was extracted for subtitles, which were made or will not be. What stays is found by a sweep
/// when the video is gone.
async fn forget_sound(studio: &Studio, video: &VideoId) {
    let forget = async {
        let found = studio.objects().record::<Video>(&video.record()).await.map_err(failure)?;
        match found.and_then(|record| record.value.plan) {
            Some(id) => {
                let plan = studio.plan(id).await?;
                pcm::forget(studio.objects(), &plan).await
            }
            None => Ok(()),
        }
    };
    if let Err(problem) = forget.await {
        tracing::warn!(video = video.0, %problem, "the sound of a video could not be removed");
    }
}

/// What a finished video is, and what is missing.
fn verdict(manifest: &Manifest) -> (VideoState, Option<String>) {
    let parts = [
        ("subtitles", &manifest.subtitles, manifest.recipe.subtitles.is_some()),
        ("scan", &manifest.scan, manifest.recipe.scan),
        ("thumbnails", &manifest.thumbnails, false),
        ("subtitles of the source", &manifest.captions, false),
    ];
    let (mut state, mut missing) = (VideoState::Ready, Vec::new());
    for (name, part, wanted) in parts {
        match part {
            Part::Done { .. } => (),
            Part::Skipped { reason } if wanted => missing.push(format!("{name} skipped: {reason}")),
            Part::Skipped { .. } => (),
            Part::Failed { reason } => {
                state = VideoState::Degraded;
                missing.push(format!("{name} failed: {reason}"));
            }
        }
    }
    if let Some(damage) = manifest.damage() {
        state = VideoState::Degraded;
        missing.push(format!("the source is damaged: {damage}"));
    }
    if manifest.needs_review {
        state = VideoState::NeedsReview;
        missing.insert(0, "the scan flagged it".to_owned());
    }
    (state, (!missing.is_empty()).then(|| missing.join("; ")))
}

/// The first failure of a part that is not optional.
fn cause(failed: &[WorkflowTask]) -> (VideoState, String) {
    let optional =
        |task: &&WorkflowTask| Stage::of(&task.kind).is_some_and(|stage| stage.is_optional);
    let required: Vec<&WorkflowTask> = failed.iter().filter(|task| !optional(task)).collect();
    let dead = required.iter().find(|task| task.state == TaskState::Dead);
    let words = |task: &WorkflowTask| {
        let stage = task.kind.strip_prefix("video.").unwrap_or(&task.kind).to_owned();
        match &task.error {
            Some(error) => format!("{stage}: {}", error.message),
            None => format!("{stage} failed without a reason"),
        }
    };
    match (dead, required.first()) {
        (Some(task), _) => (VideoState::Failed, words(task)),
        (None, Some(task)) => (VideoState::Cancelled, words(task)),
        (None, None) => {
            (VideoState::Failed, "one of its tasks failed; its workflow says which".to_owned())
        }
    }
}

/// Corrects the estimates by what the tasks of this video took.
async fn learn(studio: &Studio, task: &Publish, workflow: Option<WorkflowId>) -> Outcome<()> {
    let (Some(client), Some(workflow)) = (studio.client(), workflow) else { return Ok(()) };
    let found = studio.objects().record::<Video>(&task.video.record()).await.map_err(failure)?;
    let Some(Record { value: Video { plan: Some(plan_id), .. }, .. }) = found else {
        return Ok(());
    };
    let plan = studio.plan(plan_id).await?;
    let tasks = client.workflow_tasks(workflow).await?;
    let mut samples = Vec::new();
    let (mut whole, mut cpu) = (true, Duration::ZERO);
    let mut finished: Vec<_> = finished(&plan, workflow, &tasks).collect();
    // Of a long video not all chunks are asked, but every other task is.
    finished.sort_by_key(|(task, _)| task.kind == Encode::KIND);
    for (task, size) in finished.into_iter().take(SAMPLES_MAX) {
        let detail = client.task(task.id).detail().await?;
        let Some((size, took)) = sample(&plan, &detail, size) else {
            whole &= task.kind != Encode::KIND;
            continue;
        };
        cpu += took;
        samples.push((size, took));
    }
    let encodes = tasks.iter().filter(|task| task.kind == Encode::KIND).count();
    // Only a video that was made from nothing says what a source of its size costs.
    if whole && encodes == plan.chunks.len() && samples.len() < SAMPLES_MAX {
        samples.push((Size::source(plan.probe.source.size, &plan.recipe), cpu));
    }
    if !samples.is_empty() {
        let learn = |estimates: &mut Estimates| {
            for (size, took) in &samples {
                estimates.observe(size, *took);
            }
        };
        studio.objects().update_record(estimate::RECORD, learn).await.map_err(failure)?;
    }
    Ok(())
}

fn finished<'a>(
    plan: &Plan,
    workflow: WorkflowId,
    tasks: &'a [TaskSummary],
) -> impl Iterator<Item = (&'a TaskSummary, Size)> {
    let mut sizes: std::collections::HashMap<_, _> = planned(plan, workflow).into_iter().collect();
    tasks
        .iter()
        .filter(|task| task.state == TaskState::Done)
        .filter_map(move |task| Some((task, sizes.remove(&task.id)?)))
}

/// What a task took, if it did the work itself.
fn sample(plan: &Plan, detail: &TaskDetail, size: Size) -> Option<(Size, Duration)> {
    let result = detail.result.as_ref()?;
    if let Ok(Written { cost, .. }) = result.parse() {
        return Some((size, Duration::from_millis(cost.cpu_ms)));
    }
    let made: Made = result.parse().ok()?;
    if made.known || made.cost.cpu_ms == 0 {
        return None;
    }
    let size = match detail.payload.parse::<Encode>() {
        Ok(encode) if detail.summary.kind == Encode::KIND => {
            Size::encode(plan, plan.chunks.get(encode.chunk as usize)?, &encode.rungs)
        }
        _ => size,
    };
    Some((size, Duration::from_millis(made.cost.cpu_ms)))
}
