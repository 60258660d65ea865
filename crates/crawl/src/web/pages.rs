//! The pages `/crawls` and `/crawls/{id}` and what they are made of. Everything is in this program: no build step, and
//! nothing from elsewhere. What strangers wrote (addresses, titles) reaches the pages as text only.

use axum::extract::State;
use axum::response::Response;
use divvy_http::pages::{Assets, SCRIPT, STYLE};
use divvy_http::{ApiError, PathText, asset};
use http::HeaderMap;

use super::Site;
use crate::crawls::CrawlsError;

const LIST: &str = include_str!("assets/crawls.html");
const CRAWL: &str = include_str!("assets/crawl.html");

/// What the pages are made of.
static ASSETS: Assets = Assets::new(&[
    asset!("crawl.js", SCRIPT),
    asset!("crawls.js", SCRIPT),
    asset!("style.css", STYLE),
]);

/// `GET /crawls`.
pub(super) async fn list(State(site): State<Site>) -> Response {
    site.frame.page(LIST, "/crawls", "")
}

/// `GET /crawls/{id}`; the page of a crawl that is not there says so, with the status that fits.
pub(super) async fn crawl(
    State(site): State<Site>,
    PathText(id): PathText,
) -> Result<Response, ApiError> {
    match site.crawls.spec(&id) {
        Ok(spec) => Ok(site.frame.page(CRAWL, "/crawls", &spec.name)),
        Err(CrawlsError::None(_)) => Ok(site.frame.missing(CRAWL, "/crawls", "No such crawl")),
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
        pages::check(&[LIST, CRAWL], "/crawls/assets/", &ASSETS);
    }
}
