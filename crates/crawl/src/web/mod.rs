//! The API of crawls and the pages that show them.
//!
//! Knows HTTP only. Who may ask is decided by the server's guard, what a crawl is by [`crate::crawls`].

mod api;
mod error;
mod events;
mod files;
pub(crate) mod metrics;
mod pages;

use std::sync::Arc;

use divvy_http::{Feeds, Frame, Mounted, Route, Routes, Scope, delete, get, post};
use tokio_util::sync::CancellationToken;

use crate::crawls::Crawls;
use crate::crawls::view::CrawlView;

pub(crate) use events::Scene;
pub(crate) use files::OutputFile;

/// Bytes of a JSON body: seeds are many.
const BODY_BYTES_MAX: usize = 2 << 20;
/// Watchers of events at once; those of one crawl share what they see.
const WATCHERS_MAX: usize = 256;

/// What the handlers share; a clone is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    crawls: Crawls,
    feeds: Arc<Feeds<Scene>>,
    shutdown: CancellationToken,
    frame: Frame,
}

impl Site {
    /// Titles and paths of the pages for people.
    pub(crate) const PAGES: [(&'static str, &'static str); 1] = [("Crawls", "/crawls")];

    /// The site of these crawls. Event streams end when `shutdown` is cancelled.
    pub(crate) fn new(crawls: Crawls, shutdown: CancellationToken, frame: Frame) -> Self {
        Self { crawls, feeds: Arc::new(Feeds::new(WATCHERS_MAX)), shutdown, frame }
    }

    /// All addresses.
    pub(crate) fn routes(self) -> Mounted {
        Routes::new(table())
            .with_codes(&error::CODES)
            .with_body_bytes_max(BODY_BYTES_MAX)
            .with_state(self)
    }
}

fn table() -> Vec<Route<Site>> {
    let mut table = vec![
        get("/api/v1/crawls", api::list).summary("All crawls, latest first"),
        post("/api/v1/crawls", api::start)
            .scope(Scope::Submit)
            .summary("Start a crawl")
            .answers([201])
            .gives::<CrawlView>()
            .refuses([409]),
        get("/api/v1/crawls/{id}", api::show).summary("One crawl and how far it is").refuses([404]),
        delete("/api/v1/crawls/{id}", api::remove)
            .summary("Remove a crawl that has ended, with all that it made")
            .refuses([404, 409]),
        get("/api/v1/crawls/{id}/pages", api::pages)
            .summary("The pages that were fetched last, newest first")
            .refuses([404]),
        get("/api/v1/crawls/{id}/hosts", api::hosts)
            .summary("The hosts with the longest queues: delay, robots, breaker, next time")
            .refuses([404]),
        get("/api/v1/crawls/{id}/explain", api::explain)
            .summary("Whether an address would be fetched, when, and which rule decides")
            .refuses([404]),
        get("/api/v1/crawls/{id}/events", events::stream)
            .summary("The crawl, its hosts and its latest pages once a second, until it has ended")
            .gives_events::<Scene>()
            .refuses([404]),
        get("/api/v1/crawls/{id}/output", files::list)
            .summary("The files that the crawl has written so far")
            .refuses([404]),
        get("/api/v1/crawls/{id}/output/{shard}/{file}", files::show)
            .summary("One file that the crawl has written, as far as it is committed")
            .header("Range", "One range, such as `bytes=0-1023`.")
            .header("If-None-Match", "The tag of the file.")
            .header("If-Range", "The tag of the file.")
            .answers([200, 206, 304])
            .gives_media("application/octet-stream")
            .refuses([404, 416]),
    ];
    table.extend(wishes());
    table.extend(for_people());
    table
}

/// What people may want of a crawl.
fn wishes() -> Vec<Route<Site>> {
    vec![
        post("/api/v1/crawls/{id}/pause", api::pause)
            .scope(Scope::Submit)
            .summary("Fetch nothing for now")
            .refuses([404, 409]),
        post("/api/v1/crawls/{id}/resume", api::resume)
            .scope(Scope::Submit)
            .summary("Go on after a pause, a stop or the end")
            .refuses([404, 409]),
        post("/api/v1/crawls/{id}/stop", api::stop)
            .scope(Scope::Submit)
            .summary("End what is begun and fetch nothing more; what is queued stays")
            .refuses([404, 409]),
        post("/api/v1/crawls/{id}/retry", api::retry)
            .scope(Scope::Submit)
            .summary("Put back the addresses that failed for good, and ask hosts again that were given up")
            .refuses([404, 409]),
        post("/api/v1/crawls/{id}/block", api::block)
            .scope(Scope::Submit)
            .summary("Leave hosts alone, or no longer")
            .refuses([404, 409]),
        post("/api/v1/crawls/{id}/add", api::add)
            .scope(Scope::Submit)
            .summary("Begin at more addresses, which belong to the scope then")
            .refuses([404, 409]),
    ]
}

fn for_people() -> Vec<Route<Site>> {
    const HTML: &str = "text/html";
    vec![
        get("/crawls", pages::list).summary("All crawls, for people").gives_media(HTML),
        get("/crawls/{id}", pages::crawl)
            .summary("A crawl as it goes, for people")
            .answers([200, 404])
            .gives_media(HTML),
        get("/crawls/assets/{name}", pages::asset)
            .summary("A script or style of the pages")
            .answers([200, 304])
            .gives_media("*/*")
            .refuses([404]),
    ]
}
