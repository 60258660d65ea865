//! Tasks: one, many, and what people do to them.

use axum::Json;
use axum::extract::State;
use divvy_http::{ApiError, JsonBody, NoFields, Parameters, PathText, rows};
use divvy_types::limits::{PAGE_ROWS_MAX, WORKFLOW_NAME_LEN_MAX};
use divvy_types::schema::Label;
use divvy_types::spec::{PRIORITY_MAX, check_name, check_priority};
use divvy_types::view::{Page, TaskDetail, TaskSummary};
use divvy_types::{Name, Select, TaskId, TaskState, beside_terms, flat};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

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

/// Which priority a task shall have.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ReprioritiseTask")]
pub(crate) struct PriorityBody {
    #[schemars(range(min = 1, max = PRIORITY_MAX))]
    priority: u8,
}

/// Which tasks are wanted, and which page of them.
#[derive(JsonSchema)]
pub(crate) struct Listing {
    #[schemars(flatten)]
    pub(crate) select: Select,
    #[schemars(flatten)]
    pub(crate) page: Place,
}

/// Which page is wanted.
#[derive(Default, JsonSchema)]
pub(crate) struct Place {
    /// How many at most.
    #[schemars(range(min = 1, max = PAGE_ROWS_MAX))]
    pub(crate) limit: Option<usize>,
    /// What `next` of the page before said.
    #[schemars(regex(pattern = r"^[0-9]{1,19}$"))]
    pub(crate) after: Option<String>,
}
beside_terms!(Place { limit, after } without {});

impl<'de> Deserialize<'de> for Listing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (page, select) = flat::read(deserializer)?;
        Ok(Self { select, page })
    }
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
    let Listing { select, page } = listing;
    select.check()?;
    let limit = rows(page.limit, DEFAULT_ROWS, PAGE_ROWS_MAX)?;
    Ok(Json(app.handle.tasks(select, limit, page.after).await?))
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

/// Gives a task that waits another priority.
pub(crate) async fn reprioritise(
    State(app): State<App>,
    PathText(id): PathText,
    JsonBody(PriorityBody { priority }): JsonBody<PriorityBody>,
) -> Result<Json<Moved>, ApiError> {
    check_priority(priority)?;
    let id = app.handle.resolve(&id).await?;
    let state = app.handle.reprioritise(id, priority).await?;
    Ok(Json(Moved { id, state }))
}
