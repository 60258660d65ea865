//! `GET /api/v1/videos/{id}/events`: a video at each change as server-sent events, at most once a second, until its
//! state is final.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use divvy_http::ApiError;
use divvy_http::events::{self, Event};
use futures_util::{StreamExt as _, stream};
use http::StatusCode;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Interval, MissedTickBehavior};

use super::Site;
use super::request::Named;
use crate::library::{Library, LibraryError, VideoId, VideoState, VideoView};

/// How often the library is asked.
const EVERY: Duration = Duration::from_secs(1);

/// One who watches one video.
struct Watcher {
    library: Library,
    id: VideoId,
    tick: Interval,
    last: VideoView,
    _place: OwnedSemaphorePermit,
}

/// Streams changes until the video is final, the caller leaves or the server stops.
pub(super) async fn stream(
    State(site): State<Site>,
    Named(id): Named,
) -> Result<Response, ApiError> {
    let library = site.library.clone();
    let place = site.watchers.clone().try_acquire_owned().map_err(|_| {
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too_many_watchers",
            "too many others watch videos; ask for GET /api/v1/videos/{id} now and then",
        )
    })?;
    // Asked before the answer begins, so that an unknown video is a 404.
    let first = library.view(&id).await?;
    let mut tick = tokio::time::interval_at(tokio::time::Instant::now() + EVERY, EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let now = event(&first);
    let watcher = Watcher { library, id, tick, last: first, _place: place };
    let changes = stream::unfold(watcher, |mut watcher| async move {
        let event = watcher.next().await?;
        Some((event, watcher))
    });
    let events = stream::iter([now]).chain(changes);
    Ok(events::answer(events, site.shutdown.clone()))
}

impl Watcher {
    /// The next change; nothing after the last one.
    async fn next(&mut self) -> Option<Event> {
        while self.last.video.state == VideoState::Processing {
            self.tick.tick().await;
            match self.library.view(&self.id).await {
                Ok(view) if view == self.last => {}
                Ok(view) => {
                    let event = event(&view);
                    self.last = view;
                    return Some(event);
                }
                Err(LibraryError::NoVideo(_)) => return None,
                // A server in trouble may recover; the watcher stays.
                Err(error) => tracing::debug!(error = %error, "a watched video cannot be read"),
            }
        }
        None
    }
}

fn event(view: &VideoView) -> Event {
    events::event("video", view)
}
