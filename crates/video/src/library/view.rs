//! How far a video is and how long the rest will take.
//!
//! Every task counts with the time on processors that it is expected to take. What is shown never goes back: the highest
//! is remembered, within this process. What is left is corrected by what the chunks of this video took compared with
//! what was expected of them, because no probe tells how hard a picture is to encode. How long that takes on the clock,
//! among the other videos, is decided in `queue`.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use divvy::objects::BlobId;
use divvy::prelude::*;
use divvy::types::view::TaskSummary;
use divvy::types::{TaskId, TaskState, WorkflowId};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::index::READS_AT_ONCE;
use super::queue::Snapshot;
use super::{
    Cursor, Filter, Library, LibraryError, Stage, Video, VideoId, VideoState, VideoView, now,
};
use crate::estimate::{self, Estimates, Size};
use crate::plan::Plan;
use crate::tasks::{Encode, Made, STAGES, planned};

/// Finished chunks that are asked what they took, to correct the rest.
const SAMPLES_MAX: usize = 8;
/// Things of a sort that are remembered; then all are forgotten, which only costs time.
const REMEMBERED_MAX: usize = 1_000;
/// How far a video may be from what was expected of it.
const CORRECTION: (f64, f64) = (0.2, 5.0);

/// What this process remembers.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// How far each video was seen to be, by its workflow.
    highest: HashMap<WorkflowId, f64>,
    /// What finished chunks took.
    took: HashMap<TaskId, Duration>,
    plans: HashMap<BlobId, Arc<Plan>>,
    /// What is left to do for all videos.
    pub(super) open: Option<Snapshot>,
}

/// What is known about the tasks of a video.
#[derive(Debug, Default)]
pub(super) struct Known {
    plan: Option<Arc<Plan>>,
    weights: Weights,
}

/// What is left to do for a video, as time on processors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    /// Of all tasks, in seconds.
    pub(super) sum: f64,
    /// Of the longest one, in seconds.
    pub(super) longest: f64,
}

impl Library {
    /// The next videos after one, latest first, and where the part after them begins, if there is one. Costs as much as
    /// these videos do, however many there are.
    pub async fn list(
        &self,
        after: Option<&Cursor>,
        filter: &Filter,
        limit: usize,
    ) -> Result<(Vec<VideoView>, Option<Cursor>), LibraryError> {
        let (videos, more) = self.listed(after, filter, limit).await?;
        let next = videos.last().filter(|_| more);
        let next = next.map(|video| Cursor { added_at: video.added_at, id: video.id.clone() });
        // Once for the whole page, or each of its videos would look.
        let estimates = &self.estimates().await;
        if videos.iter().any(|video| video.state == VideoState::Processing) {
            self.open().await;
        }
        // A list does not ask for the tasks of what has ended.
        let open = videos.iter().filter(|video| !video.state.is_final());
        let workflows: Vec<WorkflowId> = open.filter_map(Video::workflow_id).collect();
        let tasks = &self.client.tasks_of_workflows(&workflows).await?;
        let views = videos.into_iter().map(|video| async move {
            let tasks = video.workflow_id().and_then(|workflow| tasks.get(&workflow));
            self.view_of(video, tasks.map_or(&[], Vec::as_slice), estimates).await
        });
        let views = stream::iter(views).buffered(READS_AT_ONCE).try_collect().await?;
        Ok((views, next))
    }

    /// One video.
    pub async fn view(&self, id: &VideoId) -> Result<VideoView, LibraryError> {
        let video = self.video(id).await?;
        let tasks = match video.workflow_id() {
            Some(workflow) => self.client.workflow_tasks(workflow).await?,
            None => Vec::new(),
        };
        self.view_of(video, &tasks, &self.estimates().await).await
    }

    /// A video whose tasks have all ended without anyone having recorded that: someone cancelled its workflow as a
    /// whole, or even the task that records failures failed.
    async fn settled(&self, video: Video, tasks: &[TaskSummary]) -> Result<Video, LibraryError> {
        let open = tasks.is_empty() || tasks.iter().any(|task| !task.state.is_final());
        if video.state.is_final() || open {
            return Ok(video);
        }
        let dead = tasks.iter().find(|task| task.state == TaskState::Dead);
        let ended = |current: &mut Video| {
            // Publishing and closing record before they end, so what is not recorded by now will not be.
            if current.state == VideoState::Processing && current.workflow == video.workflow {
                let state = if dead.is_some() { VideoState::Failed } else { VideoState::Cancelled };
                let error = dead.and_then(|task| task.error.as_ref());
                let reason = error.map_or_else(
                    || "its workflow was cancelled".to_owned(),
                    |error| error.message.to_string(),
                );
                (current.state, current.reason) = (state, Some(reason));
                current.ended_at = Some(now());
            }
            Ok(())
        };
        Ok(self.transit(&video.id, ended).await?.0)
    }

    async fn view_of(
        &self,
        video: Video,
        tasks: &[TaskSummary],
        estimates: &Estimates,
    ) -> Result<VideoView, LibraryError> {
        let video = self.settled(video, tasks).await?;
        // Of what has ended, a list needs no more than the record says.
        let known = match (tasks.is_empty(), video.length_ms) {
            (true, Some(_)) if video.state.is_final() => Known::default(),
            _ => self.known(&video, tasks, estimates).await,
        };
        let progress = self.highest(&video, known.weights.progress(tasks));
        let rest = match video.state {
            VideoState::Processing => self.rest(&video, &known, tasks, estimates).await,
            _ => None,
        };
        let remaining_ms = match rest {
            Some(rest) => Some(self.on_the_clock(&video, rest).await),
            None => None,
        };
        let planned_ms = known.plan.map(|plan| {
            let picture = &plan.probe.video;
            picture.rate.micros(picture.frames) / 1_000
        });
        let duration_ms = video.length_ms.or(planned_ms);
        let stages = stages(tasks, video.state == VideoState::Ready);
        Ok(VideoView { stages, video, progress, remaining_ms, duration_ms })
    }

    /// What was learnt so far. A problem with it costs precision only.
    pub(super) async fn estimates(&self) -> Estimates {
        let found = self.objects.record(estimate::RECORD).await;
        found.ok().flatten().map(|record| record.value).unwrap_or_default()
    }

    /// What is known about the tasks of a video.
    pub(super) async fn known(
        &self,
        video: &Video,
        tasks: &[TaskSummary],
        estimates: &Estimates,
    ) -> Known {
        let plan = match video.plan {
            Some(id) => self.plan(id).await,
            None => None,
        };
        let weights = match (&plan, video.workflow_id()) {
            (Some(plan), Some(workflow)) => {
                Weights::new(plan, workflow, estimates, tasks, video.estimated_cpu_ms)
            }
            _ => Weights::default(),
        };
        Known { plan, weights }
    }

    /// What is left to do; nothing if not even the size of the source is known.
    pub(super) async fn rest(
        &self,
        video: &Video,
        known: &Known,
        tasks: &[TaskSummary],
        estimates: &Estimates,
    ) -> Option<Rest> {
        if known.plan.is_none() {
            let size = Size::source(video.source?.size, &video.recipe);
            let sum = estimates.expected(&size).as_secs_f64();
            return Some(Rest { sum, longest: 0.0 });
        }
        let correction = self.correction(&known.weights, tasks).await;
        let rest = tasks
            .iter()
            .filter(|task| !task.state.is_final())
            .map(|task| known.weights.of(task) * (1.0 - fraction(task)) * correction);
        let (sum, longest) =
            rest.fold((0.0, 0.0_f64), |(sum, most), rest| (sum + rest, most.max(rest)));
        Some(Rest { sum, longest })
    }

    /// What the finished chunks took, compared with what was expected.
    async fn correction(&self, weights: &Weights, tasks: &[TaskSummary]) -> f64 {
        let finished =
            tasks.iter().filter(|task| task.kind == Encode::KIND && task.state == TaskState::Done);
        let (mut took, mut expected) = (0.0, 0.0);
        for task in finished.take(SAMPLES_MAX) {
            if let Some(cpu) = self.took(task.id).await {
                took += cpu.as_secs_f64();
                expected += weights.of(task);
            }
        }
        if took > 0.0 && expected > 0.0 {
            (took / expected).clamp(CORRECTION.0, CORRECTION.1)
        } else {
            1.0
        }
    }

    async fn took(&self, task: TaskId) -> Option<Duration> {
        if let Some(took) = self.memory().took.get(&task) {
            return Some(*took);
        }
        let detail = self.client.task(task).detail().await.ok()?;
        let made: Made = detail.result?.parse().ok()?;
        let took = Duration::from_millis(made.cost.cpu_ms);
        let mut memory = self.memory();
        forget(&mut memory.took);
        memory.took.insert(task, took);
        Some(took)
    }

    /// A plan. A view must not fail because of one that is gone or of another version.
    pub(super) async fn plan(&self, id: BlobId) -> Option<Arc<Plan>> {
        if let Some(plan) = self.memory().plans.get(&id) {
            return Some(plan.clone());
        }
        let bytes = self.objects.get(id).await.ok()?;
        let plan = Arc::new(serde_json::from_slice::<Plan>(&bytes).ok()?);
        let mut memory = self.memory();
        forget(&mut memory.plans);
        memory.plans.insert(id, plan.clone());
        Some(plan)
    }

    fn highest(&self, video: &Video, progress: f64) -> f64 {
        match video.state {
            VideoState::Ready | VideoState::Degraded | VideoState::NeedsReview => return 1.0,
            VideoState::Processing | VideoState::Failed | VideoState::Cancelled => (),
        }
        let Some(workflow) = video.workflow_id() else { return progress };
        let mut memory = self.memory();
        forget(&mut memory.highest);
        let highest = memory.highest.entry(workflow).or_default();
        *highest = highest.max(progress);
        *highest
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, Memory> {
        // A panic while it was held left maps that are whole.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forget<K, V>(map: &mut HashMap<K, V>) {
    if map.len() >= REMEMBERED_MAX {
        map.clear();
    }
}

/// How much each task counts: the seconds that it is expected to take on a processor.
#[derive(Debug, Default)]
struct Weights {
    seconds: HashMap<TaskId, f64>,
}

impl Weights {
    /// Chunks are weighed so that all tasks together take what was expected when they were spawned: a chunk may lack
    /// some of the rungs only.
    fn new(
        plan: &Plan,
        workflow: WorkflowId,
        estimates: &Estimates,
        tasks: &[TaskSummary],
        expected_ms: Option<u64>,
    ) -> Self {
        let sizes: HashMap<TaskId, Size> = planned(plan, workflow).into_iter().collect();
        let mut seconds = HashMap::new();
        let (mut chunks, mut rest) = (0.0, 0.0);
        for task in tasks {
            let Some(size) = sizes.get(&task.id) else { continue };
            let expected = estimates.expected(size).as_secs_f64();
            *if task.kind == Encode::KIND { &mut chunks } else { &mut rest } += expected;
            seconds.insert(task.id, expected);
        }
        let expected =
            expected_ms.map_or(chunks + rest, |ms| Duration::from_millis(ms).as_secs_f64());
        if chunks > 0.0 && expected > rest {
            let scale = ((expected - rest) / chunks).clamp(0.01, 10.0);
            for task in tasks.iter().filter(|task| task.kind == Encode::KIND) {
                if let Some(seconds) = seconds.get_mut(&task.id) {
                    *seconds *= scale;
                }
            }
        }
        Self { seconds }
    }

    fn of(&self, task: &TaskSummary) -> f64 {
        self.seconds.get(&task.id).copied().unwrap_or(0.0)
    }

    /// Nothing before there is a plan.
    fn progress(&self, tasks: &[TaskSummary]) -> f64 {
        let (mut done, mut total) = (0.0, 0.0);
        for task in tasks {
            total += self.of(task);
            done += self.of(task) * fraction(task);
        }
        if total > 0.0 { (done / total).clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// How much of a task is done. One that failed for good is over as well: an optional part may.
fn fraction(task: &TaskSummary) -> f64 {
    match (task.state, &task.progress) {
        (TaskState::Done | TaskState::Dead | TaskState::Cancelled, _) => 1.0,
        (TaskState::Leased, Some(progress)) if progress.total > 0 => {
            #[expect(clippy::cast_precision_loss, reason = "a share needs no 53 bits")]
            let share = progress.done as f64 / progress.total as f64;
            share.clamp(0.0, 1.0)
        }
        _ => 0.0,
    }
}

/// The stages of a video. The task that publishes says that the video is ready and ends a moment later: it counts as done
/// from then on.
fn stages(tasks: &[TaskSummary], is_ready: bool) -> Vec<Stage> {
    let is_over = |task: &TaskSummary| is_ready && task.state == TaskState::Leased;
    let stage = |stage: &crate::tasks::Stage| {
        let of_kind: Vec<&TaskSummary> =
            tasks.iter().filter(|task| task.kind == stage.kind).collect();
        let count = |fits: fn(TaskState) -> bool| {
            let state =
                |task: &TaskSummary| if is_over(task) { TaskState::Done } else { task.state };
            let count = of_kind.iter().filter(|task| fits(state(task))).count();
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        let total = count(|_| true);
        if total == 0 {
            return None;
        }
        let share = |task: &&TaskSummary| if is_over(task) { 1.0 } else { fraction(task) };
        let share: f64 = of_kind.iter().map(share).sum();
        Some(Stage {
            name: stage.name().to_owned(),
            about: stage.about.to_owned(),
            total,
            done: count(|state| state == TaskState::Done),
            running: count(|state| state == TaskState::Leased),
            failed: count(|state| matches!(state, TaskState::Dead | TaskState::Cancelled)),
            progress: share / f64::from(total),
        })
    };
    STAGES.iter().filter_map(stage).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_video_that_is_ready_is_published_though_the_task_that_said_so_still_ends() {
        let publish = STAGES.iter().find(|stage| stage.name() == "publish").unwrap();
        let task = serde_json::json!({
            "id": "0198c0de-0000-7000-8000-000000000001", "kind": publish.kind, "queue": "video", "priority": 3,
            "state": "leased", "attempts": 1, "submitted_at": "2026-11-17T00:00:00Z",
        });
        let tasks = [serde_json::from_value::<TaskSummary>(task).unwrap()];
        let shown = |is_ready| {
            let stage = stages(&tasks, is_ready).remove(0);
            (stage.total, stage.done, stage.running, stage.progress)
        };
        assert_eq!(shown(false), (1, 0, 1, 0.0));
        assert_eq!(shown(true), (1, 1, 0, 1.0));
    }
}
