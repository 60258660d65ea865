//! Reads JSON bodies so that every fault is told in the one shape, with its place.
//!
//! A body that is too large, or finds no room, is read to its end without being kept (up to a bound): a server that answers and hangs
//! up while the caller still sends makes most callers miss the answer.
//!
//! What arrives takes room from what all bodies have together ([`BodyRoom`]) piece by piece, as it comes, and keeps it
//! until nobody holds the body any more. A large body is parsed on a thread that may be busy for a while.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use bytes::{Bytes, BytesMut};
use divvy_types::limits::MESSAGE_BYTES_MAX;
use http::StatusCode;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use http_body_util::BodyExt as _;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::de::SliceRead;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::ApiError;

/// How long a body may take to arrive.
const BODY_WITHIN: Duration = Duration::from_secs(30);
/// How much of a body that is too large is read before the caller is cut off, as a multiple of what is allowed.
const DISCARD_FACTOR: usize = 2;

/// Bytes of a body that is read into a form; only what is read in another way may be larger.
const FORM_BYTES_MAX: usize = 2 << 20;
/// Bytes that are parsed at once beside other requests.
const PARSED_BESIDE_MAX: usize = 256 << 10;
/// Bytes of a body that need no room, and for which room is taken at once then.
const PIECE_BYTES: usize = 256 << 10;
/// How long a body waits for room before its caller is told to slow down, and for how long then.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY_AFTER_MS: u64 = 1_000;

/// Room for bodies that arrive or are being read, of all requests together; an extension of requests. Without it there
/// is no common bound.
#[derive(Clone, Debug)]
pub struct BodyRoom {
    pieces: Arc<Semaphore>,
    patience: Duration,
}

impl BodyRoom {
    /// Room for so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { pieces: Arc::new(Semaphore::new(bytes / PIECE_BYTES)), patience: PATIENCE }
    }

    async fn piece(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let room = Arc::clone(&self.pieces).acquire_owned();
        match tokio::time::timeout(self.patience, room).await {
            Ok(Ok(piece)) => Ok(piece),
            _ => Err(ApiError::new(
                StatusCode::TOO_MANY_REQUESTS,
                "overloaded",
                "too many large bodies arrive at once; try again later",
            )
            .with_retry_after_ms(RETRY_AFTER_MS)),
        }
    }
}

/// A body and its room, which is given back with it.
struct Housed {
    bytes: BytesMut,
    #[expect(dead_code, reason = "held for its drop")]
    room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Housed {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes that a body may have, where that is less than a message may have at all; see [`crate::Routes`].
#[derive(Clone, Copy)]
pub(crate) struct BodyMax(pub(crate) usize);

/// A JSON body. An absent one is allowed where every field is optional: it reads as `{}`.
#[derive(Debug)]
pub struct JsonBody<T>(pub T);

/// The bytes of a JSON body, not parsed yet; empty if there was none.
#[derive(Debug)]
pub struct JsonBytes(pub Bytes);

/// The type of a body that is bytes and nothing more.
pub(crate) const RAW: &str = "application/octet-stream";

/// The bytes of a body that is nothing more; empty if there was none.
#[derive(Debug)]
pub struct RawBytes(pub Bytes);

/// An empty object: the body of an action that needs no more words.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoFields {}

impl<S: Send + Sync> FromRequest<S> for JsonBytes {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        read_json(request, MESSAGE_BYTES_MAX).await.map(Self)
    }
}

impl<S: Send + Sync> FromRequest<S> for RawBytes {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let is_raw = essence(request.headers()).is_some_and(|essence| essence == RAW);
        let bytes = read(request, MESSAGE_BYTES_MAX).await?;
        if !bytes.is_empty() && !is_raw { Err(unsupported(RAW)) } else { Ok(Self(bytes)) }
    }
}

impl<T: DeserializeOwned + Send + 'static, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let bytes = read_json(request, FORM_BYTES_MAX).await?;
        let bytes = if bytes.is_empty() { Bytes::from_static(b"{}") } else { bytes };
        apart(bytes, parse).await.map(Self)
    }
}

/// Reads the bytes of a body: at once if they are few, else on a thread that keeps nobody waiting.
///
/// # Errors
/// Those of `read`, or if the server stops.
pub async fn apart<T: Send + 'static>(
    bytes: Bytes,
    read: impl FnOnce(&[u8]) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    if bytes.len() <= PARSED_BESIDE_MAX {
        return read(&bytes);
    }
    let answer = on_thread(Box::new(move || Box::new(read(&bytes)))).await?;
    *answer.downcast::<Result<T, ApiError>>().expect("the work gives this type")
}

/// What a thread is given to do, as one type: the runtime's side of a thread is compiled anew for every type of work.
type Work = Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>;

async fn on_thread(work: Work) -> Result<Box<dyn Any + Send>, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| {
        let message = "the server stops; try again when it is back";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", message)
    })
}

/// Refuses a body that is larger than any form.
///
/// # Errors
/// If it is.
pub fn form(bytes: Bytes) -> Result<Bytes, ApiError> {
    if bytes.len() > FORM_BYTES_MAX { Err(too_large(FORM_BYTES_MAX)) } else { Ok(bytes) }
}

async fn read_json(request: Request, max: usize) -> Result<Bytes, ApiError> {
    let is_json = is_json(request.headers());
    let bytes = read(request, max).await?;
    if !bytes.is_empty() && !is_json { Err(unsupported("application/json")) } else { Ok(bytes) }
}

async fn read(request: Request, max: usize) -> Result<Bytes, ApiError> {
    let declared = declared_length(request.headers());
    let max = request.extensions().get::<BodyMax>().map_or(max, |own| own.0.min(max));
    let room = request.extensions().get::<BodyRoom>().cloned();
    let read = read_whole(request.into_body(), declared, max, room);
    tokio::time::timeout(BODY_WITHIN, read).await.map_err(|_| {
        let message = format!("the body did not arrive within {} seconds", BODY_WITHIN.as_secs());
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", message)
    })?
}

fn unsupported(wanted: &str) -> ApiError {
    let what = if wanted == RAW { "plain bytes" } else { "JSON" };
    let message = format!("the body must be {what}; send the header Content-Type: {wanted}");
    ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
}

/// Parses JSON; an error says where and, for a well-formed document, which field.
///
/// # Errors
/// `malformed_json` for what is no JSON, `invalid_field` for what does not have the form of `T`.
pub fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, ApiError> {
    let mut reader = object_reader(text)?;
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        explain(&error.into_inner(), path)
    })?;
    reader.end().map_err(|error| explain(&error, ".".into()))?;
    Ok(value)
}

/// Serde would read a list as the fields of an object in their order, which no caller can mean.
fn object_reader(text: &[u8]) -> Result<serde_json::Deserializer<SliceRead<'_>>, ApiError> {
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    if first.is_some_and(|first| matches!(first, b'[' | b'"' | b'0'..=b'9' | b'-')) {
        let message = "the body must be a JSON object: {…}";
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_field", message));
    }
    Ok(serde_json::Deserializer::from_slice(text))
}

fn explain(error: &serde_json::Error, path: String) -> ApiError {
    if !error.is_data() {
        return ApiError::new(
            StatusCode::BAD_REQUEST,
            "malformed_json",
            format!("the body is not valid JSON: {error}"),
        );
    }
    let text = error.to_string();
    match field_of(&text, path) {
        Some(field) => {
            ApiError::new(StatusCode::BAD_REQUEST, "invalid_field", format!("{field}: {text}"))
                .with_field(field)
        }
        None => ApiError::new(StatusCode::BAD_REQUEST, "invalid_field", text),
    }
}

/// The path of a fault. That of a missing or repeated field may end at its object; the field itself is in the text.
fn field_of(text: &str, path: String) -> Option<String> {
    let named = ["missing field `", "duplicate field `"].into_iter();
    let named = named.filter_map(|start| text.strip_prefix(start)?.split_once('`')).next();
    match (named, path.as_str()) {
        (Some((field, _)), ".") => Some(field.to_owned()),
        (Some((field, _)), within) if ends_with(within, field) => Some(path),
        (Some((field, _)), within) => Some(format!("{within}.{field}")),
        (None, ".") => None,
        (None, _) => Some(path),
    }
}

fn ends_with(path: &str, field: &str) -> bool {
    path.rsplit('.').next() == Some(field)
}

fn is_json(headers: &HeaderMap) -> bool {
    essence(headers).is_some_and(|essence| {
        essence == "application/json"
            || (essence.starts_with("application/") && essence.ends_with("+json"))
    })
}

/// What a body is by its header, without its parameters.
fn essence(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

fn declared_length(headers: &HeaderMap) -> usize {
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    length.and_then(|text| text.parse().ok()).unwrap_or(0)
}

async fn read_whole(
    mut body: Body,
    declared: usize,
    max: usize,
    common: Option<BodyRoom>,
) -> Result<Bytes, ApiError> {
    let mut kept = BytesMut::with_capacity(declared.min(64 << 10));
    let mut room: Option<OwnedSemaphorePermit> = None;
    let mut refused = None;
    let (mut seen, mut paid) = (0usize, PIECE_BYTES);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            ApiError::new(
                StatusCode::BAD_REQUEST,
                "body_broken",
                format!("the body broke off: {error}"),
            )
        })?;
        let Ok(data) = frame.into_data() else { continue };
        seen = seen.saturating_add(data.len());
        if seen / DISCARD_FACTOR > max {
            break;
        }
        let is_kept = seen <= max && declared <= max && refused.is_none();
        let common = common.as_ref().filter(|_| is_kept);
        while let Some(common) = common.filter(|_| paid < seen) {
            match (common.piece().await, &mut room) {
                (Ok(piece), Some(room)) => room.merge(piece),
                (Ok(piece), None) => room = Some(piece),
                (Err(error), _) => {
                    refused = Some(error);
                    break;
                }
            }
            paid += PIECE_BYTES;
        }
        if !is_kept || refused.is_some() {
            (kept, room) = (BytesMut::new(), None);
        } else {
            kept.extend_from_slice(&data);
        }
    }
    if seen > max {
        return Err(too_large(max));
    }
    if let Some(refused) = refused {
        return Err(refused);
    }
    Ok(match room {
        Some(room) => Bytes::from_owner(Housed { bytes: kept, room }),
        None => kept.freeze(),
    })
}

fn too_large(max: usize) -> ApiError {
    let message = format!("the body is larger than {max} bytes; send less at once");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[expect(dead_code, reason = "only read by serde")]
        count: u8,
        #[serde(default)]
        #[expect(dead_code, reason = "only read by serde")]
        rows: Vec<Row>,
    }

    #[derive(Debug, serde::Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Row {
        #[expect(dead_code, reason = "only read by serde")]
        name: String,
    }

    #[tokio::test]
    async fn a_body_takes_room_while_it_is_held_and_gives_it_back() {
        let common = BodyRoom { patience: Duration::from_millis(5), ..BodyRoom::new(1 << 20) };
        let read = |bytes: usize, common: &BodyRoom| {
            let body = Body::from(vec![b'x'; bytes]);
            read_whole(body, bytes, 2 << 20, Some(common.clone()))
        };
        let small = read(PIECE_BYTES, &common).await.unwrap();
        assert_eq!((small.len(), common.pieces.available_permits()), (PIECE_BYTES, 4));
        let large = read(1 << 20, &common).await.unwrap();
        let part = large.slice(..5);
        drop(large);
        assert_eq!(common.pieces.available_permits(), 1, "a part holds all of it");
        let refused = read(1 << 20, &common).await.unwrap_err();
        assert_eq!((refused.status().as_u16(), refused.code()), (429, "overloaded"));
        drop(part);
        assert_eq!(common.pieces.available_permits(), 4, "what was refused holds nothing either");
        assert!(read((2 << 20) + 1, &common).await.is_err());
        assert_eq!(common.pieces.available_permits(), 4);
    }

    #[tokio::test]
    async fn plain_bytes_say_that_they_are() {
        let read = |media: &'static str, body: &'static str| {
            let request = Request::builder().header(CONTENT_TYPE, media).body(Body::from(body));
            RawBytes::from_request(request.unwrap(), &())
        };
        let RawBytes(bytes) = read("application/octet-stream; x=y", "abc").await.unwrap();
        assert_eq!(bytes, "abc");
        let error = read("application/json", "abc").await.unwrap_err();
        assert_eq!((error.status().as_u16(), error.code()), (415, "unsupported_media_type"));
        assert!(error.message().contains("plain bytes"), "{}", error.message());
        assert!(read("application/json", "").await.is_ok(), "nothing is of no type");
    }

    fn refusal(text: &str) -> serde_json::Value {
        let error = parse::<Sample>(text.as_bytes()).unwrap_err();
        serde_json::json!({"code": error.code(), "message": error.message(), "field": error.field_name()})
    }

    #[test]
    fn every_fault_names_its_place() {
        let cases = [
            (r#"{"count":1"#, "malformed_json", "column 10", None),
            (r#"{"count":1} x"#, "malformed_json", "column 13", None),
            (r#"{"count":"x"}"#, "invalid_field", "expected u8", Some("count")),
            (r#"{"count":300}"#, "invalid_field", "expected u8", Some("count")),
            (r#"{"rows":[]}"#, "invalid_field", "missing field `count`", Some("count")),
            (r#"{"count":1,"cuont":2}"#, "invalid_field", "unknown field `cuont`", Some("cuont")),
            (
                r#"{"count":1,"rows":[{"name":"a"},{"name":7}]}"#,
                "invalid_field",
                "expected a string",
                Some("rows[1].name"),
            ),
            (
                r#"{"count":1,"rows":[{"name":"a","nam":7}]}"#,
                "invalid_field",
                "unknown field `nam`",
                Some("rows[0].nam"),
            ),
        ];
        for (text, code, words, field) in cases {
            let found = refusal(text);
            assert_eq!(found["code"], code, "{text}: {found}");
            assert!(found["message"].as_str().unwrap().contains(words), "{text}: {found}");
            assert_eq!(found["field"].as_str(), field, "{text}: {found}");
        }
    }
}
