//! Tasks: one, many, and what people do to them.

use axum::Json;
use axum::extract::State;
use divvy_engine::TaskFilter;
use divvy_types::limits::{KIND_LEN_MAX, PAGE_ROWS_MAX, QUEUE_LEN_MAX, WORKFLOW_NAME_LEN_MAX};
use divvy_types::spec::check_name;
use divvy_types::view::{Page, TaskDetail, TaskSummary};
use divvy_types::{Name, TaskId, TaskState};
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::http::error::ApiError;
use crate::http::extract::JsonBody;
use crate::http::parameters::{Parameters, PathText};

/// Rows of a page if the caller does not say.
const DEFAULT_ROWS: usize = 50;
/// Why a task is cancelled if the caller does not say.
pub(crate) const DEFAULT_REASON: &str = "cancelled by request";

/// Why a task shall not run.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CancelBody {
    reason: Option<Name>,
}

/// An empty object.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoFields {}

/// Where a task is after something was done to it.
#[derive(Serialize)]
pub(crate) struct Moved {
    id: TaskId,
    state: TaskState,
}

/// A page of tasks, newest first.
pub(crate) async fn list(
    State(app): State<App>,
    mut parameters: Parameters,
) -> Result<Json<Page<TaskSummary>>, ApiError> {
    let filter = TaskFilter {
        states: states(&mut parameters)?,
        kind: name(&mut parameters, "kind", KIND_LEN_MAX)?,
        queue: name(&mut parameters, "queue", QUEUE_LEN_MAX)?,
        workflow: parameters.take_parsed("workflow")?,
        limit: parameters.take_parsed("limit")?.unwrap_or(DEFAULT_ROWS),
        after: parameters.take_one("after")?,
    };
    parameters.finish()?;
    if !(1..=PAGE_ROWS_MAX).contains(&filter.limit) {
        return Err(ApiError::field(
            "limit",
            format!("is {}, expected 1 to {PAGE_ROWS_MAX}", filter.limit),
        ));
    }
    Ok(Json(app.handle.tasks(filter).await?))
}

/// One task, by its id or the start of it.
pub(crate) async fn show(
    State(app): State<App>,
    PathText(id): PathText,
) -> Result<Json<TaskDetail>, ApiError> {
    let id = app.handle.resolve(&id).await?;
    Ok(Json(app.handle.task(id).await?))
}

/// Stops a task or keeps it from running.
pub(crate) async fn cancel(
    State(app): State<App>,
    PathText(id): PathText,
    JsonBody(body): JsonBody<CancelBody>,
) -> Result<Json<Moved>, ApiError> {
    let reason = body.reason.unwrap_or(Name::const_new(DEFAULT_REASON));
    check_name("reason", &reason, WORKFLOW_NAME_LEN_MAX)?;
    let id = app.handle.resolve(&id).await?;
    let state = app.handle.cancel(id, reason).await?;
    Ok(Json(Moved { id, state }))
}

/// Runs a dead, cancelled or waiting-for-a-time task now.
pub(crate) async fn retry(
    State(app): State<App>,
    PathText(id): PathText,
    JsonBody(NoFields {}): JsonBody<NoFields>,
) -> Result<Json<Moved>, ApiError> {
    let id = app.handle.resolve(&id).await?;
    let state = app.handle.retry(id).await?;
    Ok(Json(Moved { id, state }))
}

/// The states of a filter; none means all.
pub(crate) fn states(parameters: &mut Parameters) -> Result<Vec<TaskState>, ApiError> {
    let words = parameters.take_all("state");
    words
        .iter()
        .map(|word| {
            word.parse().map_err(|error| ApiError::field("state", format!("is wrong: {error}")))
        })
        .collect()
}

/// A name of a filter.
pub(crate) fn name(
    parameters: &mut Parameters,
    field: &'static str,
    len_max: usize,
) -> Result<Option<Name>, ApiError> {
    let Some(name) = parameters.take_one(field)? else { return Ok(None) };
    check_name(field, &name, len_max)?;
    Ok(Some(name.into()))
}
