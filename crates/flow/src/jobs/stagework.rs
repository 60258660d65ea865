//! The parts of a stage as tasks: their names, what they say, and what became of them.

use divvy::types::view::{TaskDetail, TaskSummary};
use divvy::types::{ErrorClass, Payload, RetryPolicy, RetryRule, TaskId, TaskSpec, TaskState};
use serde::{Deserialize, Serialize};

use crate::job::drive::{Fate, TaskName};
use crate::job::tasks::{CAPABILITY, FOLDER, PartResult, needs_folder};
use crate::job::{Folder, JobError, PartDone, PartSpec, Spec, Stage};

/// Attempts of a part after its first, if files or disks make trouble.
const TRIES: u32 = 5;
/// Workers that may go away while they hold a part, before the engine gives it up and the driver puts it back.
const LOSSES_MAX: u32 = 1_000;
/// The first rest between two attempts, which doubles.
const REST_MS: u64 = 200;
/// The longest.
const REST_MS_MAX: u64 = 30_000;
/// The queue of all parts.
pub(super) const QUEUE: &str = "flow";

/// A stage as it was planned: `stages/N.plan.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Planned {
    /// When, in milliseconds since 1970.
    pub(super) at_ms: u64,
    /// The stage.
    pub(super) stage: Stage,
}

/// The name of a task: the same part of the same stage is the same task, however often it is submitted.
pub(super) fn task_id(job: &str, stage: u32, name: TaskName) -> TaskId {
    TaskId::from_key(&format!("flow/{job}/{stage}/{}/{}", name.part, name.twin))
}

/// The tag of all tasks of a job.
pub(super) fn tag(job: &str) -> String {
    format!("flow:{job}")
}

/// The tag of the twins of a stage, by which they are found again.
pub(super) fn twins_tag(job: &str, stage: u32) -> String {
    format!("flow:{job}:{stage}:twins")
}

/// A part as a task.
///
/// # Errors
/// If it is too large for one.
pub(super) fn task(
    spec: &Spec,
    folder: &Folder,
    index: u32,
    stage: &Stage,
    name: TaskName,
) -> Result<TaskSpec, JobError> {
    let wrong = |problem: &dyn std::fmt::Display| {
        JobError(format!(
            "part {} of stage `{}` cannot be a task: {problem}",
            name.part, stage.name
        ))
    };
    let Some(part) = stage.parts.get(name.part as usize) else {
        return Err(wrong(&"the stage has no such part"));
    };
    let payload = PartSpec {
        job: spec.id.clone(),
        folder: folder.root().to_owned(),
        stage: index,
        name: stage.name.clone(),
        part: name.part,
        parts: u32::try_from(stage.parts.len()).unwrap_or(u32::MAX),
        twin: name.twin,
        work: part.work.clone(),
        bytes: part.bytes,
    };
    let mut task = TaskSpec::new(task_id(&spec.id, index, name), format!("flow.{}", stage.name));
    task.payload = Payload::from_value(&payload).map_err(|error| wrong(&error))?;
    task.queue = QUEUE.into();
    task.needs = [CAPABILITY.into()]
        .into_iter()
        .chain(needs_folder(&stage.name).then(|| FOLDER.into()))
        .chain(part.needs.iter().map(|need| need.as_str().into()))
        .collect();
    let lost = RetryRule {
        class: Some(ErrorClass::WorkerLost),
        limit: Some(LOSSES_MAX),
        base_ms: Some(100),
        ..RetryRule::default()
    };
    task.retry = RetryPolicy {
        limit: TRIES,
        base_ms: REST_MS,
        cap_ms: REST_MS_MAX,
        rules: vec![lost],
        ..RetryPolicy::default()
    };
    task.tags = vec![tag(&spec.id).into()];
    if name.twin > 0 {
        task.tags.push(twins_tag(&spec.id, index).as_str().into());
    }
    task.fair_key = Some(spec.id.as_str().into());
    task.cost_hint = Some(part.bytes.max(1));
    task.validate().map_err(|error| wrong(&error))?;
    Ok(task)
}

/// What became of a task, and what it said if it is done.
pub(super) fn fate(name: TaskName, task: &TaskDetail) -> (Fate, Option<PartDone>) {
    let summary = &task.summary;
    let why = || summary.error.as_ref().map_or_else(String::new, |error| error.message.to_string());
    match summary.state {
        TaskState::Done => {
            let result = task.result.as_ref().map(Payload::parse::<PartResult>);
            match result {
                Some(Ok(result)) if !result.report.names_only_its_own(name.part) => {
                    let why = "its report names files of other parts; is its worker one of ours?";
                    (Fate::Failed { why: why.to_owned(), lost: false }, None)
                }
                Some(Ok(result)) => {
                    let took_ms = result.ended_at_ms.saturating_sub(result.started_at_ms);
                    (Fate::Done { took_ms }, Some(part_done(summary, task.history.len(), result)))
                }
                _ => {
                    let why = "its task returned no report; does a worker of another version run?";
                    (Fate::Failed { why: why.to_owned(), lost: false }, None)
                }
            }
        }
        TaskState::Dead => {
            let class = summary.error.as_ref().map(|error| error.class);
            let lost = class == Some(ErrorClass::WorkerLost);
            (Fate::Failed { why: why(), lost }, None)
        }
        TaskState::Cancelled => (Fate::Cancelled, None),
        TaskState::Leased if summary.wait.is_none() => (Fate::Runs, None),
        TaskState::Leased | TaskState::Blocked | TaskState::Scheduled | TaskState::Ready => {
            (Fate::Waits, None)
        }
    }
}

fn part_done(summary: &TaskSummary, attempts: usize, result: PartResult) -> PartDone {
    PartDone {
        twin: 0,
        worker: summary.worker.as_ref().map_or_else(String::new, ToString::to_string),
        started_at_ms: result.started_at_ms,
        ended_at_ms: result.ended_at_ms,
        attempts: summary.attempts.max(u32::try_from(attempts).unwrap_or(u32::MAX)),
        report: result.report,
    }
}
