//! `GET /api/v1/crawls/{id}/events`: the crawl, its busiest hosts and its latest pages as server-sent events, once a second
//! while something changes, until the crawl has ended. All who watch a crawl see what was looked up once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use divvy_http::ApiError;
use divvy_http::events::{self, Event};
use futures_util::{StreamExt as _, stream};
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio_util::task::AbortOnDropHandle;

use super::Site;
use super::error::Named;
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

/// The feeds of all crawls that are watched.
#[derive(Debug, Default)]
pub(super) struct Feeds {
    open: Mutex<HashMap<String, Weak<Feed>>>,
}

/// One crawl as all who watch it see it; who holds it keeps it going.
#[derive(Debug)]
struct Feed {
    seen: watch::Receiver<Arc<Scene>>,
    _work: AbortOnDropHandle<()>,
}

struct Watcher {
    seen: watch::Receiver<Arc<Scene>>,
    is_over: bool,
    _feed: Arc<Feed>,
    _place: OwnedSemaphorePermit,
}

/// Streams until the crawl has ended, the caller leaves or the server stops.
pub(super) async fn stream(
    State(site): State<Site>,
    Named(id): Named,
) -> Result<Response, ApiError> {
    let place = site.watchers.clone().try_acquire_owned().map_err(|_| {
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too_many_watchers",
            "too many others watch crawls; ask for GET /api/v1/crawls/{id} now and then",
        )
    })?;
    // Asked before the answer begins, so that an unknown crawl is a 404.
    let first = scene(&site.crawls, &id).await?;
    let (now, is_over) = (event(&first), first.crawl.state.is_final());
    let feed = site.feeds.of(&site.crawls, first);
    let watcher = Watcher { seen: feed.seen.clone(), is_over, _feed: feed, _place: place };
    let changes = stream::unfold(watcher, |mut watcher| async move {
        let event = watcher.next().await?;
        Some((event, watcher))
    });
    Ok(events::answer(stream::iter([now]).chain(changes), site.shutdown.clone()))
}

impl Watcher {
    /// The next change; nothing after the last one.
    async fn next(&mut self) -> Option<Event> {
        if self.is_over || self.seen.changed().await.is_err() {
            return None;
        }
        let scene = self.seen.borrow_and_update().clone();
        self.is_over = scene.crawl.state.is_final();
        Some(event(&scene))
    }
}

impl Feeds {
    /// The feed of a crawl, which was just seen like this.
    fn of(&self, crawls: &Crawls, seen: Scene) -> Arc<Feed> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, feed| feed.strong_count() > 0);
        let id = seen.crawl.spec.id.clone();
        let going = open.get(&id).and_then(Weak::upgrade);
        // One that has ended tells nothing of the next round.
        if let Some(feed) = going.filter(|feed| feed.seen.has_changed().is_ok()) {
            return feed;
        }
        let (sender, receiver) = watch::channel(Arc::new(seen));
        let work = tokio::spawn(follow(crawls.clone(), id.clone(), sender));
        let feed = Arc::new(Feed { seen: receiver, _work: AbortOnDropHandle::new(work) });
        open.insert(id, Arc::downgrade(&feed));
        feed
    }
}

/// Shows a crawl until it has ended or is gone.
async fn follow(crawls: Crawls, id: String, shown: watch::Sender<Arc<Scene>>) {
    while !shown.borrow().crawl.state.is_final() {
        tokio::time::sleep(REST).await;
        match scene(&crawls, &id).await {
            Ok(scene) if scene == **shown.borrow() => {}
            Ok(scene) => drop(shown.send_replace(Arc::new(scene))),
            Err(CrawlsError::None(_)) => return,
            // A server in trouble may recover; those who watch stay.
            Err(error) => tracing::debug!(%error, "a watched crawl cannot be read"),
        }
    }
}

async fn scene(crawls: &Crawls, id: &str) -> Result<Scene, CrawlsError> {
    let crawl = crawls.view(id).await?;
    let statuses = crawls.statuses(&crawl.spec);
    let mut hosts = view::hosts(&statuses);
    hosts.truncate(ROWS);
    Ok(Scene { crawl, hosts, pages: view::pages(&statuses, ROWS) })
}

fn event(scene: &Scene) -> Event {
    events::event("crawl", scene)
}
