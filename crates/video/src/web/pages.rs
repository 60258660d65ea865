//! The pages `/videos` and `/videos/{id}` and what they are made of. Everything is in this program: no build step, and
//! nothing from elsewhere.

use std::sync::LazyLock;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG};
use http::{HeaderMap, StatusCode};

use super::Mount;
use super::error::ApiError;
use super::files::is_known;
use super::request::Named;
use crate::library::Video;

/// Scripts and styles come from this server only. The picture is fed to the player as `blob:`, and so is the worker
/// that takes segments apart; it makes a subtitle track from an empty `data:` address.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    media-src 'self' blob: data:; worker-src blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
    frame-ancestors 'none'";

const LIBRARY: &str = include_str!("assets/library.html");
const PLAYER: &str = include_str!("assets/player.html");

/// How a person ends a session; the server answers.
const SIGN_OUT: &str = r#"<form method="post" action="/sign-out"><button class="top-link" type="submit">Sign out</button></form>"#;

/// What the pages are made of: name, content type, bytes.
const ASSETS: [(&str, &str, &[u8]); 11] = [
    ("common.js", SCRIPT, include_bytes!("assets/common.js")),
    ("controls.js", SCRIPT, include_bytes!("assets/controls.js")),
    ("library.js", SCRIPT, include_bytes!("assets/library.js")),
    ("player.js", SCRIPT, include_bytes!("assets/player.js")),
    ("sources.js", SCRIPT, include_bytes!("assets/sources.js")),
    ("thumbnails.js", SCRIPT, include_bytes!("assets/thumbnails.js")),
    ("upload.js", SCRIPT, include_bytes!("assets/upload.js")),
    ("hls.min.js", SCRIPT, include_bytes!("assets/hls.min.js")),
    ("hls.LICENSE.txt", "text/plain; charset=utf-8", include_bytes!("assets/hls.LICENSE.txt")),
    ("style.css", STYLE, include_bytes!("assets/style.css")),
    ("icon.svg", "image/svg+xml", include_bytes!("assets/icon.svg")),
];
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// The tags of the assets, in their order: a browser asks each time and is mostly told that it has the file already.
static TAGS: LazyLock<[String; ASSETS.len()]> =
    LazyLock::new(|| ASSETS.map(|(_, _, bytes)| format!("\"{}\"", blake3::hash(bytes).to_hex())));

/// `GET /videos`.
pub(super) async fn library(State(mount): State<Mount>) -> Response {
    page(&mount, LIBRARY, "")
}

/// `GET /videos/{id}`; the page of a video that is not there says so, with the status that fits.
pub(super) async fn player(
    State(mount): State<Mount>,
    Named(id): Named,
) -> Result<Response, ApiError> {
    let video = mount.library()?.objects().record::<Video>(&id.record()).await?;
    let title = video.as_ref().map_or("No such video", |video| video.value.title.as_str());
    let mut response = page(&mount, PLAYER, title);
    if video.is_none() {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    Ok(response)
}

/// One of the files that the pages are made of.
pub(super) async fn asset(
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let Some(at) = ASSETS.iter().position(|(known, _, _)| *known == name) else {
        return Err(ApiError::new(
            StatusCode::NOT_FOUND,
            "no_such_file",
            "the pages have no such part",
        ));
    };
    let ((_, content_type, bytes), tag) = (ASSETS[at], TAGS[at].as_str());
    let caching = [(ETAG, tag), (CACHE_CONTROL, "no-cache")];
    if is_known(&headers, tag) {
        return Ok((StatusCode::NOT_MODIFIED, caching).into_response());
    }
    Ok((caching, [(CONTENT_TYPE, content_type)], bytes).into_response())
}

fn page(mount: &Mount, template: &str, title: &str) -> Response {
    // What a title says is put in last, so that nothing in it is taken for a place.
    let text = template
        .replace("{{session}}", if mount.has_sign_out { SIGN_OUT } else { "" })
        .replace("{{title}}", &escape(title));
    let headers = [(CONTENT_TYPE, "text/html; charset=utf-8"), (CONTENT_SECURITY_POLICY, POLICY)];
    (headers, text).into_response()
}

/// Text as it may stand in HTML.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The BLAKE3 hash of `dist/hls.min.js` of hls.js 1.7.4 as it was published.
    const HLS: &str = "594cba0e57a6f07e073e35088266de20307949f186a7b76ed69e2c3e2956431b";

    #[test]
    fn the_vendored_player_is_the_published_one() {
        let find = |name| ASSETS.iter().find(|(known, _, _)| *known == name).unwrap().2;
        assert_eq!(blake3::hash(find("hls.min.js")).to_hex().as_str(), HLS);
        assert!(find("hls.LICENSE.txt").starts_with(b"Copyright (c) 2017 Dailymotion"));
    }

    #[test]
    fn the_pages_use_only_what_there_is_and_nothing_inline() {
        for page in [LIBRARY, PLAYER] {
            for part in page.split("/videos/assets/").skip(1) {
                let name = part.split('"').next().unwrap();
                assert!(ASSETS.iter().any(|(known, _, _)| *known == name), "{name}");
            }
            for bad in
                ["<style", " style=", " onclick=", "javascript:", "src=\"http", "href=\"http"]
            {
                assert!(!page.contains(bad), "{bad}");
            }
            assert_eq!(page.matches("<script").count(), page.matches("<script ").count());
        }
    }

    #[test]
    fn a_title_cannot_leave_its_place() {
        assert_eq!(
            escape("</title><b a='\"'>&"),
            "&lt;/title&gt;&lt;b a=&#39;&quot;&#39;&gt;&amp;"
        );
    }
}
