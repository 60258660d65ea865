//! `/api/v1/flows`: start jobs, look at them, stop and cancel them.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::response::{IntoResponse, Response};
use divvy_http::{ApiError, Id, JsonBody, NoFields, Parameters, rows};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Site;
use crate::job::{NewJob, PartDone};
use crate::jobs::view::JobView;
use crate::jobs::{JobsError, timeline};

/// Rows of one answer, unless told otherwise.
const PAGE: usize = 50;
/// Rows of one answer at most.
const PAGE_MAX: usize = 100;

/// Which part of the list is wanted.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Listing {
    /// How many at most.
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<usize>,
    /// Only jobs whose id begins with this.
    #[serde(default)]
    id: String,
}

/// Jobs.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FlowList")]
pub(super) struct List {
    items: Vec<JobView>,
}

/// All jobs, latest first.
pub(super) async fn list(
    State(site): State<Site>,
    Parameters(listing): Parameters<Listing>,
) -> Result<Json<List>, ApiError> {
    let limit = rows(listing.limit, PAGE, PAGE_MAX)?;
    let mut specs = Vec::new();
    for id in site.jobs.ids().map_err(JobsError::from)? {
        if id.starts_with(&listing.id) {
            // One that is being removed is not there any more.
            specs.extend(site.jobs.spec(&id).ok());
        }
    }
    specs.sort_by_key(|spec| std::cmp::Reverse((spec.created_at_ms, spec.id.clone())));
    specs.truncate(limit);
    let items = specs.iter().filter_map(|spec| site.jobs.view(&spec.id).ok()).collect();
    Ok(Json(List { items }))
}

/// Starts a job.
pub(super) async fn start(
    State(site): State<Site>,
    JsonBody(new): JsonBody<NewJob>,
) -> Result<Response, ApiError> {
    let view = site.jobs.start(new).await?;
    let location = format!("/api/v1/flows/{}", view.id);
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(view)).into_response())
}

/// One job.
pub(super) async fn show(State(site): State<Site>, Id(id): Id) -> Result<Json<JobView>, ApiError> {
    Ok(Json(site.jobs.view(&id)?))
}

/// What a removal says.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FlowRemoved")]
pub(super) struct Removed {
    /// Its id.
    id: String,
}

/// Removes a job.
pub(super) async fn remove(
    State(site): State<Site>,
    Id(id): Id,
) -> Result<Json<Removed>, ApiError> {
    site.jobs.remove(&id).await?;
    Ok(Json(Removed { id }))
}

/// Cancels a job.
pub(super) async fn cancel(
    State(site): State<Site>,
    Id(id): Id,
    JsonBody(NoFields {}): JsonBody<NoFields>,
) -> Result<Json<JobView>, ApiError> {
    Ok(Json(site.jobs.cancel(&id).await?))
}

/// Ends a stream with what it has read.
pub(super) async fn stop(
    State(site): State<Site>,
    Id(id): Id,
    JsonBody(NoFields {}): JsonBody<NoFields>,
) -> Result<Json<JobView>, ApiError> {
    Ok(Json(site.jobs.stop(&id).await?))
}

/// How a job is done.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FlowExplained")]
pub(crate) struct Explained {
    /// A sentence per line.
    pub(crate) lines: Vec<String>,
}

/// Tells how a job is done.
pub(super) async fn explain(
    State(site): State<Site>,
    Id(id): Id,
) -> Result<Json<Explained>, ApiError> {
    Ok(Json(Explained { lines: site.jobs.explain(&id)? }))
}

/// The parts of a stage.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FlowParts")]
pub(super) struct Parts {
    items: Vec<PartDone>,
}

/// The parts of a stage that is done.
pub(super) async fn stage(
    State(site): State<Site>,
    Path((id, stage)): Path<(String, String)>,
) -> Result<Json<Parts>, ApiError> {
    site.jobs.spec(&id)?;
    let done = site.jobs.done(&id)?;
    let at = stage.parse::<usize>().ok();
    let Some(stage) = at.and_then(|at| done.into_iter().nth(at)) else {
        let message = format!("job {id} has no such stage that is done");
        return Err(ApiError::new(StatusCode::NOT_FOUND, "no_such_stage", message));
    };
    Ok(Json(Parts { items: stage.parts }))
}

/// The parts of stages that are done, over time.
pub(super) async fn timeline(State(site): State<Site>, Id(id): Id) -> Result<Response, ApiError> {
    let spec = site.jobs.spec(&id)?;
    let text = timeline::svg(&spec, &site.jobs.done(&id)?);
    Ok(([(CONTENT_TYPE, "image/svg+xml")], text).into_response())
}
