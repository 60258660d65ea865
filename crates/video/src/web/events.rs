//! `GET /api/v1/videos/{id}/events`: a video at each change as server-sent events, at most once a second, until its
//! state is final. `GET /api/v1/videos/events`: that something changed in the library, and no more.

use axum::extract::State;
use axum::response::Response;
use divvy_http::ApiError;
use divvy_http::events;
use divvy_http::feed::{Place, Watched};
use futures_util::stream;
use schemars::JsonSchema;
use serde::Serialize;

use super::Site;
use super::request::Named;
use crate::library::VideoView;

/// That something changed in the library.
#[derive(Serialize, JsonSchema)]
pub(super) struct Changed {
    /// How often something changed since somebody watches.
    count: u64,
}

impl Watched for VideoView {
    const EVENT: &'static str = "video";

    fn is_final(&self) -> bool {
        self.video.state.is_final()
    }
}

/// Streams changes until the video is final, the caller leaves or the server stops.
pub(super) async fn stream(
    State(site): State<Site>,
    Named(id): Named,
) -> Result<Response, ApiError> {
    let place = place(&site)?;
    // Asked before the answer begins, so that an unknown video is a 404.
    let first = site.library.view(&id).await?;
    Ok(site.feeds.answer(place, &site.library, first, site.shutdown))
}

/// Says whenever something changed in the library, at most every two seconds, until the caller leaves or the server stops.
pub(super) async fn stream_all(State(site): State<Site>) -> Result<Response, ApiError> {
    let (place, bell) = (place(&site)?, site.feeds.bell(&site.library));
    let rung = bell.watch();
    let changes = stream::unfold((rung, bell, place), |(mut rung, bell, place)| async move {
        rung.changed().await.ok()?;
        let count = *rung.borrow_and_update();
        Some((events::event("changed", &Changed { count }), (rung, bell, place)))
    });
    Ok(events::answer(changes, site.shutdown))
}

fn place(site: &Site) -> Result<Place, ApiError> {
    site.feeds.place("/api/v1/videos/{id}")
}
