//! A filter: which tasks are meant, and the same as the query of an address, in the words that it is in JSON.

use anyhow::Result;
use divvy::api::Api;
use divvy_types::view::WorkflowView;
use divvy_types::{Select, TaskState, WorkflowId};
use serde::Serialize;
use serde_json::Value;

use crate::args::select::SelectArgs;

/// The filter that was typed, in these states or in any.
pub(super) async fn select(api: &Api, args: &SelectArgs, state: &[TaskState]) -> Result<Select> {
    let mut workflows = Vec::new();
    for text in &args.workflow {
        workflows.extend(workflow(api, Some(text)).await?);
    }
    Ok(args.select(state, workflows))
}

/// The whole id of a workflow that is named by its id or the end of it.
pub(super) async fn workflow(api: &Api, text: Option<&str>) -> Result<Option<WorkflowId>> {
    let Some(text) = text else { return Ok(None) };
    if let Ok(id) = text.parse() {
        return Ok(Some(id));
    }
    let view: WorkflowView = api.get(&["workflows", text], &[]).await?.parse()?;
    Ok(Some(view.id))
}

/// The parts of a filter that are given, and what they say.
pub(super) fn pairs(select: &impl Serialize) -> Result<Vec<(String, String)>> {
    let Value::Object(parts) = serde_json::to_value(select)? else { return Ok(Vec::new()) };
    Ok(parts.into_iter().map(|(name, value)| (name, words(&value))).collect())
}

/// The same, for a request.
pub(super) fn as_query(pairs: &[(String, String)]) -> Vec<(&str, String)> {
    pairs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect()
}

fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(words).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}
