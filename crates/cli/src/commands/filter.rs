//! A filter as the query of an address: the words that it is in JSON.

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

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
