//! `GET /`: a small page for whoever opens the address in a browser, and what all pages are made of.

use axum::extract::State;
use axum::response::Response;
use divvy_http::frame::{LOOK, Link};
use divvy_http::{ApiError, PathText, pages};
use http::{HeaderMap, StatusCode};

use crate::app::{App, VERSION};

/// The pages of the server itself.
pub(crate) const PAGES: [Link; 1] = [("Server", "/")];

/// The page, with places for the version and the address.
const PAGE: &str = include_str!("page.html");

/// Scripts and styles come from this server only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; \
    form-action 'self'; frame-ancestors 'none'";

/// Where commands look for a server.
const USUAL_PORT: &str = "7171";

/// What has to be typed first where commands do not find the server by themselves.
fn first_line(scheme: &str, address: &str) -> String {
    let port = address.rsplit_once(':').map(|(_, port)| port);
    if scheme == "http" && port.is_none_or(|port| port == USUAL_PORT) {
        return String::new();
    }
    format!("export DIVVY_SERVER={scheme}://{address}\n")
}

/// The icon, which browsers ask for by themselves.
pub(crate) async fn icon(headers: HeaderMap) -> Result<Response, ApiError> {
    LOOK.answer("icon.svg", &headers)
}

/// One of the files that all pages are made of.
pub(crate) async fn asset(
    PathText(name): PathText,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    LOOK.answer(&name, &headers)
}

/// The page.
pub(crate) async fn show(State(app): State<App>) -> Response {
    let page = app
        .frame()
        .filled(PAGE, "/", "divvy")
        .replace("{{version}}", VERSION)
        .replace("{{first}}", &first_line(app.scheme(), &app.address()))
        .replace("{{address}}", &app.address());
    pages::page(StatusCode::OK, POLICY.to_owned(), page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_named_where_commands_would_not_find_it() {
        assert_eq!(first_line("http", "127.0.0.1:7171"), "");
        assert_eq!(first_line("http", "this process"), "");
        assert_eq!(first_line("http", "127.0.0.1:80"), "export DIVVY_SERVER=http://127.0.0.1:80\n");
        assert_eq!(
            first_line("https", "127.0.0.1:7171"),
            "export DIVVY_SERVER=https://127.0.0.1:7171\n"
        );
    }
}
