//! Workflows: how they stand, and cancel and resume as a whole.

use axum::Json;
use axum::extract::State;
use divvy_http::{ApiError, JsonBody, Parameters, PathText, rows};
use divvy_types::limits::{PAGE_ROWS_MAX, WORKFLOW_NAME_LEN_MAX};
use divvy_types::schema::Label;
use divvy_types::spec::check_name;
use divvy_types::view::{
    CancelledWorkflow, Page, ResumedWorkflow, SelectWorkflows, WorkflowGraph, WorkflowSummary,
    WorkflowView,
};
use divvy_types::{Name, flat};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::app::App;
use crate::http::tasks::Place;

/// Rows of a page if the caller does not say.
const DEFAULT_ROWS: usize = 50;
/// Why a workflow is cancelled if the caller does not say.
const DEFAULT_REASON: &str = "its workflow was cancelled";

/// Which workflows are wanted, and which page of them.
#[derive(JsonSchema)]
#[schemars(rename = "WorkflowListing")]
pub(crate) struct Listing {
    #[schemars(flatten)]
    select: SelectWorkflows,
    #[schemars(flatten)]
    page: Place,
}

impl<'de> Deserialize<'de> for Listing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (page, select) = flat::read(deserializer)?;
        Ok(Self { select, page })
    }
}

/// Why a workflow shall not go on.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "CancelWorkflow")]
pub(crate) struct CancelBody {
    #[schemars(with = "Option<Label<WORKFLOW_NAME_LEN_MAX>>")]
    reason: Option<Name>,
}

/// What shall be put back.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "ResumeWorkflow")]
pub(crate) struct ResumeBody {
    include_cancelled: bool,
}

/// A page of workflows, the last to start first.
pub(crate) async fn list(
    State(app): State<App>,
    Parameters(listing): Parameters<Listing>,
) -> Result<Json<Page<WorkflowSummary>>, ApiError> {
    let Listing { select, page } = listing;
    if let Some(name) = &select.name {
        check_name("name", name, WORKFLOW_NAME_LEN_MAX)?;
    }
    let limit = rows(page.limit, DEFAULT_ROWS, PAGE_ROWS_MAX)?;
    Ok(Json(app.handle.workflows(select, limit, page.after).await?))
}

/// One workflow, by its id or the start of it.
pub(crate) async fn show(
    State(app): State<App>,
    PathText(id): PathText,
) -> Result<Json<WorkflowView>, ApiError> {
    let id = app.handle.resolve_workflow(&id).await?;
    Ok(Json(app.handle.workflow(id).await?))
}

/// The tasks of a workflow and how they hang together.
pub(crate) async fn graph(
    State(app): State<App>,
    PathText(id): PathText,
) -> Result<Json<WorkflowGraph>, ApiError> {
    let id = app.handle.resolve_workflow(&id).await?;
    Ok(Json(app.handle.workflow_graph(id).await?))
}

/// Cancels every task of a workflow that has not ended.
pub(crate) async fn cancel(
    State(app): State<App>,
    PathText(id): PathText,
    JsonBody(body): JsonBody<CancelBody>,
) -> Result<Json<CancelledWorkflow>, ApiError> {
    let reason = body.reason.unwrap_or(Name::const_new(DEFAULT_REASON));
    check_name("reason", &reason, WORKFLOW_NAME_LEN_MAX)?;
    let id = app.handle.resolve_workflow(&id).await?;
    Ok(Json(app.handle.cancel_workflow(id, reason).await?))
}

/// Puts back what failed in a workflow, so that it continues.
pub(crate) async fn resume(
    State(app): State<App>,
    PathText(id): PathText,
    JsonBody(body): JsonBody<ResumeBody>,
) -> Result<Json<ResumedWorkflow>, ApiError> {
    let id = app.handle.resolve_workflow(&id).await?;
    Ok(Json(app.handle.resume_workflow(id, body.include_cancelled).await?))
}
