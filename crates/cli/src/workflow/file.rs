//! The shape of a workflow file. Keeps the place of everything that can be wrong later.

use std::fmt;

use anyhow::Result;
use divvy_types::{Name, Terms, beside_terms, flat};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

use crate::exit::Failure;
use crate::values::{Moment, Span};

/// Parts of YAML in one file, which 100,000 tasks with some fields each need.
const EVENTS_MAX: usize = 10_000_000;

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkflowFile {
    /// What people call the workflow.
    #[serde(default)]
    pub(super) name: Option<String>,
    /// The tasks by name.
    pub(super) tasks: Tasks,
    /// Tasks that run when all of those are done.
    #[serde(default)]
    pub(super) on_success: Tasks,
    /// Tasks that run when all of those have ended and one has failed.
    #[serde(default)]
    pub(super) on_failure: Tasks,
}

/// The tasks in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Tasks(pub(super) Vec<(Spanned<String>, Entry)>);

/// One task: its own fields, which are written for people, and any other term as it is in JSON.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) kind: Option<Name>,
    pub(super) payload: Value,
    pub(super) queue: Option<Name>,
    pub(super) priority: Option<u8>,
    pub(super) after: After,
    pub(super) timeout: Option<Span>,
    pub(super) run_at: Option<Moment>,
    pub(super) deadline: Option<Moment>,
    pub(super) retries: Option<u32>,
    /// What is not among those; nothing that those say.
    pub(super) terms: Terms,
}
beside_terms!(Entry { kind, payload, queue, priority, after, timeout, run_at, deadline, retries }
    without { timeout_ms, workflow });

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (entry, terms): (Self, Terms) = flat::read(deserializer)?;
        if entry.kind.is_none() {
            return Err(D::Error::missing_field("kind"));
        }
        Ok(Self { terms, ..entry })
    }
}

/// What a task waits for: a name, a list of names, or a map from names to `required` or `optional`.
#[derive(Debug, Default)]
pub(super) struct After(pub(super) Vec<Edge>);

/// A task to wait for.
#[derive(Debug)]
pub(super) struct Edge {
    pub(super) name: String,
    pub(super) line: u64,
    pub(super) column: u64,
    pub(super) optional: bool,
}

impl Edge {
    fn new(name: Spanned<String>, optional: bool) -> Self {
        let place = name.referenced;
        Self { line: place.line(), column: place.column(), name: name.value, optional }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Weight {
    Required,
    Optional,
}

/// The file as it is written.
pub(super) fn parse(source: &str, yaml: &str) -> Result<WorkflowFile> {
    // The size of the file bounds all of this; the defaults are for settings.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_events: EVENTS_MAX, max_nodes: EVENTS_MAX },
    };
    let file: WorkflowFile = serde_saphyr::from_str_with_options(yaml, options)
        .map_err(|error| crate::yaml::failure(source, yaml, &error, &[]))?;
    if file.tasks.0.is_empty() {
        return Err(Failure::usage(format!("{source}: no tasks"))
            .cure("name at least one task under `tasks:`")
            .into());
    }
    Ok(file)
}

impl<'de> Deserialize<'de> for Tasks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Tasks;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from names to tasks")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tasks, A::Error> {
                let mut tasks: Vec<(Spanned<String>, Entry)> = Vec::new();
                while let Some(name) = map.next_key::<Spanned<String>>()? {
                    tasks.push((name, map.next_value()?));
                }
                Ok(Tasks(tasks))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

impl<'de> Deserialize<'de> for After {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Forms;
        impl<'de> Visitor<'de> for Forms {
            type Value = After;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of task names, or a map from names to `required` or `optional`")
            }

            fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<After, E> {
                Err(E::custom("after: expected a list of task names, such as [fetch]"))
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<After, E> {
                Ok(After::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<After, A::Error> {
                let mut edges = Vec::new();
                while let Some(name) = list.next_element()? {
                    edges.push(Edge::new(name, false));
                }
                Ok(After(edges))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<After, A::Error> {
                let mut edges: Vec<Edge> = Vec::new();
                while let Some(name) = map.next_key::<Spanned<String>>()? {
                    let weight = map.next_value::<Weight>().map_err(|error| {
                        A::Error::custom(format!("after: `{}`: {error}", name.value))
                    })?;
                    edges.push(Edge::new(name, matches!(weight, Weight::Optional)));
                }
                Ok(After(edges))
            }
        }
        deserializer.deserialize_any(Forms)
    }
}
