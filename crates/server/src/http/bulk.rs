//! `POST /tasks/bulk`: one action on all tasks that fit a filter, or only their count.
//!
//! One request treats a bounded number of tasks and says where the next one goes on, so that no request takes for
//! ever. A caller that is cut off asks again: what was treated does not fit any more.

use axum::Json;
use axum::extract::State;
use divvy_engine::bulk::BULK_TASKS_MAX;
use divvy_engine::{Bulk, BulkAction, BulkReport};
use divvy_http::{ApiError, JsonBody};
use divvy_types::limits::WORKFLOW_NAME_LEN_MAX;
use divvy_types::schema::Label;
use divvy_types::spec::{DEFAULT_PRIORITY, PRIORITY_MAX, check_name, check_priority};
use divvy_types::{Name, Select};
use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::App;
use crate::http::tasks::DEFAULT_REASON;

/// What to do with which tasks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "BulkRequest")]
pub(crate) struct BulkBody {
    action: BulkAction,
    #[serde(default)]
    filter: Select,
    /// Must be said if the filter is empty, so that a request without one does nothing.
    #[serde(default)]
    all: bool,
    /// The new priority, for a reprioritise.
    #[serde(default)]
    #[schemars(range(min = 1, max = PRIORITY_MAX))]
    priority: Option<u8>,
    #[serde(default)]
    dry_run: bool,
    #[serde(default)]
    #[schemars(range(min = 1, max = BULK_TASKS_MAX))]
    limit: Option<usize>,
    #[serde(default)]
    #[schemars(regex(pattern = r"^[0-9]{1,19}$"))]
    after: Option<String>,
    #[serde(default)]
    #[schemars(with = "Option<Label<WORKFLOW_NAME_LEN_MAX>>")]
    reason: Option<Name>,
}

/// Treats the tasks, or counts them.
pub(crate) async fn treat(
    State(app): State<App>,
    JsonBody(body): JsonBody<BulkBody>,
) -> Result<Json<BulkReport>, ApiError> {
    body.check()?;
    Ok(Json(app.handle.bulk(body.into_bulk()).await?))
}

impl BulkBody {
    fn check(&self) -> Result<(), ApiError> {
        let filter = &self.filter;
        if filter.is_empty() && !self.all {
            let message = "nothing is selected; give a `filter`, such as {\"queue\": \"mail\"}, or say \"all\": true";
            return Err(ApiError::new(StatusCode::BAD_REQUEST, "nothing_selected", message)
                .with_field("filter"));
        }
        filter.check()?;
        if let Some(reason) = &self.reason {
            check_name("reason", reason, WORKFLOW_NAME_LEN_MAX)?;
        }
        match (self.action, self.priority) {
            (BulkAction::Reprioritise, None) => {
                let problem = format!("is missing; say 1 to {PRIORITY_MAX}");
                return Err(ApiError::field("priority", problem));
            }
            (BulkAction::Reprioritise, Some(priority)) => check_priority(priority)?,
            (_, Some(_)) => {
                return Err(ApiError::field("priority", "is for the action reprioritise only"));
            }
            (_, None) => {}
        }
        let possible = self.action.states();
        if let Some(state) = filter.state.iter().find(|state| !possible.contains(state)) {
            let possible: Vec<&str> = possible.iter().map(|state| state.as_str()).collect();
            let problem =
                format!("names {state}; this action takes tasks that are {}", possible.join(", "));
            return Err(ApiError::field("filter.state", problem));
        }
        if let Some(limit) = self.limit.filter(|limit| !(1..=BULK_TASKS_MAX).contains(limit)) {
            let problem = format!("is {limit}, expected 1 to {BULK_TASKS_MAX}");
            return Err(ApiError::field("limit", problem));
        }
        Ok(())
    }

    fn into_bulk(self) -> Bulk {
        Bulk {
            action: self.action,
            select: self.filter,
            reason: self.reason.unwrap_or(Name::const_new(DEFAULT_REASON)),
            priority: self.priority.unwrap_or(DEFAULT_PRIORITY),
            dry_run: self.dry_run,
            limit: self.limit.unwrap_or(BULK_TASKS_MAX),
            after: self.after,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<(), ApiError> {
        serde_json::from_str::<BulkBody>(text).unwrap().check()
    }

    #[test]
    fn what_selects_nothing_or_cannot_be_is_refused() {
        for (text, field) in [
            (r#"{"action":"cancel"}"#, "filter"),
            (r#"{"action":"cancel","filter":{}}"#, "filter"),
            (r#"{"action":"cancel","filter":{"kind":"*"}}"#, "filter"),
            (r#"{"action":"cancel","filter":{"older_than_ms":0}}"#, "filter"),
            (r#"{"action":"cancel","filter":{"state":["done"]}}"#, "filter.state"),
            (r#"{"action":"retry","filter":{"state":["leased"]}}"#, "filter.state"),
            (r#"{"action":"drop","filter":{"state":["cancelled"]}}"#, "filter.state"),
            (r#"{"action":"cancel","filter":{"kind":""}}"#, "kind"),
            (r#"{"action":"cancel","filter":{"tag":" a"}}"#, "tag"),
            (r#"{"action":"cancel","all":true,"limit":0}"#, "limit"),
            (r#"{"action":"cancel","all":true,"priority":1}"#, "priority"),
            (r#"{"action":"reprioritise","all":true}"#, "priority"),
            (r#"{"action":"reprioritise","all":true,"priority":6}"#, "priority"),
            (
                r#"{"action":"reprioritise","filter":{"state":["leased"]},"priority":5}"#,
                "filter.state",
            ),
            (r#"{"action":"cancel","all":true,"limit":1000000}"#, "limit"),
        ] {
            let error = check(text).unwrap_err();
            assert_eq!(error.field_name(), Some(field), "{text}: {}", error.message());
        }
        for text in [
            r#"{"action":"cancel","all":true}"#,
            r#"{"action":"reprioritise","filter":{"queue":"mail"},"priority":5}"#,
            r#"{"action":"cancel","filter":{"state":["ready","leased"],"older_than_ms":5}}"#,
            r#"{"action":"retry","filter":{"state":["cancelled"]},"dry_run":true,"limit":5}"#,
        ] {
            assert!(check(text).is_ok(), "{text}");
        }
    }
}
