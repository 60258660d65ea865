//! `GET /videos/{id}/files/{path}`: the files of a published video, which are parts of blobs.
//!
//! A path is looked up in the manifest's list and nowhere else, so no path leads out of it.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use divvy::objects::{Objects, Wanted};
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::Mount;
use super::api::not_ready;
use super::error::ApiError;
use super::request::video_id;
use crate::library::Video;
use crate::manifest::FileEntry;

/// A file, or a part of it.
pub(super) async fn show(
    State(mount): State<Mount>,
    Path((id, path)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (id, objects) = (video_id(&id)?, mount.library()?.objects());
    let Some(video) = objects.record::<Video>(&id.record()).await? else {
        return Err(ApiError::no_video(&id.0));
    };
    let manifest = video.value.manifest.ok_or_else(|| not_ready(&id.0))?;
    let files = mount.shared.manifests.files(objects, manifest).await?;
    let file = files.get(&path).ok_or_else(|| {
        let path: String = path.chars().take(256).collect();
        ApiError::new(
            StatusCode::NOT_FOUND,
            "no_such_file",
            format!("video {} has no file `{path}`; its manifest lists those that it has", id.0),
        )
    })?;
    answer(objects, file, &method, &headers).await
}

async fn answer(
    objects: &Objects,
    file: &FileEntry,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let tag = format!("\"{}-{}-{}\"", file.blob, file.offset, file.length);
    let caching = [(ETAG, tag.clone()), (CACHE_CONTROL, caching(&file.path).to_owned())];
    let wanted = wanted(method, headers, &tag, file.length);
    let status = match wanted {
        Wanted::NotModified => return Ok((StatusCode::NOT_MODIFIED, caching).into_response()),
        Wanted::Whole => StatusCode::OK,
        Wanted::Part { .. } => StatusCode::PARTIAL_CONTENT,
        Wanted::Unsatisfiable => return Ok(unsatisfiable(file.length)),
    };
    let part = wanted.bytes(file.length);
    let (start, length) = (file.offset + part.start, part.end - part.start);
    let body = if *method == Method::HEAD {
        Body::empty()
    } else {
        // Only this part is read, wherever the blob is, and no more of it is in memory than is on its way.
        Body::from_stream(objects.open(file.blob, start..start + length).await?)
    };
    let mut response = (status, caching, body).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type(&file.path)));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Some(range) = wanted.content_range(file.length).and_then(|text| text.try_into().ok()) {
        headers.insert(CONTENT_RANGE, range);
    }
    Ok(response)
}

fn wanted(method: &Method, headers: &HeaderMap, tag: &str, length: u64) -> Wanted {
    let named = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    Wanted::new(method.as_str(), named, tag, length)
}

/// Whether the caller says that it has the file with this tag already.
pub(super) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    wanted(&Method::GET, headers, tag, 0) == Wanted::NotModified
}

fn unsatisfiable(length: u64) -> Response {
    let error = ApiError::new(
        StatusCode::RANGE_NOT_SATISFIABLE,
        "no_such_range",
        format!("the file has {length} bytes; ask for a range within them"),
    );
    let range = Wanted::Unsatisfiable.content_range(length).unwrap_or_default();
    ([(CONTENT_RANGE, range)], error).into_response()
}

/// Media never change under their path while a video is there; what lists them may, when a missing part is made later.
fn caching(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("m4s" | "mp4" | "jpg") => "private, max-age=31536000, immutable",
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
