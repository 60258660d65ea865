//! The API of the library, the files of videos, and the pages that show them.
//!
//! A [`Mount`] has addresses for the server to take in and a place for the library, which comes later: the library's
//! client connects to the server, whose address is known only when it is bound. Until then every address that needs
//! the library answers 503.
//!
//! Knows HTTP only. Who may ask is decided by the server's guard, what a video is by [`crate::library`].

mod api;
mod error;
mod events;
mod files;
mod manifests;
mod openapi;
mod pages;
mod request;

use std::sync::{Arc, OnceLock};

use divvy_http::{ApiError, Mounted, Route, Routes, delete, get, post};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::library::Library;
use manifests::Manifests;

/// Bytes of a JSON body: a video's data goes to `/api/v1/uploads`.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Watchers of events at once; each asks the library once a second.
const WATCHERS_MAX: usize = 256;

/// Where the library's addresses are mounted; a clone is cheap and shares the library.
#[derive(Clone, Debug)]
pub struct Mount {
    shared: Arc<Shared>,
    /// Whether people have a session that they can end.
    has_sign_out: bool,
}

#[derive(Debug)]
struct Shared {
    library: OnceLock<Library>,
    manifests: Manifests,
    watchers: Arc<Semaphore>,
    shutdown: CancellationToken,
}

impl Mount {
    /// Titles and paths of the pages for people, for `divvy_server::Options::pages`.
    pub const PAGES: [(&str, &str); 1] = [("Videos", "/videos")];

    /// A mount without a library yet. Event streams end when `shutdown` is cancelled: give the server's.
    pub fn new(shutdown: CancellationToken) -> Self {
        Self {
            shared: Arc::new(Shared {
                library: OnceLock::new(),
                manifests: Manifests::default(),
                watchers: Arc::new(Semaphore::new(WATCHERS_MAX)),
                shutdown,
            }),
            has_sign_out: false,
        }
    }

    /// The same, whose pages offer to sign out if so told, which is right for a server with a token.
    #[must_use]
    pub fn with_sign_out(self, has_sign_out: bool) -> Self {
        Self { has_sign_out, ..self }
    }

    /// Begins to answer from this library. Only the first one counts.
    pub fn open(&self, library: Library) {
        // A second library could only be a mistake, and answers from two would be worse than from the first.
        let _ = self.shared.library.set(library);
    }

    /// All addresses, for `divvy_server::Options::mounted`.
    pub fn routes(&self) -> Mounted {
        Routes::new(table()).with_body_bytes_max(BODY_BYTES_MAX).with_state(self.clone())
    }

    fn library(&self) -> Result<&Library, ApiError> {
        self.shared.library.get().ok_or_else(error::not_open)
    }
}

fn table() -> Vec<Route<Mount>> {
    vec![
        get("/videos", pages::library),
        get("/videos/{id}", pages::player),
        get("/videos/assets/{name}", pages::asset),
        get("/videos/{id}/files/{*path}", files::show),
        get("/api/v1/videos", api::list),
        post("/api/v1/videos", api::add),
        get("/api/v1/videos/openapi.json", openapi::show),
        get("/api/v1/videos/{id}", api::show),
        delete("/api/v1/videos/{id}", api::remove),
        post("/api/v1/videos/sweep", api::sweep),
        get("/api/v1/videos/{id}/events", events::stream),
        get("/api/v1/videos/{id}/manifest", api::manifest),
        post("/api/v1/videos/{id}/cancel", api::cancel),
        post("/api/v1/videos/{id}/approve", api::approve),
    ]
}
