//! Uploads by the tus protocol 1.0: core, creation and termination. See <https://tus.io/protocols/resumable-upload>.
//!
//! Beyond it, a finished upload names its blob in `Divvy-Blob`; the same header in the request that begins one announces
//! the blob, and anything else is refused at the end. What arrived before a connection broke is kept.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use divvy_http::{ApiError, PathText};
use divvy_objects::{Error, NewUpload, UPLOAD_BYTES_MAX, Upload, UploadId};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION};
use http::{HeaderValue, StatusCode};
use schemars::JsonSchema;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::http::receive::receive;
use crate::objects::{Stored, on_thread};

/// The name of an upload, as the document tells it.
#[derive(JsonSchema)]
#[schemars(transparent, extend("pattern" = "^[0-9a-f]{32}$"))]
pub(crate) struct Id(#[expect(dead_code, reason = "only its schema is used")] String);

/// The version of the protocol, as the document tells it.
#[derive(JsonSchema)]
#[schemars(rename = "TusVersion")]
pub(crate) enum Version {
    /// The only one.
    #[schemars(rename = "1.0.0")]
    #[expect(dead_code, reason = "only its schema is used")]
    One,
}

const VERSION: HeaderValue = HeaderValue::from_static("1.0.0");
const TUS_RESUMABLE: HeaderName = HeaderName::from_static("tus-resumable");
const TUS_VERSION: HeaderName = HeaderName::from_static("tus-version");
const TUS_EXTENSION: HeaderName = HeaderName::from_static("tus-extension");
const TUS_MAX_SIZE: HeaderName = HeaderName::from_static("tus-max-size");
const UPLOAD_LENGTH: HeaderName = HeaderName::from_static("upload-length");
const UPLOAD_OFFSET: HeaderName = HeaderName::from_static("upload-offset");
const UPLOAD_METADATA: HeaderName = HeaderName::from_static("upload-metadata");
const DIVVY_BLOB: HeaderName = HeaderName::from_static("divvy-blob");
/// The type of a piece.
const PIECE: &str = "application/offset+octet-stream";

/// What this server can do.
pub(crate) async fn abilities() -> Response {
    let headers = [
        (TUS_VERSION, VERSION),
        (TUS_EXTENSION, HeaderValue::from_static("creation,termination")),
        (TUS_MAX_SIZE, HeaderValue::from(UPLOAD_BYTES_MAX)),
    ];
    speak(Ok((StatusCode::NO_CONTENT, headers).into_response()))
}

/// Begins an upload.
pub(crate) async fn create(State(app): State<App>, headers: HeaderMap) -> Response {
    speak(begin(&app, &headers).await)
}

/// Where an upload stands.
pub(crate) async fn show(
    State(app): State<App>,
    PathText(id): PathText,
    headers: HeaderMap,
) -> Response {
    speak(stand(&app, &id, &headers).await)
}

/// Goes on with an upload.
pub(crate) async fn append(
    State(app): State<App>,
    PathText(id): PathText,
    request: Request,
) -> Response {
    speak(go_on(&app, &id, request).await)
}

/// Gives an upload up.
pub(crate) async fn remove(
    State(app): State<App>,
    PathText(id): PathText,
    headers: HeaderMap,
) -> Response {
    speak(give_up(&app, &id, &headers).await)
}

async fn begin(app: &App, headers: &HeaderMap) -> Result<Response, ApiError> {
    check_version(headers)?;
    let stored = app.objects()?;
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let expected = text(DIVVY_BLOB).map(str::parse).transpose()?;
    let metadata = text(UPLOAD_METADATA).unwrap_or_default().to_owned();
    let new = NewUpload { length: number(headers, UPLOAD_LENGTH)?, metadata, expected };
    let upload = stored
        .run(|stored| {
            let upload = stored.uploads.create(new)?;
            match upload.length {
                // There is no piece to come that could end it.
                0 => stored.uploads.append(upload.id, 0)?.finish(),
                _ => Ok(upload),
            }
        })
        .await?;
    let place = format!("/api/v1/uploads/{}", upload.id);
    let mut response = describe(StatusCode::CREATED, &upload);
    response.headers_mut().insert(LOCATION, HeaderValue::try_from(place).expect("plain text"));
    Ok(response)
}

async fn stand(app: &App, id: &str, headers: &HeaderMap) -> Result<Response, ApiError> {
    check_version(headers)?;
    let id: UploadId = id.parse()?;
    let upload = app.objects()?.run(move |stored| stored.uploads.upload(id)).await?;
    let mut response = describe(StatusCode::OK, &upload);
    let answer = response.headers_mut();
    answer.insert(UPLOAD_LENGTH, HeaderValue::from(upload.length));
    if let Some(metadata) =
        HeaderValue::try_from(upload.metadata).ok().filter(|value| !value.is_empty())
    {
        answer.insert(UPLOAD_METADATA, metadata);
    }
    Ok(response)
}

async fn go_on(app: &App, id: &str, request: Request) -> Result<Response, ApiError> {
    let headers = request.headers();
    check_version(headers)?;
    let stored = app.objects()?.clone();
    let id: UploadId = id.parse()?;
    if headers.get(CONTENT_TYPE).is_none_or(|value| value.as_bytes() != PIECE.as_bytes()) {
        let message = format!("a piece of an upload must have the header Content-Type: {PIECE}");
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(ApiError::new(status, "unsupported_media_type", message));
    }
    let offset = number(headers, UPLOAD_OFFSET)?;
    let declared = headers.get(CONTENT_LENGTH).map(|_| number(headers, CONTENT_LENGTH));
    let piece = Piece { id, offset, declared: declared.transpose()? };
    // A handler ends with its connection. This must go on, to keep what arrived before that broke.
    let (body, shutdown) = (request.into_body(), app.shutdown.clone());
    let taking = tokio::spawn(async move { piece.take(&stored, body, &shutdown).await });
    let stopping = |_| ApiError::from(divvy_engine::Error::Stopping);
    let upload = taking.await.map_err(stopping)??;
    Ok(describe(StatusCode::NO_CONTENT, &upload))
}

async fn give_up(app: &App, id: &str, headers: &HeaderMap) -> Result<Response, ApiError> {
    check_version(headers)?;
    let id: UploadId = id.parse()?;
    app.objects()?.run(move |stored| stored.uploads.remove(id)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A piece that someone sends.
struct Piece {
    id: UploadId,
    offset: u64,
    declared: Option<u64>,
}

impl Piece {
    async fn take(
        self,
        stored: &Stored,
        body: Body,
        shutdown: &CancellationToken,
    ) -> Result<Upload, ApiError> {
        let Self { id, offset, declared } = self;
        let _room = stored.room()?;
        let appending = stored
            .run(move |stored| {
                let appending = stored.uploads.append(id, offset)?;
                if declared.is_some_and(|length| length > appending.missing()) {
                    let length = appending.offset() + appending.missing();
                    return Err(Error::UploadTooLong { id, length });
                }
                Ok(appending)
            })
            .await?;
        let (appending, end) = receive(appending, body, shutdown).await?;
        let upload = on_thread(move || appending.finish()).await?;
        // All of it may have arrived although the body did not end well.
        if upload.blob.is_none() {
            end?;
        }
        Ok(upload)
    }
}

fn describe(status: StatusCode, upload: &Upload) -> Response {
    let mut response = status.into_response();
    let answer = response.headers_mut();
    answer.insert(UPLOAD_OFFSET, HeaderValue::from(upload.offset));
    if let Some(blob) = upload.blob {
        let name = HeaderValue::try_from(blob.id.to_string()).expect("a hash");
        answer.insert(DIVVY_BLOB, name);
    }
    response
}

/// Every answer says which protocol it speaks, refusals too.
fn speak(answer: Result<Response, ApiError>) -> Response {
    let mut response = answer.unwrap_or_else(IntoResponse::into_response);
    let headers = response.headers_mut();
    headers.insert(TUS_RESUMABLE, VERSION);
    if response.status() == StatusCode::PRECONDITION_FAILED {
        response.headers_mut().insert(TUS_VERSION, VERSION);
    }
    response
}

fn check_version(headers: &HeaderMap) -> Result<(), ApiError> {
    if headers.get(TUS_RESUMABLE) == Some(&VERSION) {
        return Ok(());
    }
    let message = "uploads speak the tus protocol; send the header Tus-Resumable: 1.0.0";
    Err(ApiError::new(StatusCode::PRECONDITION_FAILED, "tus_version", message))
}

fn number(headers: &HeaderMap, name: HeaderName) -> Result<u64, ApiError> {
    let text = headers.get(&name).and_then(|value| value.to_str().ok());
    text.filter(|text| text.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| ApiError::field(name.as_str(), "must be given as a whole number of bytes"))
}
