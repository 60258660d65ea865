//! `GET /api/v1/flows/{id}/events`: the job as server-sent events, twice a second while something changes, until it has
//! ended. All who watch a job see what was looked up once.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use divvy_http::feed::{self, Look, Watched};
use divvy_http::{ApiError, Id};

use super::Site;
use crate::jobs::view::JobView;
use crate::jobs::{Jobs, JobsError};

/// Between two looks.
const REST: Duration = Duration::from_millis(500);

impl Watched for JobView {
    const EVENT: &'static str = "flow";

    fn is_final(&self) -> bool {
        self.state.is_final()
    }
}

/// Streams until the job has ended, the caller leaves or the server stops.
pub(super) async fn stream(State(site): State<Site>, Id(id): Id) -> Result<Response, ApiError> {
    let place = site.feeds.place("/api/v1/flows/{id}")?;
    // Asked before the answer begins, so that an unknown job is a 404.
    let first = site.jobs.view(&id)?;
    Ok(site.feeds.answer(place, &id, first, site.shutdown, |shown| {
        let (jobs, id) = (site.jobs, id.clone());
        feed::look_again(shown, REST, move || std::future::ready(look(&jobs, &id)))
    }))
}

fn look(jobs: &Jobs, id: &str) -> Look<JobView> {
    match jobs.view(id) {
        Ok(view) => Look::Seen(view),
        Err(JobsError::None(_)) => Look::Gone,
        Err(error) => Look::Unreadable(error.to_string()),
    }
}
