//! The API of the library, the files of videos, and the pages that show them.
//!
//! Knows HTTP only. Who may ask is decided by the server's guard, what a video is by [`crate::library`].

mod error;
mod events;
mod feeds;
mod files;
mod manifests;
pub(crate) mod metrics;
mod pages;
mod request;
mod videos;

use std::sync::Arc;

use divvy_http::{Frame, Mounted, Route, Routes, Scope, delete, get, post};
use tokio_util::sync::CancellationToken;

use crate::library::{Added, Library, VideoView};
use feeds::Feeds;
use manifests::Manifests;

/// Bytes of a JSON body: a video's data goes to `/api/v1/uploads`.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Watchers of events at once; those of one video share what they see.
const WATCHERS_MAX: usize = 256;

/// What the handlers share; a clone is cheap.
#[derive(Clone, Debug)]
pub struct Site {
    library: Library,
    manifests: Arc<Manifests>,
    feeds: Arc<Feeds>,
    shutdown: CancellationToken,
    frame: Frame,
}

impl Site {
    /// Titles and paths of the pages for people, for `divvy_server::Options::pages`.
    pub const PAGES: [(&str, &str); 1] = [("Videos", "/videos")];

    /// The site of this library. Event streams end when `shutdown` is cancelled: give the server's.
    pub fn new(library: Library, shutdown: CancellationToken) -> Self {
        Self {
            library,
            manifests: Arc::default(),
            feeds: Arc::new(Feeds::new(WATCHERS_MAX)),
            shutdown,
            frame: Frame::default(),
        }
    }

    /// The same, with the frame of the server's pages.
    #[must_use]
    pub fn with_frame(self, frame: Frame) -> Self {
        Self { frame, ..self }
    }

    /// All addresses, for `divvy_server::Options::mounted`.
    pub fn routes(self) -> Mounted {
        Routes::new(table())
            .with_codes(&error::CODES)
            .with_body_bytes_max(BODY_BYTES_MAX)
            .with_state(self)
    }
}

fn table() -> Vec<Route<Site>> {
    const HTML: &str = "text/html";
    vec![
        get("/videos", pages::library).summary("The library, for people").gives_media(HTML),
        get("/videos/{id}", pages::player)
            .summary("A video, for people: it plays, or shows how far it is")
            .answers([200, 404])
            .gives_media(HTML),
        get("/videos/assets/{name}", pages::asset)
            .summary("A script or style of the pages")
            .answers([200, 304])
            .gives_media("*/*")
            .refuses([404]),
        get("/videos/{id}/files/{*path}", files::show)
            .summary("A file of a published video, whole or a range of it")
            .header("Range", "One range, such as `bytes=0-1023`.")
            .header("If-None-Match", "The tag of the file.")
            .header("If-Range", "The tag of the file.")
            .answers([200, 206, 304])
            .gives_media("*/*")
            .refuses([404, 416]),
        get("/api/v1/videos", videos::list).summary("All videos, latest first").refuses([404]),
        post("/api/v1/videos", videos::add)
            .scope(Scope::Submit)
            .summary("Add a video that was uploaded, or that is to be fetched")
            .answers([200, 201])
            .gives::<Added>(),
        get("/api/v1/videos/{id}", videos::show).summary("One video and how far it is").refuses([404]),
        delete("/api/v1/videos/{id}", videos::remove)
            .summary("Remove a video; a little later everything goes that no other video uses")
            .refuses([404]),
        post("/api/v1/videos/sweep", videos::sweep).summary(
            "Remove at once what removed and cancelled videos left, and blobs that nothing names, or tell what that would be",
        ),
        get("/api/v1/videos/events", events::stream_all)
            .summary("That something changed in the library, at most every two seconds")
            .gives_events::<events::Changed>(),
        get("/api/v1/videos/{id}/events", events::stream)
            .summary("The video at each change, at most once a second, until its state is final")
            .gives_events::<VideoView>()
            .refuses([404]),
        get("/api/v1/videos/{id}/manifest", videos::manifest)
            .summary("Everything about a published video and its files")
            .refuses([404]),
        post("/api/v1/videos/{id}/cancel", videos::cancel)
            .summary("Stop the tasks of a video")
            .refuses([404]),
        post("/api/v1/videos/{id}/approve", videos::approve)
            .summary("Say that a person has looked at a flagged video and that it may be shown")
            .refuses([404, 409]),
    ]
}
