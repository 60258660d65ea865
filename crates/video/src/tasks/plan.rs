//! Decides what is to be done and spawns it: only what has no result yet.
//!
//! What the plan itself looks like is decided by [`Plan::new`], which tasks follow from it by `STAGES`; this decides
//! under which terms they run. The ids of the tasks follow from the workflow and their parts, so that the library knows
//! which task is which without asking.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use divvy::objects::BlobId;
use divvy::prelude::*;
use divvy::types::{TaskId, Timestamp, WorkflowId};

use super::{Missing, Order, Part, PlanVideo, ProbeSource, STAGES, STREAMS, Stage};
use crate::estimate::{self, Estimates, Size};
use crate::fleet::Fleet;
use crate::keys::results_of;
use crate::library::{Video, records};
use crate::plan::Plan;
use crate::studio::{Studio, failure};

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
    let length_ms = plan.probe.video.rate.micros(plan.probe.video.frames) / 1_000;
    let terms = Terms {
        video: &video,
        plan_id: blob.id,
        plan: &plan,
        fleet: &fleet,
        estimates: &estimates,
        root: workflow.to_string(),
    };
    let cpu = terms.spawn(&|key| !made.contains(&key.record(source.id)), &spawner);
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
    let tasks = STAGES.iter().flat_map(|stage| {
        let parts = (stage.parts)(plan, &|_| true).into_iter();
        parts.map(|part| (child_id(&root, stage, part.place), part.size))
    });
    tasks.collect()
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
    /// Spawns what is missing; says how much time on processors it is expected to take. Of a stage the longest tasks go
    /// first, so that short ones fill the end.
    fn spawn(&self, missing: &Missing<'_>, spawner: &Spawner) -> Duration {
        let mut cpu = Duration::ZERO;
        let mut spawned: Vec<(&Stage, TaskId)> = Vec::new();
        for stage in &STAGES {
            let parts = (stage.parts)(self.plan, missing).into_iter();
            let mut parts: Vec<(Duration, Part)> =
                parts.map(|part| (self.estimates.expected(&part.size), part)).collect();
            parts.sort_by_key(|(expected, part)| (Reverse(*expected), part.place));
            for (expected, Part { place, rungs, size }) in parts {
                cpu += expected;
                let order =
                    Order { video: self.video.id.clone(), plan: self.plan_id, place, rungs };
                let id = child_id(&self.root, stage, place);
                (stage.spawn)(spawner, order, &|options| {
                    let options = self.limits(options.id(id), &size, expected);
                    let options = after(options, stage, &spawned);
                    (stage.terms)(urgency(options, self.video), self.plan, self.fleet)
                });
                spawned.push((stage, id));
            }
        }
        cpu
    }

    /// Where a task runs best, and how long it may.
    fn limits(&self, options: TaskOptions, size: &Size, expected: Duration) -> TaskOptions {
        let source = self.plan.probe.source;
        let copying = Duration::from_millis(source.size / (COPY_BYTES_MIN / 1_000));
        options
            .affinity(source.id.to_string())
            .cost_hint(u64::try_from(expected.as_millis()).unwrap_or(u64::MAX))
            .timeout(self.estimates.time_limit(size) + copying)
    }
}

/// What a stage waits for, of what was spawned. What must be there does not wait in vain for what need not.
fn after(options: TaskOptions, stage: &Stage, spawned: &[(&Stage, TaskId)]) -> TaskOptions {
    stage.after.iter().fold(options, |options, name| match *name {
        STREAMS => options.after_group(STREAMS),
        name => spawned.iter().filter(|(parent, _)| parent.name() == name).fold(
            options,
            |options, (parent, id)| match parent.is_optional && !stage.is_optional {
                true => options.after_optional(*id),
                false => options.after(*id),
            },
        ),
    })
}

/// The priority and the deadline of a video on one of its tasks.
pub(crate) fn urgency(options: TaskOptions, video: &Video) -> TaskOptions {
    let options = options.priority(video.priority);
    match video.deadline {
        Some(at) => options.deadline_at(Timestamp(at)),
        None => options,
    }
}

fn child_id(root: &str, stage: &Stage, place: u32) -> TaskId {
    TaskId::from_key(&format!("{root}/{}/{place}", stage.name()))
}
