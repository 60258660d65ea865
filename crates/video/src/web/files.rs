//! `GET /videos/{id}/files/{path}`: the files of a published video, which are parts of blobs.
//!
//! A path is looked up in the manifest's list and nowhere else, so no path leads out of it.

use std::io::SeekFrom;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use divvy::objects::Objects;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio_util::io::ReaderStream;

use super::Mount;
use super::api::not_ready;
use super::error::ApiError;
use super::range::{Wanted, is_known, wanted};
use super::request::video_id;
use crate::library::Video;
use crate::manifest::FileEntry;

/// Bytes that are read at once.
const BLOCK: usize = 64 << 10;

/// A file, or a part of it.
pub(super) async fn show(
    State(mount): State<Mount>,
    Path((id, path)): Path<(String, String)>,
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
    answer(objects, file, &headers).await
}

async fn answer(
    objects: &Objects,
    file: &FileEntry,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let tag = format!("\"{}-{}-{}\"", file.blob, file.offset, file.length);
    let caching = [(ETAG, tag.clone()), (CACHE_CONTROL, caching(&file.path).to_owned())];
    if is_known(headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, caching).into_response());
    }
    let (status, begin, length) = match wanted(headers, &tag, file.length) {
        Wanted::Whole => (StatusCode::OK, 0, file.length),
        Wanted::Part(begin, length) => (StatusCode::PARTIAL_CONTENT, begin, length),
        Wanted::Nothing => return Ok(no_such_part(file.length)),
    };
    let body = read(objects, file, begin, length).await?;
    let mut response = (status, caching, body).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type(&file.path)));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {begin}-{}/{}", begin + length - 1, file.length);
        if let Ok(value) = HeaderValue::try_from(range) {
            headers.insert(CONTENT_RANGE, value);
        }
    }
    Ok(response)
}

/// Streams a part of a file; no more than a block of it is in memory.
async fn read(
    objects: &Objects,
    file: &FileEntry,
    begin: u64,
    length: u64,
) -> Result<Body, ApiError> {
    let local = objects.local_file(file.blob).await?;
    let broken =
        |error| ApiError::broken(&format_args!("blob {} cannot be read: {error}", file.blob));
    let mut reader = File::open(local.path()).await.map_err(broken)?;
    reader.seek(SeekFrom::Start(file.offset + begin)).await.map_err(broken)?;
    let blocks = ReaderStream::with_capacity(reader.take(length), BLOCK);
    // The file is held open, and the blob with it, for as long as it is read.
    let blocks = futures_util::StreamExt::map(blocks, move |block| {
        let _held = &local;
        block
    });
    Ok(Body::from_stream(blocks))
}

fn no_such_part(length: u64) -> Response {
    let error = ApiError::new(
        StatusCode::RANGE_NOT_SATISFIABLE,
        "no_such_part",
        format!("the file has {length} bytes, and the range lies behind them"),
    );
    ([(CONTENT_RANGE, format!("bytes */{length}"))], error).into_response()
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
