//! Tasks in JSON: one, or a batch that is accepted whole or not at all.
//!
//! The shape is that of [`NewTask`]: a spec whose `id` may be left out, and then the server makes one. A caller that may
//! repeat a request should make the id itself, so that the repetition is the same task.

use std::fmt;

use divvy_http::{ApiError, parse};
use divvy_types::limits::BATCH_TASKS_MAX;
use divvy_types::{NewTask, SpecError, TaskId, TaskSpec};
use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};

/// A batch as it is sent.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewTasks")]
pub struct SentBatch {
    #[serde(deserialize_with = "bounded")]
    tasks: Vec<NewTask>,
}

/// Tells a batch from a task without reading either.
#[derive(Deserialize)]
struct Shape {
    #[serde(default)]
    tasks: Option<IgnoredAny>,
}

/// A task, or a batch, as the document tells it: only its schema is used.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum Submission {
    /// One task.
    Task(Box<NewTask>),
    /// Several, which are taken together or not at all.
    Batch(SentBatch),
}

/// Reads what was sent.
///
/// # Errors
/// If it is neither; the error names the task and the field.
pub fn read(body: &[u8]) -> Result<Vec<TaskSpec>, ApiError> {
    if body.is_empty() {
        let message =
            "the body is empty; send a task such as {\"kind\": \"noop\"}, or {\"tasks\": […]}";
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "malformed_json", message));
    }
    if parse::<Shape>(body)?.tasks.is_none() {
        let spec = parse::<NewTask>(body)?.into_spec(fresh_id);
        spec.validate()?;
        return Ok(vec![spec]);
    }
    let tasks = parse::<SentBatch>(body)?.tasks.into_iter();
    let specs: Vec<TaskSpec> = tasks.map(|task| task.into_spec(fresh_id)).collect();
    if specs.len() > BATCH_TASKS_MAX {
        return Err(SpecError::BatchTooLarge { count: specs.len() }.into());
    }
    for (at, spec) in specs.iter().enumerate() {
        spec.validate().map_err(|error| ApiError::from(error).within(&format!("tasks[{at}].")))?;
    }
    Ok(specs)
}

fn fresh_id() -> TaskId {
    TaskId(uuid::Uuid::now_v7().as_u128())
}

/// Reads a list, but keeps only one task more than allowed: a small body must not become a huge list.
fn bounded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<NewTask>, D::Error> {
    struct Bounded;
    impl<'de> Visitor<'de> for Bounded {
        type Value = Vec<NewTask>;

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
    use super::*;

    #[test]
    fn a_task_without_an_id_gets_one_and_a_full_spec_is_kept_whole() {
        let specs = read(br#"{"kind":"noop"}"#).unwrap();
        assert_eq!(
            TaskSpec { id: TaskId(1), ..specs[0].clone() },
            TaskSpec::new(TaskId(1), "noop")
        );
        assert_ne!(specs[0].id, read(br#"{"kind":"noop"}"#).unwrap()[0].id);
        let whole = include_str!("../../types/tests/every_field.json");
        let spec: TaskSpec = serde_json::from_str(whole).unwrap();
        assert_eq!(read(whole.as_bytes()).unwrap(), std::slice::from_ref(&spec));
        assert_eq!(read(format!("{{\"tasks\":[{whole}]}}").as_bytes()).unwrap(), [spec]);
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
            (
                r#"{"tasks":[{"kind":"a"},{"kind":"a","retry":{"limit":-1}}]}"#,
                "tasks[1].retry.limit",
                "expected u32",
            ),
            (r#"{"kind":"a","kind":"b"}"#, "kind", "duplicate field `kind`"),
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
