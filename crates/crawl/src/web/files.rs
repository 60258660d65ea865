//! `/api/v1/crawls/{id}/output`: what a crawl has written, as far as its shards have committed it. Files grow while the
//! crawl goes on; what was given out is never changed later.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::Response;
use divvy_http::range::Offer;
use divvy_http::{ApiError, Id};
use http::{HeaderMap, Method, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Site;
use crate::crawls::CrawlsError;

/// A file that a shard has written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CrawlFile")]
pub(crate) struct OutputFile {
    /// The shard.
    pub(crate) shard: u32,
    /// Its name.
    pub(crate) name: String,
    /// How much of it is committed.
    pub(crate) bytes: u64,
}

/// Files.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CrawlFiles")]
pub(crate) struct OutputFiles {
    /// The files by shard and name.
    pub(crate) items: Vec<OutputFile>,
}

/// The files of a crawl.
pub(super) async fn list(
    State(site): State<Site>,
    Id(id): Id,
) -> Result<Json<OutputFiles>, ApiError> {
    let spec = site.crawls.spec(&id)?;
    let mut items = Vec::new();
    for status in site.crawls.statuses(&spec) {
        let shard = status.shard;
        items.extend(status.outputs.into_iter().map(|(name, bytes)| OutputFile {
            shard,
            name,
            bytes,
        }));
    }
    Ok(Json(OutputFiles { items }))
}

/// One file.
pub(super) async fn show(
    State(site): State<Site>,
    Path((id, shard, file)): Path<(String, String, String)>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let spec = site.crawls.spec(&id)?;
    let shard: u32 = shard.parse().map_err(|_| none(&id))?;
    let mut statuses = site.crawls.statuses(&spec).into_iter();
    let status = statuses.find(|status| status.shard == shard).ok_or_else(|| none(&id))?;
    // Only what the shard itself names is given out.
    let size = *status.outputs.get(&file).ok_or_else(|| none(&id))?;
    let offer = Offer {
        tag: format!("{id}-{shard}-{size}"),
        size,
        content_type: "application/octet-stream",
        caching: "private, no-cache",
    };
    let path = site.crawls.folder(&id).out(shard).join(&file);
    offer.of_file(&path, &method, &headers).await.map_err(|error| {
        CrawlsError::Broken(format!("cannot read {}: {error}", path.display())).into()
    })
}

fn none(id: &str) -> ApiError {
    let message = format!(
        "crawl {id} has no such file; GET /api/v1/crawls/{id}/output lists those that it has"
    );
    ApiError::new(StatusCode::NOT_FOUND, "no_such_file", message)
}
