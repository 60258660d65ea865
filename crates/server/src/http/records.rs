//! Records: small named JSON documents, created once or replaced by who knows what was there.
//!
//! The version of a record is its entity tag, so the conditions are those of HTTP: `If-None-Match: *` creates,
//! `If-Match: "VERSION"` replaces, and neither writes whatever was there.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use divvy_http::{ApiError, JsonBytes, Parameters, PathText, apart, rows};
use divvy_objects::{RecordName, Version};
use divvy_types::limits::PAGE_ROWS_MAX;
use divvy_types::view::Page;
use http::header::{CONTENT_TYPE, ETAG, HeaderMap, HeaderName, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::app::App;

/// Which records are wanted.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Listing {
    /// Only names that begin with this.
    #[schemars(
        regex(
            pattern = r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,249}(/[A-Za-z0-9_-][A-Za-z0-9._-]{0,249})*/?$"
        ),
        length(max = 256)
    )]
    prefix: String,
    /// What `next` of the page before said.
    after: Option<RecordName>,
    /// How many at most.
    #[schemars(range(min = 1, max = PAGE_ROWS_MAX))]
    limit: Option<usize>,
}

/// What `If-None-Match` says of a record that must be new, as the document tells it.
#[derive(JsonSchema)]
pub(crate) enum Anything {
    /// Whatever it is.
    #[schemars(rename = "*")]
    #[expect(dead_code, reason = "only its schema is used")]
    Star,
}

/// What a record holds: any JSON.
#[derive(JsonSchema)]
#[schemars(rename = "RecordData")]
pub(crate) struct Data(#[expect(dead_code, reason = "only its schema is used")] Value);

/// A record that was written.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "WrittenRecord")]
pub(crate) struct Written {
    name: RecordName,
    version: Version,
}

/// What became of a removal.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RemovedRecord")]
pub(crate) struct Removed {
    name: RecordName,
    removed: bool,
}

/// What must be there for a write.
#[derive(Clone, Copy)]
enum Condition {
    Any,
    Is(Option<Version>),
}

/// The names of records below a prefix, in order.
pub(crate) async fn list(
    State(app): State<App>,
    Parameters(listing): Parameters<Listing>,
) -> Result<Json<Page<RecordName>>, ApiError> {
    let Listing { prefix, after, limit } = listing;
    let limit = rows(limit, PAGE_ROWS_MAX, PAGE_ROWS_MAX)?;
    let mut items = app
        .objects()?
        .run(move |stored| stored.folder.record_names(&prefix))
        .await
        .map_err(|error| error.with_field("prefix"))?;
    if let Some(after) = after {
        items.drain(..items.partition_point(|name| *name <= after));
    }
    let has_more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| has_more).map(ToString::to_string);
    Ok(Json(Page { items, next, partial: false }))
}

/// A record.
pub(crate) async fn show(
    State(app): State<App>,
    PathText(name): PathText,
) -> Result<Response, ApiError> {
    let name: RecordName = name.parse()?;
    let wanted = name.clone();
    let found = app.objects()?.run(move |stored| stored.folder.record(&wanted)).await?;
    let (bytes, version) = found.ok_or_else(|| no_record(&name))?;
    let headers =
        [(CONTENT_TYPE, HeaderValue::from_static("application/json")), (ETAG, tag(version))];
    Ok((headers, bytes).into_response())
}

/// Writes a record, under a condition if one is given.
pub(crate) async fn write(
    State(app): State<App>,
    PathText(name): PathText,
    headers: HeaderMap,
    JsonBytes(body): JsonBytes,
) -> Result<Response, ApiError> {
    let name: RecordName = name.parse()?;
    let condition = condition(&headers)?;
    let check = |body: &[u8]| {
        serde_json::from_slice::<IgnoredAny>(body).map_err(|error| {
            let message = format!("the body is not valid JSON: {error}");
            ApiError::new(StatusCode::BAD_REQUEST, "malformed_json", message)
        })
    };
    apart(body.clone(), check).await?;
    let (version, wanted) = (Version::of(&body), name.clone());
    let is_written = app
        .objects()?
        .run(move |stored| match condition {
            Condition::Any => stored.folder.put_record(&wanted, &body).map(|()| true),
            Condition::Is(expected) => stored.folder.replace_record(&wanted, expected, &body),
        })
        .await?;
    if !is_written {
        let message =
            format!("record `{name}` is not as the request expects; read it again and decide anew");
        return Err(ApiError::new(StatusCode::PRECONDITION_FAILED, "record_changed", message));
    }
    let status = match condition {
        Condition::Is(None) => StatusCode::CREATED,
        _ => StatusCode::OK,
    };
    Ok((status, [(ETAG, tag(version))], Json(Written { name, version })).into_response())
}

/// Removes a record.
pub(crate) async fn remove(
    State(app): State<App>,
    PathText(name): PathText,
) -> Result<Json<Removed>, ApiError> {
    let name: RecordName = name.parse()?;
    let wanted = name.clone();
    if app.objects()?.run(move |stored| stored.folder.remove_record(&wanted)).await? {
        return Ok(Json(Removed { name, removed: true }));
    }
    Err(no_record(&name))
}

fn condition(headers: &HeaderMap) -> Result<Condition, ApiError> {
    match (headers.get(IF_NONE_MATCH), headers.get(IF_MATCH)) {
        (None, None) => Ok(Condition::Any),
        (Some(any), None) if any.as_bytes() == b"*" => Ok(Condition::Is(None)),
        (Some(_), None) => Err(bad_condition(IF_NONE_MATCH, "must be * for a write")),
        (None, Some(tag)) => {
            let text = tag.to_str().unwrap_or_default();
            let version = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
            match version.map(str::parse) {
                Some(Ok(version)) => Ok(Condition::Is(Some(version))),
                _ => Err(bad_condition(
                    IF_MATCH,
                    "must be one version in quotes, as the ETag of the record gives it",
                )),
            }
        }
        (Some(_), Some(_)) => Err(bad_condition(IF_MATCH, "and If-None-Match exclude each other")),
    }
}

fn bad_condition(header: HeaderName, problem: &str) -> ApiError {
    ApiError::field(header.as_str(), problem)
}

fn no_record(name: &RecordName) -> ApiError {
    let message = format!("record `{name}` is not here; it was never written, or was removed");
    ApiError::new(StatusCode::NOT_FOUND, "no_such_record", message)
}

fn tag(version: Version) -> HeaderValue {
    HeaderValue::try_from(format!("\"{version}\"")).expect("a hash in quotes")
}
