//! `GET /`: a small page for whoever opens the address in a browser. No script, and nothing from elsewhere.
//!
//! It leads to the pages of the extension, which it knows by title and path only, and out of a session.

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use divvy_http::pages;
use http::{StatusCode, header};

use crate::app::{App, VERSION};
use crate::guard::Rules;

/// The page, with places for the version, the address, the links and the word that allows its style.
const PAGE: &str = include_str!("page.html");

/// The icon of all pages.
const ICON: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="9" fill="#5b5bd6"/><path d="M12.5 9.6v12.8c0 .8.9 1.3 1.6.9l9.6-6.4c.6-.4.6-1.3 0-1.7l-9.6-6.4c-.7-.5-1.6 0-1.6.8z" fill="#fff"/><rect x="7" y="9" width="2.6" height="14" rx="1.3" fill="#fff" opacity=".65"/></svg>"##;

/// Where commands look for a server.
const USUAL_PORT: &str = "7171";

/// How a person ends a session.
const SIGN_OUT: &str =
    r#"<form method="post" action="/sign-out"><button type="submit">Sign out</button></form>"#;

/// What has to be typed first where commands do not find the server by themselves.
fn first_line(scheme: &str, address: &str) -> String {
    let port = address.rsplit_once(':').map(|(_, port)| port);
    if scheme == "http" && port.is_none_or(|port| port == USUAL_PORT) {
        return String::new();
    }
    format!("export DIVVY_SERVER={scheme}://{address}\n")
}

/// The icon, which browsers ask for by themselves.
pub(crate) async fn icon() -> Response {
    ([(header::CONTENT_TYPE, "image/svg+xml")], ICON).into_response()
}

/// The page.
pub(crate) async fn show(State(app): State<App>, Extension(rules): Extension<Rules>) -> Response {
    // A fresh word in policy and page allows this one style and no other.
    let nonce = uuid::Uuid::now_v7().simple().to_string();
    let link = |(title, path): &(&str, &str)| format!("<a href=\"{path}\">{title}</a>");
    let page = PAGE
        .replace("{{nonce}}", &nonce)
        .replace("{{version}}", VERSION)
        .replace("{{first}}", &first_line(app.scheme(), &app.address()))
        .replace("{{address}}", &app.address())
        .replace("{{pages}}", &app.pages().iter().map(link).collect::<String>())
        .replace("{{session}}", if rules.wants_token() { SIGN_OUT } else { "" });
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    );
    pages::page(StatusCode::OK, policy, page)
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
