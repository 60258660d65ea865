//! Schemas of the types whose form no derive can tell, for documents that describe an API. Only with the feature
//! `schema`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::experiment::Cell;
use crate::hidden::HIDES;
use crate::limits::{CAPABILITY_LEN_MAX, LIMIT_LEN_MAX};
use crate::settings::{Rate, WEIGHT_MAX};
use crate::terms::Sparse;
use crate::{Name, NewTask, Payload, TaskId, TaskSpec, Timestamp, WorkflowId};

macro_rules! schemas {
    ($($type:ty, $name:literal, $is_inline:literal, { $($schema:tt)* };)*) => {$(
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                $is_inline
            }

            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ $($schema)* })
            }
        }
    )*};
}

schemas! {
    Cell, "LabCell", false, {
        "type": ["number", "string", "null"],
        "description": "A cell of a table: a number, words, or nothing.",
    };
    Name, "Name", true, { "type": "string" };
    TaskId, "TaskId", false, {
        "type": "string",
        "format": "uuid",
        "description": "The id of a task.",
    };
    WorkflowId, "WorkflowId", false, {
        "type": "string",
        "format": "uuid",
        "description": "The id of a workflow.",
    };
    Timestamp, "Timestamp", false, {
        "type": "string",
        "format": "date-time",
        "description": "A time by RFC 3339, at or after 1970.",
    };
    Payload, "Payload", false, {
        "description": "Any JSON. Bytes are written as an object with `content_type` and `base64`.",
    };
    Rate, "Rate", false, {
        "type": "string",
        "pattern": "^0*[1-9][0-9]{0,8}/(s|m|h|d)$",
        "description": "So many per second, minute, hour or day, such as 10/s.",
    };
}

/// The schema of a name with so many characters at most, as `spec::check_name` takes it: visible, without white space at
/// the ends. For `#[schemars(with = "…")]`, like the others here.
#[derive(Debug)]
pub struct Label<const MAX: usize>;

/// The schema of a text with so many characters at most of which all are visible; it may be empty.
#[derive(Debug)]
pub struct Visible<const MAX: usize>;

/// The schema of what a worker must have, as [`crate::need::Need`] reads it.
#[derive(Debug)]
pub struct NeedText;

/// The schema of the name of a limit: keys are behind a slash, and not part of it.
#[derive(Debug)]
pub struct LimitName;

/// The schema of a weight.
#[derive(Debug)]
pub struct Weight;

/// The pattern of a name in which these characters cannot be either.
fn name_without(more: &str) -> String {
    format!(r"[^\s{HIDES}{more}]([^{HIDES}{more}]*[^\s{HIDES}{more}])?")
}

impl<const MAX: usize> JsonSchema for Label<MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Label{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let pattern = format!("^{}$", name_without(""));
        json_schema!({
            "type": "string",
            "minLength": 1,
            "maxLength": MAX,
            "pattern": pattern,
            "not": { "enum": [".", ".."] },
        })
    }
}

impl<const MAX: usize> JsonSchema for Visible<MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Visible{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "maxLength": MAX, "pattern": format!("^[^{HIDES}]*$") })
    }
}

impl JsonSchema for NeedText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Need".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let name = name_without("<>=");
        let number = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,2})?";
        let pattern = format!("^{name}( *==? *{name}| *>= *{number})?$");
        json_schema!({
            "type": "string",
            "maxLength": CAPABILITY_LEN_MAX,
            "pattern": pattern,
            "examples": ["gpu", "region=eu", "memory_gb>=16"],
        })
    }
}

impl JsonSchema for LimitName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "LimitName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let pattern = format!("^{}$", name_without("/{}"));
        json_schema!({ "type": "string", "maxLength": LIMIT_LEN_MAX, "pattern": pattern })
    }
}

impl JsonSchema for Weight {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Weight".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "maximum": WEIGHT_MAX })
    }
}

/// A task as it may be sent: everything but its kind can be left out, and nothing can be added.
pub(crate) fn as_sent(schema: &mut Schema) {
    schema.insert("required".to_owned(), serde_json::json!(["kind"]));
    schema.insert("additionalProperties".to_owned(), false.into());
    // What is null is as if it were left out.
    let fields = schema.get_mut("properties").and_then(|known| known.as_object_mut());
    let fields = fields.expect("a task has fields");
    for name in ["id", "queue", "priority"] {
        if let Some(field) = fields.get_mut(name) {
            *field = serde_json::json!({ "anyOf": [field.take(), { "type": "null" }] });
        }
    }
}

impl JsonSchema for NewTask {
    fn schema_name() -> Cow<'static, str> {
        "NewTask".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        TaskSpec::json_schema(generator)
    }
}

/// What it holds.
impl<T: JsonSchema> JsonSchema for Sparse<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
