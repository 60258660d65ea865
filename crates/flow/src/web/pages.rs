//! The pages `/flows` and `/flows/{id}` and what they are made of. Everything is in this program: no build step, and nothing
//! from elsewhere. What strangers wrote (names, errors) reaches the pages as text only.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use divvy_http::pages::{Assets, SCRIPT, STYLE};
use divvy_http::{ApiError, PathText, asset};

use super::Site;
use crate::jobs::JobsError;

const LIST: &str = include_str!("assets/flows.html");
const JOB: &str = include_str!("assets/flow.html");

/// What the pages are made of.
static ASSETS: Assets = Assets::new(&[
    asset!("flow.js", SCRIPT),
    asset!("flows.js", SCRIPT),
    asset!("style.css", STYLE),
]);

/// `GET /flows`.
pub(super) async fn list(State(site): State<Site>) -> Response {
    site.frame.page(LIST, "/flows", "")
}

/// `GET /flows/{id}`; the page of a job that is not there says so, with the status that fits.
pub(super) async fn job(
    State(site): State<Site>,
    PathText(id): PathText,
) -> Result<Response, ApiError> {
    match site.jobs.spec(&id) {
        Ok(spec) => Ok(site.frame.page(JOB, "/flows", &spec.name)),
        Err(JobsError::None(_)) => Ok(site.frame.missing(JOB, "/flows", "No such job")),
        Err(error) => Err(error.into()),
    }
}

/// One of the files that the pages are made of.
pub(super) async fn asset(
    PathText(name): PathText,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    ASSETS.answer(&name, &headers)
}

#[cfg(test)]
mod tests {
    use divvy_http::pages;

    use super::*;

    #[test]
    fn the_pages_use_only_what_there_is_and_nothing_inline() {
        pages::check(&[LIST, JOB], "/flows/assets/", &ASSETS);
    }
}
