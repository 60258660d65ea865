//! A task with every field set is read whole and written whole, alone and as the template of a schedule. Other crates
//! take the same task further: over the wire, into a store, from a workflow file.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "schema")]
use divvy_types::Terms;
use divvy_types::{NewTask, Schedule, TaskId, TaskSpec, Timestamp};
use serde_json::{Value, json};

const EVERY_FIELD: &str = include_str!("every_field.json");

fn sample() -> TaskSpec {
    serde_json::from_str(EVERY_FIELD).unwrap()
}

/// A field that is not in the sample fails here by its name. What is in it says something: a term at its default is not
/// written, and the test below compares.
#[cfg(feature = "schema")]
#[test]
fn the_sample_sets_every_field() {
    let given: Value = serde_json::from_str(EVERY_FIELD).unwrap();
    for schema in [schemars::schema_for!(Terms), schemars::schema_for!(NewTask)] {
        let fields = schema.as_value()["properties"].as_object().unwrap();
        assert!(fields.len() >= 16, "{fields:?}");
        for field in fields.keys() {
            assert!(given.get(field).is_some(), "{field}");
        }
    }
}

#[test]
fn a_task_with_every_field_is_written_as_it_was_read_with_an_id_or_without() {
    let json: Value = serde_json::from_str(EVERY_FIELD).unwrap();
    assert_eq!(serde_json::to_value(sample()).unwrap(), json);
    assert_eq!(sample().validate(), Ok(()));
    let mut nameless = json;
    nameless.as_object_mut().unwrap().remove("id");
    let sent: NewTask = serde_json::from_str(&nameless.to_string()).unwrap();
    assert_eq!(sent.id, None);
    assert_eq!(sent.into_spec(|| TaskId(7)), TaskSpec { id: TaskId(7), ..sample() });
}

/// What a schedule cannot have is named here, so everything else must be there.
#[test]
fn a_template_has_every_field_that_can_be_the_same_at_every_tick() {
    let mut task: Value = serde_json::from_str(EVERY_FIELD).unwrap();
    let fields = task.as_object_mut().unwrap();
    let single =
        ["id", "after", "run_at", "deadline", "workflow", "group", "after_groups", "unique"];
    let single = single.map(|name| (name, fields.remove(name).unwrap()));
    for (single, value) in single {
        let mut wrong = fields.clone();
        wrong.insert(single.to_owned(), value);
        let wrong = json!({"cron": "@daily", "task": wrong}).to_string();
        let error = serde_json::from_str::<Schedule>(&wrong).unwrap_err().to_string();
        assert!(error.starts_with(&format!("unknown field `{single}`")), "{error}");
    }
    fields.insert("deadline_ms".to_owned(), json!(60_000));
    let text = json!({"cron": "@daily", "task": task}).to_string();
    let schedule: Schedule = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_value(&schedule.task).unwrap(), task);
    assert_eq!(schedule.task.validate(), Ok(()));
    let tick = Timestamp(5_000_000);
    let mut expected = sample();
    (expected.run_at, expected.deadline) = (Some(tick), Some(Timestamp(65_000_000)));
    (expected.workflow, expected.unique) = (None, None);
    (expected.group, expected.after_groups) = (None, Vec::new());
    expected.after.clear();
    assert_eq!(schedule.task.spec(expected.id, tick), expected);
}

#[test]
fn a_template_that_a_program_gave_a_term_of_a_single_task_is_refused_by_name() {
    let mut template = divvy_types::schedule::Template::of(sample());
    assert_eq!(template.validate(), Ok(()));
    template.terms.after = sample().after.clone();
    let problem = template.validate().unwrap_err().to_string();
    assert!(problem.starts_with("after is for a single task"), "{problem}");
}
