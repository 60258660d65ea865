//! `POST /tasks`: one task, or a batch that is accepted whole or not at all.
//!
//! The shape is that of [`TaskSpec`], except that `id` may be left out: then the server makes one. A caller that may
//! repeat a request should make the id itself, so that the repetition is the same task.

use std::fmt;

use axum::Json;
use axum::extract::State;
use divvy_engine::{SubmitOptions, Submitted};
use divvy_http::{ApiError, JsonBytes, Parameters, parse};
use divvy_types::limits::BATCH_TASKS_MAX;
use divvy_types::spec::{DEFAULT_PRIORITY, DEFAULT_QUEUE};
use divvy_types::view::Late;
use divvy_types::{
    Dependency, Matching, Name, Payload, RetryPolicy, SpecError, TaskId, TaskSpec, Terms,
    Timestamp, Unique, Workflow,
};
use http::StatusCode;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::app::App;

/// A task as it is sent: all fields of a [`TaskSpec`], with an id that may be absent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SentTask {
    #[serde(default)]
    id: Option<TaskId>,
    kind: Name,
    #[serde(default)]
    queue: Option<Name>,
    #[serde(default)]
    payload: Payload,
    #[serde(default)]
    priority: Option<u8>,
    #[serde(default)]
    needs: Vec<Name>,
    #[serde(default)]
    after: Vec<Dependency>,
    #[serde(default)]
    run_at: Option<Timestamp>,
    #[serde(default)]
    timeout_ms: Option<u64>,
    #[serde(default)]
    retry: RetryPolicy,
    #[serde(default)]
    workflow: Option<Box<Workflow>>,
    #[serde(default)]
    matching: Option<Matching>,
    #[serde(default)]
    deadline: Option<Timestamp>,
    #[serde(default)]
    unique: Option<Unique>,
    #[serde(default)]
    limits: Vec<Name>,
    #[serde(default)]
    fair_key: Option<Name>,
    #[serde(default)]
    affinity: Option<Name>,
    #[serde(default)]
    cost_hint: Option<u64>,
}

/// A batch as it is sent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SentBatch {
    #[serde(deserialize_with = "bounded")]
    tasks: Vec<SentTask>,
}

/// Tells a batch from a task without reading either.
#[derive(Deserialize)]
struct Shape {
    #[serde(default)]
    tasks: Option<IgnoredAny>,
}

/// What became of a submission.
#[derive(Serialize)]
pub(crate) struct Accepted {
    accepted: u32,
    known: u32,
    ids: Vec<TaskId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conflicts: Vec<Conflict>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    late: Vec<Late>,
    #[serde(skip_serializing_if = "Option::is_none")]
    late_total: Option<u32>,
}

/// A task that was not taken.
#[derive(Serialize)]
struct Conflict {
    task: TaskId,
    /// The task that has its unique key.
    first: TaskId,
}

/// How strictly tasks are taken.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Strictness {
    /// Refuse the batch if a task is expected to miss its deadline.
    strict: bool,
}

/// Accepts tasks. 201 if any is new, 200 if all were known or skipped.
pub(crate) async fn submit(
    State(app): State<App>,
    Parameters(Strictness { strict }): Parameters<Strictness>,
    JsonBytes(body): JsonBytes,
) -> Result<(StatusCode, Json<Accepted>), ApiError> {
    let options = SubmitOptions { strict };
    let specs = read(&body)?;
    drop(body);
    let ids = specs.iter().map(|spec| spec.id).collect();
    let payload_bytes = specs.iter().map(|spec| spec.payload.data().len()).sum();
    let share = app.budget.take(specs.len(), payload_bytes).await?;
    let submitted = app.handle.submit_with(specs, options).await?;
    drop(share);
    let status = if submitted.accepted > 0 { StatusCode::CREATED } else { StatusCode::OK };
    let Submitted { accepted, known, conflicts, late, late_total } = submitted;
    let conflicts = conflicts.into_iter().map(|(task, first)| Conflict { task, first }).collect();
    let late_total = (late_total > 0).then_some(late_total);
    Ok((status, Json(Accepted { accepted, known, ids, conflicts, late, late_total })))
}

fn read(body: &[u8]) -> Result<Vec<TaskSpec>, ApiError> {
    if body.is_empty() {
        let message =
            "the body is empty; send a task such as {\"kind\": \"noop\"}, or {\"tasks\": […]}";
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "malformed_json", message));
    }
    if parse::<Shape>(body)?.tasks.is_none() {
        let spec = parse::<SentTask>(body)?.into_spec();
        spec.validate()?;
        return Ok(vec![spec]);
    }
    let specs: Vec<TaskSpec> =
        parse::<SentBatch>(body)?.tasks.into_iter().map(SentTask::into_spec).collect();
    if specs.len() > BATCH_TASKS_MAX {
        return Err(SpecError::BatchTooLarge { count: specs.len() }.into());
    }
    for (at, spec) in specs.iter().enumerate() {
        spec.validate().map_err(|error| ApiError::from(error).within(&format!("tasks[{at}].")))?;
    }
    Ok(specs)
}

impl SentTask {
    fn into_spec(self) -> TaskSpec {
        TaskSpec {
            id: self.id.unwrap_or_else(|| TaskId(uuid::Uuid::now_v7().as_u128())),
            kind: self.kind,
            queue: self.queue.unwrap_or(Name::const_new(DEFAULT_QUEUE)),
            payload: self.payload,
            priority: self.priority.unwrap_or(DEFAULT_PRIORITY),
            terms: Terms {
                needs: self.needs,
                matching: self.matching,
                after: self.after,
                run_at: self.run_at,
                deadline: self.deadline,
                timeout_ms: self.timeout_ms,
                retry: self.retry,
                workflow: self.workflow,
                unique: self.unique,
                limits: self.limits,
                fair_key: self.fair_key,
                affinity: self.affinity,
                cost_hint: self.cost_hint,
            }
            .into(),
        }
    }
}

/// Reads a list, but keeps only one task more than allowed: a small body must not become a huge list.
fn bounded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SentTask>, D::Error> {
    struct Bounded;
    impl<'de> Visitor<'de> for Bounded {
        type Value = Vec<SentTask>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of tasks")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut tasks = Vec::new();
            while let Some(task) = list.next_element()? {
                tasks.push(task);
                if tasks.len() > BATCH_TASKS_MAX {
                    while list.next_element::<IgnoredAny>()?.is_some() {}
                    break;
                }
            }
            Ok(tasks)
        }
    }
    deserializer.deserialize_seq(Bounded)
}

#[cfg(test)]
mod tests {
    use divvy_types::WorkflowRole;

    use super::*;

    #[test]
    fn a_task_without_an_id_gets_one_and_a_full_spec_is_kept_whole() {
        let specs = read(br#"{"kind":"noop"}"#).unwrap();
        assert_eq!(
            TaskSpec { id: TaskId(1), ..specs[0].clone() },
            TaskSpec::new(TaskId(1), "noop")
        );
        assert_ne!(specs[0].id, read(br#"{"kind":"noop"}"#).unwrap()[0].id);
        let mut spec = TaskSpec::new(TaskId(5), "video.probe");
        spec.queue = "video".into();
        spec.payload = Payload::json(r#"{"a": [1]}"#).unwrap();
        spec.priority = 5;
        spec.needs = vec!["gpu".into()];
        spec.after = vec![Dependency { task: TaskId(4), optional: true }];
        spec.run_at = Some(Timestamp(1_000_000));
        spec.timeout_ms = Some(9);
        spec.retry.limit = 1;
        spec.workflow = Some(Box::new(Workflow {
            id: divvy_types::WorkflowId(8),
            name: "clip".into(),
            role: WorkflowRole::Member,
        }));
        assert_eq!(read(&serde_json::to_vec(&spec).unwrap()).unwrap(), vec![spec]);
    }

    #[test]
    fn each_fault_of_a_batch_names_the_task_and_the_field() {
        let long = format!(r#"{{"tasks":[{{"kind":"a"}},{{"kind":"{}"}}]}}"#, "k".repeat(200));
        let deep = format!(r#"{{"kind":"a","payload":{}{}}}"#, "[".repeat(500), "]".repeat(500));
        let many = format!(
            r#"{{"tasks":[{}{{"kind":"a"}}]}}"#,
            r#"{"kind":"a"},"#.repeat(BATCH_TASKS_MAX + 5)
        );
        let cases = [
            (
                r#"{"tasks":[{"kind":"a"},{"kind":"b","prio":1}]}"#,
                "tasks[1].prio",
                "unknown field `prio`",
            ),
            (r#"{"tasks":[{"kind":"a","priority":"high"}]}"#, "tasks[0].priority", "expected u8"),
            (
                r#"{"tasks":[{"kind":"a","priority":9}]}"#,
                "tasks[0].priority",
                "is 9, expected 1 to 5",
            ),
            (r#"{"tasks":[{"payload":1}]}"#, "tasks[0].kind", "missing field `kind`"),
            (r#"{"tasks":[{"kind":"a","id":"x"}]}"#, "tasks[0].id", "`x` is not an id"),
            (r#"{"tasks":[{"kind":"a","after":[7]}]}"#, "tasks[0].after[0]", "expected a task id"),
            (r#"{"tasks":{}}"#, "tasks", "expected a list of tasks"),
            (r#"{"tasks":[],"also":1}"#, "also", "unknown field `also`"),
            (r#"{"kind":"a","retry":{"limits":1}}"#, "retry.limits", "unknown field `limits`"),
            (&long, "tasks[1].kind", "has 200 characters, at most 128"),
            (&deep, "payload", "nested deeper than 128 levels"),
            (&many, "tasks", "at most 10000"),
        ];
        for (text, field, words) in cases {
            let error = read(text.as_bytes()).unwrap_err();
            let start: String = text.chars().take(80).collect();
            assert!(error.message().contains(words), "{start}: {}", error.message());
            assert_eq!(error.field_name(), Some(field), "{start}: {}", error.message());
        }
    }
}
