//! The addresses of the dashboard, and the files that its pages are made of.

use axum::extract::{Request, State};
use axum::response::Response;
use divvy_http::frame::{Frame, Link};
use divvy_http::pages::{self, Asset, Assets, SCRIPT, STYLE};
use divvy_http::{ApiError, Mounted, PathText, Route, Routes, get};
use http::{HeaderMap, StatusCode};

/// The pages that the bar leads to.
pub const PAGES: [Link; 12] = [
    ("Overview", "/"),
    ("Tasks", "/tasks"),
    ("Workflows", "/workflows"),
    ("Queues", "/queues"),
    ("Workers", "/workers"),
    ("Limits", "/limits"),
    ("Schedules", "/schedules"),
    ("Dead letters", "/dead"),
    ("Scale", "/scale"),
    ("Alerts", "/alerts"),
    ("Lab", "/lab"),
    ("Plan", "/plan"),
];

/// The pages of single things.
const DETAILS: [&str; 3] = ["/tasks/{id}", "/workflows/{id}", "/queues/{name}"];

/// Scripts and styles come from this server only, and only its API is asked.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const PAGE: &str = include_str!("../dist/index.html");

static ASSETS: Assets = Assets::new(&[
    Asset { name: "dash.js", content_type: SCRIPT, bytes: include_bytes!("../dist/dash.js") },
    Asset { name: "dash.css", content_type: STYLE, bytes: include_bytes!("../dist/dash.css") },
]);

/// All addresses of the dashboard, in this frame.
pub fn routes(frame: Frame) -> Mounted {
    const HTML: &str = "text/html";
    let lists = PAGES.iter().map(|(_, path)| *path);
    let page = |path: &'static str| -> Route<Frame> {
        let summary = "A page of the dashboard, for people";
        get(path, show).id(operation_id(path)).summary(summary).gives_media(HTML)
    };
    let assets = get("/dash/assets/{name}", asset)
        .summary("A script or style of the dashboard")
        .answers([200, 304])
        .gives_media("*/*")
        .refuses([404]);
    Routes::new(lists.chain(DETAILS).map(page).chain([assets])).with_state(frame)
}

/// `/tasks/{id}` is `pageTasksId`.
fn operation_id(path: &str) -> String {
    let words = path.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.filter(|word| !word.is_empty()).fold("page".to_owned(), |id, word| {
        let (first, rest) = word.split_at(1);
        id + &first.to_ascii_uppercase() + rest
    })
}

/// The document of every page.
async fn show(State(frame): State<Frame>, request: Request) -> Response {
    let text = frame.filled(PAGE, request.uri().path(), "divvy");
    pages::page(StatusCode::OK, POLICY.to_owned(), text)
}

/// One of the files that the pages are made of.
async fn asset(PathText(name): PathText, headers: HeaderMap) -> Result<Response, ApiError> {
    ASSETS.answer(&name, &headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_uses_only_what_there_is_and_nothing_inline() {
        for part in PAGE.split("/dash/assets/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(ASSETS.files().iter().any(|file| file.name == name), "{name}");
        }
        for bad in ["<style", " style=", " onclick=", "javascript:", "src=\"http", "href=\"http"] {
            assert!(!PAGE.contains(bad), "{bad}");
        }
        assert_eq!(PAGE.matches("<script").count(), PAGE.matches("<script ").count());
        for place in ["{{head}}", "{{frame}}", "{{title}}"] {
            assert!(PAGE.contains(place), "{place}");
        }
    }

    #[test]
    fn every_page_of_the_bar_is_served() {
        let mounted = routes(Frame::new(false));
        let served: Vec<_> =
            mounted.operations().iter().map(|operation| operation.path()).collect();
        for path in PAGES.iter().map(|(_, path)| *path).chain(DETAILS) {
            assert!(served.contains(&path), "{path}");
        }
    }
}
