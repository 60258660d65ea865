//! `GET /`: a small page for whoever opens the address in a browser. No script, and nothing from elsewhere.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};

use crate::app::{App, VERSION};

/// The page, with places for the version, the address and the word that allows its style.
const PAGE: &str = include_str!("page.html");

/// The page.
pub(crate) async fn show(State(app): State<App>) -> Response {
    // A fresh word in policy and page allows this one style and no other.
    let nonce = uuid::Uuid::now_v7().simple().to_string();
    let page = PAGE
        .replace("{{nonce}}", &nonce)
        .replace("{{version}}", VERSION)
        .replace("{{address}}", &app.address.to_string());
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let headers =
        [(CONTENT_TYPE, "text/html; charset=utf-8".to_owned()), (CONTENT_SECURITY_POLICY, policy)];
    (headers, page).into_response()
}
