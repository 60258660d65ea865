//! `/api/v1/flows/{id}/output`: the result of a job that is done.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use divvy_http::range::Offer;
use divvy_http::{ApiError, Id};
use divvy_workload::files::{FolderError, read_json};

use super::Site;
use crate::jobs::JobsError;
use crate::jobs::state::Manifest;

/// What is in the result.
pub(super) async fn list(State(site): State<Site>, Id(id): Id) -> Result<Json<Manifest>, ApiError> {
    Ok(Json(manifest(&site, &id)?))
}

fn manifest(site: &Site, id: &str) -> Result<Manifest, JobsError> {
    site.jobs.spec(id)?;
    let found = read_json(&site.jobs.folder(id).manifest())?;
    found.ok_or_else(|| JobsError::Conflict(format!("job {id} has no result yet")))
}

/// One file of the result.
pub(super) async fn show(
    State(site): State<Site>,
    Path((id, name)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let manifest = manifest(&site, &id)?;
    // Only what the manifest names is given out.
    let Some(file) = manifest.files.into_iter().find(|file| file.name == name) else {
        let message = format!(
            "job {id} has no such file; GET /api/v1/flows/{id}/output lists those that it has"
        );
        return Err(ApiError::new(StatusCode::NOT_FOUND, "no_such_file", message));
    };
    let offer = Offer {
        tag: format!("{id}-{}", file.xxh3),
        size: file.bytes,
        content_type: "application/octet-stream",
        caching: "private, no-cache",
    };
    let path = site.jobs.folder(&id).out().join(&file.name);
    let answer = offer.of_file(&path, &method, &headers).await;
    answer.map_err(|error| JobsError::Folder(FolderError::new(&path, error)).into())
}
