//! `GET /api/v1/crawls/{id}/events`: the crawl, its busiest hosts and its latest pages as server-sent events, once a second
//! while something changes, until the crawl has ended. All who watch a crawl see what was looked up once.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use divvy_http::feed::{self, Look, Watched};
use divvy_http::{ApiError, Id};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Site;
use crate::crawls::view::{self, CrawlView};
use crate::crawls::{Crawls, CrawlsError};
use crate::folder::status::{HostRow, PageRow};

/// Between two looks.
const REST: Duration = Duration::from_secs(1);
/// Hosts and pages of an event.
const ROWS: usize = 50;

/// What those who watch see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Scene {
    /// The crawl.
    pub(crate) crawl: CrawlView,
    /// The hosts with the longest queues.
    pub(crate) hosts: Vec<HostRow>,
    /// The latest pages, newest first.
    pub(crate) pages: Vec<PageRow>,
}

impl Watched for Scene {
    const EVENT: &'static str = "crawl";

    fn is_final(&self) -> bool {
        self.crawl.state.is_final()
    }
}

/// Streams until the crawl has ended, the caller leaves or the server stops.
pub(super) async fn stream(State(site): State<Site>, Id(id): Id) -> Result<Response, ApiError> {
    let place = site.feeds.place("/api/v1/crawls/{id}")?;
    // Asked before the answer begins, so that an unknown crawl is a 404.
    let first = scene(&site.crawls, &id).await?;
    Ok(site.feeds.answer(place, &id, first, site.shutdown, |shown| {
        let (crawls, id) = (site.crawls, id.clone());
        feed::look_again(shown, REST, move || look(crawls.clone(), id.clone()))
    }))
}

async fn look(crawls: Crawls, id: String) -> Look<Scene> {
    match scene(&crawls, &id).await {
        Ok(scene) => Look::Seen(scene),
        Err(CrawlsError::None(_)) => Look::Gone,
        Err(error) => Look::Unreadable(error.to_string()),
    }
}

async fn scene(crawls: &Crawls, id: &str) -> Result<Scene, CrawlsError> {
    let crawl = crawls.view(id).await?;
    let statuses = crawls.statuses(&crawl.spec);
    let mut hosts = view::hosts(&statuses);
    hosts.truncate(ROWS);
    Ok(Scene { crawl, hosts, pages: view::pages(&statuses, ROWS) })
}
