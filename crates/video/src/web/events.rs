//! `GET /api/v1/videos/{id}/events`: a video at each change as server-sent events, at most once a second, until its
//! state is final. `GET /api/v1/videos/events`: that something changed in the library, and no more.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use divvy_http::ApiError;
use divvy_http::events::{self, Event};
use futures_util::{StreamExt as _, stream};
use http::StatusCode;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::Site;
use super::feeds::Feed;
use super::request::Named;
use crate::library::VideoView;

/// One who watches one video.
struct Watcher {
    seen: watch::Receiver<Arc<VideoView>>,
    is_over: bool,
    _feed: Arc<Feed>,
    _place: OwnedSemaphorePermit,
}

/// Streams changes until the video is final, the caller leaves or the server stops.
pub(super) async fn stream(
    State(site): State<Site>,
    Named(id): Named,
) -> Result<Response, ApiError> {
    let place = place(&site)?;
    // Asked before the answer begins, so that an unknown video is a 404.
    let first = site.library.view(&id).await?;
    let (now, is_over) = (event(&first), first.video.state.is_final());
    let feed = site.feeds.of(&site.library, first);
    let watcher = Watcher { seen: feed.watch(), is_over, _feed: feed, _place: place };
    let changes = stream::unfold(watcher, |mut watcher| async move {
        let event = watcher.next().await?;
        Some((event, watcher))
    });
    let events = stream::iter([now]).chain(changes);
    Ok(events::answer(events, site.shutdown.clone()))
}

/// Says whenever something changed in the library, at most every two seconds, until the caller leaves or the server stops.
pub(super) async fn stream_all(State(site): State<Site>) -> Result<Response, ApiError> {
    let (place, bell) = (place(&site)?, site.feeds.bell(&site.library));
    let rung = bell.watch();
    let changes = stream::unfold((rung, bell, place), |(mut rung, bell, place)| async move {
        rung.changed().await.ok()?;
        let count = *rung.borrow_and_update();
        Some((events::event("changed", &json!({ "count": count })), (rung, bell, place)))
    });
    Ok(events::answer(changes, site.shutdown))
}

fn place(site: &Site) -> Result<OwnedSemaphorePermit, ApiError> {
    site.watchers.clone().try_acquire_owned().map_err(|_| {
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too_many_watchers",
            "too many others watch videos; ask for GET /api/v1/videos/{id} now and then",
        )
    })
}

impl Watcher {
    /// The next change; nothing after the last one.
    async fn next(&mut self) -> Option<Event> {
        if self.is_over || self.seen.changed().await.is_err() {
            return None;
        }
        let view = self.seen.borrow_and_update().clone();
        self.is_over = view.video.state.is_final();
        Some(event(&view))
    }
}

fn event(view: &VideoView) -> Event {
    events::event("video", view)
}
