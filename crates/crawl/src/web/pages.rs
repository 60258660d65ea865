//! The pages `/crawls` and `/crawls/{id}` and what they are made of. Everything is in this program: no build step, and
//! nothing from elsewhere. What strangers wrote (addresses, titles) reaches the pages as text only.

use axum::extract::State;
use axum::response::Response;
use divvy_http::pages::{self, Assets, SCRIPT, STYLE};
use divvy_http::{ApiError, PathText, asset};
use http::{HeaderMap, StatusCode};

use super::Site;
use crate::crawls::CrawlsError;

/// Scripts and styles come from this server only; the bars are set by their width.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const LIST: &str = include_str!("assets/crawls.html");
const CRAWL: &str = include_str!("assets/crawl.html");

/// What the pages are made of.
static ASSETS: Assets = Assets::new(&[
    asset!("common.js", SCRIPT),
    asset!("crawl.js", SCRIPT),
    asset!("crawls.js", SCRIPT),
    asset!("style.css", STYLE),
]);

/// `GET /crawls`.
pub(super) async fn list(State(site): State<Site>) -> Response {
    page(&site, LIST, "")
}

/// `GET /crawls/{id}`; the page of a crawl that is not there says so, with the status that fits.
pub(super) async fn crawl(
    State(site): State<Site>,
    PathText(id): PathText,
) -> Result<Response, ApiError> {
    let name = match site.crawls.spec(&id) {
        Ok(spec) => Some(spec.name),
        Err(CrawlsError::None(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let mut response = page(&site, CRAWL, name.as_deref().unwrap_or("No such crawl"));
    if name.is_none() {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    Ok(response)
}

/// One of the files that the pages are made of.
pub(super) async fn asset(
    PathText(name): PathText,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    ASSETS.answer(&name, &headers)
}

fn page(site: &Site, template: &str, title: &str) -> Response {
    let text = site.frame.filled(template, "/crawls", title);
    pages::page(StatusCode::OK, POLICY.to_owned(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_use_only_what_there_is_and_nothing_inline() {
        for page in [LIST, CRAWL] {
            for part in page.split("/crawls/assets/").skip(1) {
                let name = part.split('"').next().unwrap();
                assert!(ASSETS.files().iter().any(|file| file.name == name), "{name}");
            }
            for bad in
                ["<style", " style=", " onclick=", "javascript:", "src=\"http", "href=\"http"]
            {
                assert!(!page.contains(bad), "{bad}");
            }
            assert_eq!(page.matches("<script").count(), page.matches("<script ").count());
        }
        for file in ASSETS.files().iter().filter(|file| file.name.ends_with(".js")) {
            let text = std::str::from_utf8(file.bytes).unwrap();
            for bad in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
                assert!(!text.contains(bad), "{}: {bad}", file.name);
            }
        }
    }
}
