//! `/api/v1/flows/{id}/work`: what workers that do not see the server's folder of jobs read and write of a job. Which file
//! is meant, and whether it is given out, is decided by [`crate::jobs`].

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use divvy_http::range::Offer;
use divvy_http::{ApiError, Id, Parameters, RawBytes, Route, Scope, get, put};
use divvy_workload::files::FolderError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Site;
use super::error::RETRY_AFTER_MS;
use crate::job::remote::PIECE_BYTES_MAX;
use crate::job::{AttemptName, Spec, StageDone, Written};
use crate::jobs::JobsError;
use crate::jobs::remote::{Piece, WRITTEN_BYTES_MAX};

const BYTES: &str = "application/octet-stream";
const JSON: &str = "application/json";

/// The addresses for workers.
pub(super) fn table() -> Vec<Route<Site>> {
    vec![
        get("/api/v1/flows/folder", folder).scope(Scope::Work).summary(
            "Which folder of jobs this server has, so that a worker can tell whether it sees it",
        ),
        reading(get("/api/v1/flows/{id}/work/job", job))
            .gives::<Spec>()
            .summary("What a job was asked to do, for its workers"),
        reading(get("/api/v1/flows/{id}/work/stages/{stage}", stage))
            .gives::<StageDone>()
            .summary("What became of a stage, for workers of the next"),
        reading(get("/api/v1/flows/{id}/work/inputs/{number}", input))
            .gives_media(BYTES)
            .summary("A file of the job's input, if it is as it was and jobs may read it")
            .refuses([403, 409]),
        reading(get("/api/v1/flows/{id}/work/shuffle/{stage}/{attempt}", shuffle))
            .gives_media(BYTES)
            .summary("What an attempt wrote for the next stage"),
        writing(put("/api/v1/flows/{id}/work/shuffle/{stage}/{attempt}", take_shuffle))
            .summary("Hand over what an attempt wrote for the next stage, piece by piece"),
        writing(put("/api/v1/flows/{id}/work/output/{number}/{attempt}", take_output))
            .summary("Hand over a file of the result that an attempt wrote, piece by piece"),
    ]
}

fn reading(route: Route<Site>) -> Route<Site> {
    route
        .scope(Scope::Work)
        .header("Range", "One range, such as `bytes=0-1023`.")
        .header("If-None-Match", "The tag of the file.")
        .header("If-Range", "The tag of the file.")
        .answers([200, 206, 304])
        .refuses([404, 416])
}

fn writing(route: Route<Site>) -> Route<Site> {
    route.scope(Scope::Work).refuses([404, 409, 422, 507])
}

/// Which folder of jobs a server has.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FlowFolder")]
pub(super) struct About {
    /// What its link `identity` says.
    identity: String,
}

/// Says which folder of jobs this is.
pub(super) async fn folder(State(site): State<Site>) -> Json<About> {
    Json(About { identity: site.jobs.identity().to_owned() })
}

/// What a job was asked to do.
pub(super) async fn job(
    State(site): State<Site>,
    Id(id): Id,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    site.jobs.kept_spec(&id)?;
    Offered::new(site.jobs.folder(&id).job(), JSON).give(&method, &headers).await
}

/// What became of a stage.
pub(super) async fn stage(
    State(site): State<Site>,
    Path((id, stage)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    site.jobs.kept_spec(&id)?;
    let Ok(stage) = stage.parse() else { return Err(no_file("the stage is no number")) };
    Offered::new(site.jobs.folder(&id).done(stage), JSON).give(&method, &headers).await
}

/// A file of the job's input.
pub(super) async fn input(
    State(site): State<Site>,
    Path((id, number)): Path<(String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let Ok(number) = number.parse() else { return Err(no_file("the input is no number")) };
    let path = site.jobs.input(&id, number, &site.readable)?;
    Offered::new(path, BYTES).give(&method, &headers).await
}

/// What an attempt wrote for the next stage.
pub(super) async fn shuffle(
    State(site): State<Site>,
    Path((id, stage, attempt)): Path<(String, String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    site.jobs.kept_spec(&id)?;
    let attempt = attempt_of(&attempt)?;
    let Ok(stage) = stage.parse() else { return Err(no_file("the stage is no number")) };
    let path = Written::Shuffle { stage, attempt }.path(&site.jobs.folder(&id));
    Offered::new(path, BYTES).give(&method, &headers).await
}

/// A piece of a file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PieceOf {
    /// Where in the file it begins.
    #[schemars(range(max = WRITTEN_BYTES_MAX))]
    offset: u64,
    /// With the last piece: the xxh3 of the whole file, as 16 hexadecimal digits.
    #[schemars(regex(pattern = "^[0-9a-f]{16}$"))]
    xxh3: Option<String>,
}

/// What of a file is here.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FlowTaken")]
pub(super) struct Taken {
    /// So many bytes.
    bytes: u64,
}

/// Takes a piece of what an attempt wrote for the next stage.
pub(super) async fn take_shuffle(
    State(site): State<Site>,
    Path((id, stage, attempt)): Path<(String, String, String)>,
    Parameters(about): Parameters<PieceOf>,
    RawBytes(bytes): RawBytes,
) -> Result<Json<Taken>, ApiError> {
    let attempt = attempt_of(&attempt)?;
    let Ok(stage) = stage.parse() else { return Err(no_file("the stage is no number")) };
    take(site, id, Written::Shuffle { stage, attempt }, about, bytes).await
}

/// Takes a piece of a file of the result.
pub(super) async fn take_output(
    State(site): State<Site>,
    Path((id, number, attempt)): Path<(String, String, String)>,
    Parameters(about): Parameters<PieceOf>,
    RawBytes(bytes): RawBytes,
) -> Result<Json<Taken>, ApiError> {
    let attempt = attempt_of(&attempt)?;
    let Ok(number) = number.parse() else { return Err(no_file("the file is no number")) };
    take(site, id, Written::Output { number, attempt }, about, bytes).await
}

async fn take(
    site: Site,
    id: String,
    written: Written,
    piece: PieceOf,
    bytes: Bytes,
) -> Result<Json<Taken>, ApiError> {
    if bytes.len() > PIECE_BYTES_MAX {
        let message =
            format!("the piece is larger than {PIECE_BYTES_MAX} bytes; send less at once");
        return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message));
    }
    let is_hash =
        |text: &str| text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    if piece.xxh3.as_deref().is_some_and(|text| !is_hash(text)) {
        return Err(ApiError::field("xxh3", "must be 16 hexadecimal digits"));
    }
    // Disks are waited for on a thread that keeps nobody waiting.
    let taken = on_thread(move || {
        let piece = Piece { offset: piece.offset, bytes: &bytes, xxh3: piece.xxh3.as_deref() };
        site.jobs.take(&id, written, &piece)
    });
    Ok(Json(Taken { bytes: taken.await? }))
}

async fn on_thread(
    work: impl FnOnce() -> Result<u64, JobsError> + Send + 'static,
) -> Result<u64, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    let stopping = |_| {
        let message = "the server stops; try again when it is back";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", message)
            .with_retry_after_ms(RETRY_AFTER_MS)
    };
    Ok(done.map_err(stopping)??)
}

/// A file of which any part may be asked for.
struct Offered {
    path: PathBuf,
    content_type: &'static str,
}

impl Offered {
    fn new(path: PathBuf, content_type: &'static str) -> Self {
        Self { path, content_type }
    }

    async fn give(self, method: &Method, headers: &HeaderMap) -> Result<Response, ApiError> {
        let about = tokio::fs::metadata(&self.path).await.map_err(|error| self.refusal(error))?;
        let changed = about.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let offer = Offer {
            tag: format!("{}-{}", about.len(), changed.unwrap_or_default().as_nanos()),
            size: about.len(),
            content_type: self.content_type,
            caching: "private, no-cache",
        };
        let answer = offer.of_file(&self.path, method, headers).await;
        answer.map_err(|error| self.refusal(error))
    }

    fn refusal(&self, error: std::io::Error) -> ApiError {
        match error.kind() {
            ErrorKind::NotFound => {
                no_file(format!("{}: there is no such file", self.path.display()))
            }
            _ => JobsError::Folder(FolderError::new(&self.path, error)).into(),
        }
    }
}

fn attempt_of(text: &str) -> Result<AttemptName, ApiError> {
    text.parse().map_err(|error| no_file(format!("the attempt {error}")))
}

fn no_file(problem: impl Into<String>) -> ApiError {
    JobsError::NoFile(problem.into()).into()
}

#[cfg(test)]
mod tests;
