//! The API of jobs and the pages that show them.
//!
//! Knows HTTP only. Who may ask is decided by the server's guard, what a job is by [`crate::jobs`].

mod api;
mod error;
mod events;
mod files;
pub(crate) mod metrics;
mod pages;
mod work;

use std::sync::Arc;

use divvy_http::{Feeds, Frame, Mounted, Route, Routes, Scope, delete, get, post};
use tokio_util::sync::CancellationToken;

use crate::jobs::Jobs;
use crate::jobs::remote::Readable;
use crate::jobs::view::JobView;

pub(crate) use api::Explained;

/// Bytes of a JSON body: input files are many.
const BODY_BYTES_MAX: usize = 16 << 20;
/// Watchers of events at once; those of one job share what they see.
const WATCHERS_MAX: usize = 256;

/// What the handlers share; a clone is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    jobs: Jobs,
    readable: Readable,
    feeds: Arc<Feeds<JobView>>,
    shutdown: CancellationToken,
    frame: Frame,
}

impl Site {
    /// Titles and paths of the pages for people.
    pub(crate) const PAGES: [(&'static str, &'static str); 1] = [("Flows", "/flows")];

    /// The site of these jobs, whose workers on other machines get files below these folders. Event streams end when `shutdown` is cancelled.
    pub(crate) fn new(
        jobs: Jobs,
        readable: Readable,
        shutdown: CancellationToken,
        frame: Frame,
    ) -> Self {
        Self { jobs, readable, feeds: Arc::new(Feeds::new(WATCHERS_MAX)), shutdown, frame }
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
        get("/api/v1/flows", api::list).summary("All jobs, latest first"),
        post("/api/v1/flows", api::start)
            .scope(Scope::Submit)
            .summary("Start a job: MapReduce, aggregation, sort, graph or stream")
            .answers([201])
            .gives::<JobView>()
            .refuses([409]),
        get("/api/v1/flows/{id}", api::show)
            .summary("One job: its stages with rows, bytes and skew")
            .refuses([404]),
        delete("/api/v1/flows/{id}", api::remove)
            .summary("Remove a job that has ended, with its result")
            .refuses([404, 409]),
        post("/api/v1/flows/{id}/cancel", api::cancel)
            .scope(Scope::Submit)
            .summary("Cancel a job; what it has written so far is swept")
            .refuses([404, 409]),
        post("/api/v1/flows/{id}/stop", api::stop)
            .scope(Scope::Submit)
            .summary(
                "End a stream with what it has read: its windows are closed, its result is kept",
            )
            .refuses([404, 409]),
        get("/api/v1/flows/{id}/explain", api::explain)
            .summary("How the job is done, stage by stage")
            .refuses([404, 409]),
        get("/api/v1/flows/{id}/stages/{stage}", api::stage)
            .summary("The parts of a stage that is done: who did them, when, how many rows")
            .refuses([404]),
        get("/api/v1/flows/{id}/timeline", api::timeline)
            .summary("The parts of stages that are done, over time, as a picture")
            .gives_media("image/svg+xml")
            .refuses([404]),
        get("/api/v1/flows/{id}/events", events::stream)
            .summary("The job once a second while something changes, until it has ended")
            .gives_events::<JobView>()
            .refuses([404]),
    ];
    table.extend(for_results());
    table.extend(for_people());
    table.extend(work::table());
    table
}

fn for_results() -> Vec<Route<Site>> {
    vec![
        get("/api/v1/flows/{id}/output", files::list)
            .summary("The files of the result, with rows, bytes and checksums; of a stream that goes on, what it has kept so far")
            .refuses([404, 409]),
        get("/api/v1/flows/{id}/output/{file}", files::show)
            .summary("One file of the result")
            .header("Range", "One range, such as `bytes=0-1023`.")
            .header("If-None-Match", "The tag of the file.")
            .header("If-Range", "The tag of the file.")
            .answers([200, 206, 304])
            .gives_media("application/octet-stream")
            .refuses([404, 409, 416]),
    ]
}

fn for_people() -> Vec<Route<Site>> {
    const HTML: &str = "text/html";
    vec![
        get("/flows", pages::list).summary("All jobs, for people").gives_media(HTML),
        get("/flows/{id}", pages::job)
            .summary("A job as it goes, for people")
            .answers([200, 404])
            .gives_media(HTML),
        get("/flows/assets/{name}", pages::asset)
            .summary("A script or style of the pages")
            .answers([200, 304])
            .gives_media("*/*")
            .refuses([404]),
    ]
}
