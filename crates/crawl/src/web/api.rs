//! `/api/v1/crawls`: start crawls, look at them, steer them.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use divvy_http::{ApiError, Id, JsonBody, NoFields, Parameters, rows};
use http::StatusCode;
use http::header::LOCATION;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Site;
use crate::crawls::explain::Explained;
use crate::crawls::view::{self, CrawlView};
use crate::crawls::{CrawlsError, Wish};
use crate::folder::status::{HostRow, PageRow};
use crate::settings::NewCrawl;

/// Rows of one answer, unless told otherwise.
const PAGE: usize = 50;
/// Rows of one answer at most.
const PAGE_MAX: usize = 100;

/// Which part of the list is wanted.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Listing {
    /// How many at most.
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<usize>,
    /// Only crawls whose id begins with this.
    #[serde(default)]
    id: String,
}

/// Crawls.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CrawlList")]
pub(super) struct List {
    items: Vec<CrawlView>,
}

/// Hosts.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CrawlHosts")]
pub(super) struct Hosts {
    items: Vec<HostRow>,
}

/// Pages.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CrawlPages")]
pub(super) struct Pages {
    items: Vec<PageRow>,
}

/// How many pages are wanted.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Tail {
    /// How many at most.
    #[schemars(range(min = 1, max = PAGE_MAX))]
    limit: Option<usize>,
}

/// Which address is asked about.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Question {
    /// The address.
    url: String,
}

/// Hosts to leave alone.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Blocking {
    /// Their names, with the port if that is unusual.
    hosts: Vec<String>,
    /// Ask them again.
    #[serde(default)]
    undo: bool,
}

/// Addresses to begin at too.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Adding {
    /// The addresses.
    seeds: Vec<String>,
}

/// All crawls, latest first.
pub(super) async fn list(
    State(site): State<Site>,
    Parameters(listing): Parameters<Listing>,
) -> Result<Json<List>, ApiError> {
    let limit = rows(listing.limit, PAGE, PAGE_MAX)?;
    let mut specs = Vec::new();
    for id in site.crawls.ids().map_err(CrawlsError::from)? {
        if id.starts_with(&listing.id) {
            // One that is being removed is not there any more.
            specs.extend(site.crawls.spec(&id).ok());
        }
    }
    specs.sort_by_key(|spec| std::cmp::Reverse((spec.created_at_ms, spec.id.clone())));
    let mut items = Vec::new();
    for spec in specs.into_iter().take(limit) {
        items.push(site.crawls.view(&spec.id).await?);
    }
    Ok(Json(List { items }))
}

/// Starts a crawl.
pub(super) async fn start(
    State(site): State<Site>,
    JsonBody(new): JsonBody<NewCrawl>,
) -> Result<Response, ApiError> {
    let view = site.crawls.start(new).await?;
    let location = format!("/api/v1/crawls/{}", view.spec.id);
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(view)).into_response())
}

/// One crawl.
pub(super) async fn show(
    State(site): State<Site>,
    Id(id): Id,
) -> Result<Json<CrawlView>, ApiError> {
    Ok(Json(site.crawls.view(&id).await?))
}

/// What a removal says.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CrawlRemoved")]
pub(super) struct Removed {
    /// Its id.
    id: String,
}

/// Removes a crawl.
pub(super) async fn remove(
    State(site): State<Site>,
    Id(id): Id,
) -> Result<Json<Removed>, ApiError> {
    site.crawls.remove(&id).await?;
    Ok(Json(Removed { id }))
}

/// The latest pages.
pub(super) async fn pages(
    State(site): State<Site>,
    Id(id): Id,
    Parameters(tail): Parameters<Tail>,
) -> Result<Json<Pages>, ApiError> {
    let limit = rows(tail.limit, PAGE, PAGE_MAX)?;
    let statuses = site.crawls.statuses(&site.crawls.spec(&id)?);
    Ok(Json(Pages { items: view::pages(&statuses, limit) }))
}

/// The busiest hosts.
pub(super) async fn hosts(State(site): State<Site>, Id(id): Id) -> Result<Json<Hosts>, ApiError> {
    let statuses = site.crawls.statuses(&site.crawls.spec(&id)?);
    Ok(Json(Hosts { items: view::hosts(&statuses) }))
}

/// What would become of an address.
pub(super) async fn explain(
    State(site): State<Site>,
    Id(id): Id,
    Parameters(question): Parameters<Question>,
) -> Result<Json<Explained>, ApiError> {
    Ok(Json(site.crawls.explain(&id, &question.url).await?))
}

async fn wish(site: &Site, id: &str, wish: Wish) -> Result<Json<CrawlView>, ApiError> {
    Ok(Json(site.crawls.wish(id, wish).await?))
}

/// Fetches nothing for now.
pub(super) async fn pause(
    State(site): State<Site>,
    Id(id): Id,
    JsonBody(NoFields {}): JsonBody<NoFields>,
) -> Result<Json<CrawlView>, ApiError> {
    wish(&site, &id, Wish::Pause).await
}

/// Goes on.
pub(super) async fn resume(
    State(site): State<Site>,
    Id(id): Id,
    JsonBody(NoFields {}): JsonBody<NoFields>,
) -> Result<Json<CrawlView>, ApiError> {
    wish(&site, &id, Wish::Resume).await
}

/// Fetches nothing more.
pub(super) async fn stop(
    State(site): State<Site>,
    Id(id): Id,
    JsonBody(NoFields {}): JsonBody<NoFields>,
) -> Result<Json<CrawlView>, ApiError> {
    wish(&site, &id, Wish::Stop).await
}

/// Puts back what failed for good.
pub(super) async fn retry(
    State(site): State<Site>,
    Id(id): Id,
    JsonBody(NoFields {}): JsonBody<NoFields>,
) -> Result<Json<CrawlView>, ApiError> {
    wish(&site, &id, Wish::Retry).await
}

/// Leaves hosts alone.
pub(super) async fn block(
    State(site): State<Site>,
    Id(id): Id,
    JsonBody(blocking): JsonBody<Blocking>,
) -> Result<Json<CrawlView>, ApiError> {
    let Blocking { hosts, undo } = blocking;
    wish(&site, &id, Wish::Block { hosts, undo }).await
}

/// Begins at more addresses.
pub(super) async fn add(
    State(site): State<Site>,
    Id(id): Id,
    JsonBody(adding): JsonBody<Adding>,
) -> Result<Json<CrawlView>, ApiError> {
    wish(&site, &id, Wish::Add { seeds: adding.seeds }).await
}
