//! `/api/v1/videos`: add videos, look at them, stop, approve and remove them.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use divvy_http::{ApiError, JsonBody, Parameters, rows};
use http::StatusCode;
use http::header::LOCATION;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Site;
use super::request::{Named, video_id};
use crate::library::{Cursor, Filter, NewVideo, Sweep, Swept, Video, VideoState, VideoView};
use crate::manifest::Manifest;

/// Videos of one answer, unless told otherwise.
const PAGE: usize = 100;
/// Videos of one answer at most.
const PAGE_MAX: usize = 500;

/// Which part of the list is wanted.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Listing {
    /// How many at most.
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<usize>,
    /// What `next` of the part before said.
    after: Option<String>,
    /// Only videos in one of these states.
    #[serde(default)]
    state: Vec<VideoState>,
    /// Only videos whose id begins with this.
    #[serde(default)]
    id: String,
}

/// A part of the list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "VideoPage")]
pub(super) struct Page {
    items: Vec<VideoView>,
    /// What to give as `after` for the next part; nothing at the end.
    next: Option<String>,
}

/// Which part of a manifest is wanted.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Depth {
    /// Whether the segments are listed too.
    #[serde(default = "yes")]
    segments: bool,
}

fn yes() -> bool {
    true
}

/// What became of a removal.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RemovedVideo")]
pub(super) struct Removed {
    /// Bytes that it and its parts have. They are freed later, as far as no other video uses them.
    bytes_at_most: u64,
}

/// All videos, latest first.
pub(super) async fn list(
    State(site): State<Site>,
    Parameters(listing): Parameters<Listing>,
) -> Result<Json<Page>, ApiError> {
    let limit = rows(listing.limit, PAGE, PAGE_MAX)?;
    let after = listing.after.as_deref().map(cursor).transpose()?;
    let filter = Filter { states: listing.state, start: listing.id };
    let (items, next) = site.library.list(after.as_ref(), &filter, limit).await?;
    let next = next.map(|Cursor { added_at, id }| format!("{added_at}.{}", id.0));
    Ok(Json(Page { items, next }))
}

/// A cursor as it is written into an answer: when its video was added, and its name.
fn cursor(text: &str) -> Result<Cursor, ApiError> {
    let wrong = || ApiError::field("after", "is not what `next` said; begin again without it");
    let (added_at, id) = text.split_once('.').ok_or_else(wrong)?;
    let added_at = added_at.parse().map_err(|_| wrong())?;
    Ok(Cursor { added_at, id: video_id(id).map_err(|_| wrong())? })
}

/// Adds a video: 201, or 200 for one that was there already.
pub(super) async fn add(
    State(site): State<Site>,
    JsonBody(new): JsonBody<NewVideo>,
) -> Result<Response, ApiError> {
    let added = site.library.add(new).await?;
    let status = if added.known { StatusCode::OK } else { StatusCode::CREATED };
    let location = format!("/api/v1/videos/{}", added.video.id.0);
    Ok((status, [(LOCATION, location)], Json(added)).into_response())
}

/// One video.
pub(super) async fn show(
    State(site): State<Site>,
    Named(id): Named,
) -> Result<Json<VideoView>, ApiError> {
    Ok(Json(site.library.view(&id).await?))
}

/// Its manifest; without the segments, which are nearly all of it, if they are not wanted.
pub(super) async fn manifest(
    State(site): State<Site>,
    Named(id): Named,
    Parameters(depth): Parameters<Depth>,
) -> Result<Json<Manifest>, ApiError> {
    let Some(mut manifest) = site.library.manifest(&id).await? else {
        return Err(not_ready(&id.0));
    };
    if !depth.segments {
        manifest.files.retain(|file| !file.path.ends_with(".m4s"));
    }
    Ok(Json(manifest))
}

/// Stops its tasks.
pub(super) async fn cancel(
    State(site): State<Site>,
    Named(id): Named,
) -> Result<Json<Video>, ApiError> {
    Ok(Json(site.library.cancel(&id).await?))
}

/// Says that a person has looked at it.
pub(super) async fn approve(
    State(site): State<Site>,
    Named(id): Named,
) -> Result<Json<Video>, ApiError> {
    Ok(Json(site.library.approve(&id).await?))
}

/// Removes it.
pub(super) async fn remove(
    State(site): State<Site>,
    Named(id): Named,
) -> Result<Json<Removed>, ApiError> {
    Ok(Json(Removed { bytes_at_most: site.library.remove(&id).await? }))
}

/// Removes what nobody uses, or tells what that would be.
pub(super) async fn sweep(
    State(site): State<Site>,
    JsonBody(sweep): JsonBody<Sweep>,
) -> Result<Json<Swept>, ApiError> {
    Ok(Json(site.library.sweep(sweep).await?))
}

/// The answer for files and manifests that are still made, or never will be.
pub(super) fn not_ready(id: &str) -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "not_ready",
        format!("video {id} is not published; GET /api/v1/videos/{id} says where it is"),
    )
}
