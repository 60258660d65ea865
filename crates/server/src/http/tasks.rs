//! Tasks: one, many, and what people do to them.

use axum::Json;
use axum::extract::State;
use divvy_engine::TaskFilter;
use divvy_http::{ApiError, JsonBody, NoFields, Parameters, PathText, rows};
use divvy_types::limits::{
    KIND_LEN_MAX, PAGE_ROWS_MAX, QUEUE_LEN_MAX, TAG_LEN_MAX, WORKFLOW_NAME_LEN_MAX,
};
use divvy_types::schema::Label;
use divvy_types::spec::check_name;
use divvy_types::view::{Page, TaskDetail, TaskSummary};
use divvy_types::{Name, SpecError, TaskId, TaskState, WorkflowId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;

/// Rows of a page if the caller does not say.
const DEFAULT_ROWS: usize = 50;
/// Why a task is cancelled if the caller does not say.
pub(crate) const DEFAULT_REASON: &str = "cancelled by request";

/// Why a task shall not run.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "CancelTask")]
pub(crate) struct CancelBody {
    #[schemars(with = "Option<Label<WORKFLOW_NAME_LEN_MAX>>")]
    reason: Option<Name>,
}

/// Which tasks are wanted; an absent part means any.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Listing {
    /// Only in one of these states.
    state: Vec<TaskState>,
    /// Only this kind; a trailing `*` matches any rest.
    #[schemars(with = "Option<Label<KIND_LEN_MAX>>")]
    kind: Option<Name>,
    /// Only in this queue.
    #[schemars(with = "Option<Label<QUEUE_LEN_MAX>>")]
    queue: Option<Name>,
    /// Only of this workflow.
    workflow: Option<WorkflowId>,
    /// Only with this tag.
    #[schemars(with = "Option<Label<TAG_LEN_MAX>>")]
    tag: Option<Name>,
    /// How many at most.
    #[schemars(range(min = 1, max = PAGE_ROWS_MAX))]
    limit: Option<usize>,
    /// What `next` of the page before said.
    #[schemars(regex(pattern = r"^[0-9]{1,19}$"))]
    after: Option<String>,
}

/// Where a task is after something was done to it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MovedTask")]
pub(crate) struct Moved {
    id: TaskId,
    state: TaskState,
}

/// A page of tasks, newest first.
pub(crate) async fn list(
    State(app): State<App>,
    Parameters(listing): Parameters<Listing>,
) -> Result<Json<Page<TaskSummary>>, ApiError> {
    let Listing { state: states, kind, queue, workflow, tag, limit, after } = listing;
    check_names([
        ("kind", &kind, KIND_LEN_MAX),
        ("queue", &queue, QUEUE_LEN_MAX),
        ("tag", &tag, TAG_LEN_MAX),
    ])?;
    let limit = rows(limit, DEFAULT_ROWS, PAGE_ROWS_MAX)?;
    let filter = TaskFilter { states, kind, queue, workflow, tag, limit, after };
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

/// Checks the names that a filter has: field, name, length at most.
pub(crate) fn check_names<const N: usize>(
    names: [(&'static str, &Option<Name>, usize); N],
) -> Result<(), SpecError> {
    let given =
        names.into_iter().filter_map(|(field, name, max)| Some((field, name.as_ref()?, max)));
    for (field, name, len_max) in given {
        check_name(field, name, len_max)?;
    }
    Ok(())
}
