//! `/api/v1/flows/{id}/output`: the result of a job that is done, and of a stream that goes on what it has kept so far.

use std::io::ErrorKind;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use divvy_http::range::Offer;
use divvy_http::{ApiError, Id};
use divvy_workload::files::FolderError;

use super::Site;
use crate::jobs::JobsError;
use crate::jobs::state::Manifest;

/// What is in the result.
pub(super) async fn list(State(site): State<Site>, Id(id): Id) -> Result<Json<Manifest>, ApiError> {
    Ok(Json(site.jobs.result(&id)?.0))
}

/// One file of the result.
pub(super) async fn show(
    State(site): State<Site>,
    Path((id, name)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (manifest, paths) = site.jobs.result(&id)?;
    // Only what the manifest names is given out.
    let found = manifest.files.into_iter().zip(paths).find(|(file, _)| file.name == name);
    let Some((file, path)) = found else {
        let message = format!(
            "job {id} has no such file; GET /api/v1/flows/{id}/output lists those that it has"
        );
        return Err(ApiError::new(StatusCode::NOT_FOUND, "no_such_file", message));
    };
    let offer = Offer {
        // Results of a stream only grow, so their length tells them apart.
        tag: if file.xxh3.is_empty() {
            format!("{id}-{}", file.bytes)
        } else {
            format!("{id}-{}", file.xxh3)
        },
        size: file.bytes,
        content_type: "application/octet-stream",
        caching: "private, no-cache",
    };
    let answer = offer.of_file(&path, &method, &headers).await;
    answer.map_err(|error| {
        if file.xxh3.is_empty() && error.kind() == ErrorKind::NotFound {
            let problem = format!("job {id} has ended a moment ago; ask again");
            return JobsError::Conflict(problem).into();
        }
        JobsError::Folder(FolderError::new(&path, error)).into()
    })
}
