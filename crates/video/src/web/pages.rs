//! The pages `/videos` and `/videos/{id}` and what they are made of. Everything is in this program: no build step, and
//! nothing from elsewhere.

use axum::extract::State;
use axum::response::Response;
use divvy_http::pages::{self, Assets, SCRIPT, STYLE};
use divvy_http::{ApiError, PathText, asset};
use http::{HeaderMap, StatusCode};

use super::Site;
use super::error::unreadable;
use super::request::video_id;
use crate::library::Video;

/// Scripts and styles come from this server only. The picture is fed to the player as `blob:`, and so is the worker
/// that takes segments apart; it makes a subtitle track from an empty `data:` address.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    media-src 'self' blob: data:; worker-src blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
    frame-ancestors 'none'";

const LIBRARY: &str = include_str!("assets/library.html");
const PLAYER: &str = include_str!("assets/player.html");

/// What the pages are made of.
static ASSETS: Assets = Assets::new(&[
    asset!("common.js", SCRIPT),
    asset!("controls.js", SCRIPT),
    asset!("library.js", SCRIPT),
    asset!("player.js", SCRIPT),
    asset!("sources.js", SCRIPT),
    asset!("thumbnails.js", SCRIPT),
    asset!("upload.js", SCRIPT),
    asset!("hls.min.js", SCRIPT),
    asset!("hls.LICENSE.txt", "text/plain; charset=utf-8"),
    asset!("style.css", STYLE),
]);

/// `GET /videos`.
pub(super) async fn library(State(site): State<Site>) -> Response {
    page(&site, LIBRARY, "")
}

/// `GET /videos/{id}`; the page of a video that is not there says so, with the status that fits.
pub(super) async fn player(
    State(site): State<Site>,
    PathText(id): PathText,
) -> Result<Response, ApiError> {
    let video = match video_id(&id) {
        Ok(id) => site.library.objects().record::<Video>(&id.record()).await.map_err(unreadable)?,
        Err(_) => None,
    };
    let title = video.as_ref().map_or("No such video", |video| video.value.title.as_str());
    let mut response = page(&site, PLAYER, title);
    if video.is_none() {
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
    let text = site.frame.filled(template, "/videos", title);
    pages::page(StatusCode::OK, POLICY.to_owned(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The BLAKE3 hash of `dist/hls.min.js` of hls.js 1.7.4 as it was published.
    const HLS: &str = "594cba0e57a6f07e073e35088266de20307949f186a7b76ed69e2c3e2956431b";

    #[test]
    fn the_vendored_player_is_the_published_one() {
        let find = |name| ASSETS.files().iter().find(|file| file.name == name).unwrap().bytes;
        assert_eq!(blake3::hash(find("hls.min.js")).to_hex().as_str(), HLS);
        assert!(find("hls.LICENSE.txt").starts_with(b"Copyright (c) 2017 Dailymotion"));
    }

    #[test]
    fn the_pages_use_only_what_there_is_and_nothing_inline() {
        for page in [LIBRARY, PLAYER] {
            for part in page.split("/videos/assets/").skip(1) {
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
    }
}
