//! Blobs: read whole or in part, stored under the hash of their bytes, removed.

use divvy_http::range::{Asked, FOR_EVER, Offer};
use divvy_http::{ApiError, PathText};
use std::ops::Range;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use divvy_objects::{Blob, BlobId, Error, Staged};
use futures_util::StreamExt as _;
use http::header::{CONTENT_LENGTH, HeaderMap};
use http::{Method, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio_util::io::ReaderStream;

use crate::app::App;
use crate::http::receive::{Sink, discard, receive};
use crate::objects::on_thread;

/// A blob that is stored in one request; a larger one is uploaded.
pub(crate) const PUT_BYTES_MAX: u64 = 64 << 20;
/// Bytes that are read at once for a caller.
const STEP: usize = 128 << 10;

/// What this server keeps, and how much it takes.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AboutObjects")]
pub(crate) struct About {
    identity: String,
    blob_bytes_max: u64,
    upload_bytes_max: u64,
    record_bytes_max: usize,
}

/// What became of a removal.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RemovedBlob")]
pub(crate) struct Removed {
    id: BlobId,
    removed: bool,
}

/// What this server keeps. A worker on the same machine tells by the identity whether a folder is the server's.
pub(crate) async fn about(State(app): State<App>) -> Result<Json<About>, ApiError> {
    let identity = app.objects()?.run(|stored| stored.folder.identity()).await?;
    Ok(Json(About {
        identity,
        blob_bytes_max: PUT_BYTES_MAX,
        upload_bytes_max: divvy_objects::UPLOAD_BYTES_MAX,
        record_bytes_max: divvy_objects::RECORD_BYTES_MAX,
    }))
}

/// A blob or a part of it.
pub(crate) async fn show(
    State(app): State<App>,
    PathText(id): PathText,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let id: BlobId = id.parse()?;
    let is_asked_for = method == Method::HEAD;
    let found = app.objects()?.run(move |stored| {
        if is_asked_for {
            // Whoever finds that a blob is here does not store it again, so no sweep may take it from under them.
            stored.folder.touch_blob(id)?;
        }
        stored.folder.open_blob(id)
    });
    let (blob, file) = found.await?;
    let offer = Offer {
        tag: id.to_string(),
        size: blob.size,
        content_type: "application/octet-stream",
        caching: FOR_EVER,
    };
    let part = match offer.asked(&method, &headers) {
        Asked::Answered(response) => return Ok(response),
        Asked::Bytes(part) => part,
    };
    let bytes = part.bytes();
    let body = if bytes.is_empty() { Body::empty() } else { stream(&app, file, bytes).await? };
    Ok(part.answer(body))
}

/// Stores a blob under its name, or finds that it is there.
pub(crate) async fn store(
    State(app): State<App>,
    PathText(id): PathText,
    request: Request,
) -> Result<(StatusCode, Json<Blob>), ApiError> {
    let stored = app.objects()?;
    let id: BlobId = id.parse()?;
    let declared = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if declared.is_some_and(|text| text.parse().is_ok_and(|length: u64| length > PUT_BYTES_MAX)) {
        return Err(Error::BlobTooLarge { max: PUT_BYTES_MAX }.into());
    }
    let body = request.into_body();
    if let Some(blob) = stored.run(move |stored| stored.folder.touch_blob(id)).await? {
        // An answer before the end of the body would be missed by most callers.
        discard(body, PUT_BYTES_MAX).await;
        return Ok((StatusCode::OK, Json(blob)));
    }
    let _room = stored.room()?;
    let staged = stored.run(|stored| Ok(Small(stored.folder.stage()?))).await?;
    let (staged, end) = receive(staged, body, &app.shutdown).await?;
    end?;
    let blob = on_thread(move || staged.0.finish(Some(id))).await?;
    Ok((StatusCode::CREATED, Json(blob)))
}

/// Removes a blob.
pub(crate) async fn remove(
    State(app): State<App>,
    PathText(id): PathText,
) -> Result<Json<Removed>, ApiError> {
    let id: BlobId = id.parse()?;
    if app.objects()?.run(move |stored| stored.folder.remove_blob(id)).await? {
        return Ok(Json(Removed { id, removed: true }));
    }
    Err(Error::NoBlob(id).into())
}

async fn stream(app: &App, file: std::fs::File, bytes: Range<u64>) -> Result<Body, ApiError> {
    let mut file = tokio::fs::File::from_std(file);
    file.seek(std::io::SeekFrom::Start(bytes.start)).await.map_err(|error| {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "disk_error", error.to_string())
    })?;
    let steps = ReaderStream::with_capacity(file.take(bytes.end - bytes.start), STEP);
    // A server that stops does not wait for a slow reader, who goes on with a range later.
    Ok(Body::from_stream(steps.take_until(app.shutdown.clone().cancelled_owned())))
}

/// A blob that must not grow too large.
struct Small(Staged);

impl Sink for Small {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.0.size() + bytes.len() as u64 > PUT_BYTES_MAX {
            return Err(Error::BlobTooLarge { max: PUT_BYTES_MAX });
        }
        self.0.write(bytes)
    }
}
