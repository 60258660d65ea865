//! `GET /videos/{id}/files/{path}`: the files of a published video, which are parts of blobs.
//!
//! A path is looked up in the manifest's list and nowhere else, so no path leads out of it.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use divvy_http::ApiError;
use divvy_http::range::{Asked, FOR_EVER, Offer};
use http::{HeaderMap, Method, StatusCode};

use super::Site;
use super::error::{no_video, unreadable};
use super::request::video_id;
use super::videos::not_ready;
use crate::library::Video;

/// A file, or a part of it.
pub(super) async fn show(
    State(site): State<Site>,
    Path((id, path)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (id, objects) = (video_id(&id)?, site.library.objects());
    let Some(video) = objects.record::<Video>(&id.record()).await.map_err(unreadable)? else {
        return Err(no_video(&id.0));
    };
    let manifest = video.value.manifest.ok_or_else(|| not_ready(&id.0))?;
    let files = site.manifests.files(objects, manifest).await?;
    let file = files.get(&path).ok_or_else(|| {
        let path: String = path.chars().take(256).collect();
        ApiError::new(
            StatusCode::NOT_FOUND,
            "no_such_file",
            format!("video {} has no file `{path}`; its manifest lists those that it has", id.0),
        )
    })?;
    let offer = Offer {
        tag: format!("{}-{}-{}", file.blob, file.offset, file.length),
        size: file.length,
        content_type: content_type(&file.path),
        caching: caching(&file.path),
    };
    let part = match offer.asked(&method, &headers) {
        Asked::Answered(response) => return Ok(response),
        Asked::Bytes(part) => part,
    };
    let bytes = part.bytes();
    if bytes.is_empty() {
        return Ok(part.answer(Body::empty()));
    }
    // Only this part is read, wherever the blob is, and no more of it is in memory than is on its way.
    let range = file.offset + bytes.start..file.offset + bytes.end;
    let body = objects.open(file.blob, range).await.map_err(unreadable)?;
    Ok(part.answer(Body::from_stream(body)))
}

/// Media never change under their path while a video is there; what lists them may, when a missing part is made later.
fn caching(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("m4s" | "mp4" | "jpg") => FOR_EVER,
        _ => "private, no-cache",
    }
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("m3u8") => "application/vnd.apple.mpegurl",
        Some("m4s" | "mp4") if path.starts_with("a/") => "audio/mp4",
        Some("m4s" | "mp4") => "video/mp4",
        Some("vtt") => "text/vtt; charset=utf-8",
        Some("jpg") => "image/jpeg",
        Some("json") => "application/json",
        _ => "application/octet-stream",
    }
}
