//! `/sign-in` and `/sign-out`: how a person with a browser shows the token once and is known from then on.

use std::time::Duration;

use axum::Extension;
use axum::extract::{Query, Request};
use axum::response::{IntoResponse, Response};
use divvy_http::pages::{self, escape};
use divvy_http::{ApiError, Parameters};
use http::header::{HeaderMap, LOCATION, ORIGIN, SET_COOKIE};
use http::{StatusCode, Uri};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::guard::Rules;
use divvy_wire::door::Guest;

/// The form, with places for what is wrong, for where to go then, and for the word that allows its style.
const PAGE: &str = include_str!("sign_in.html");
/// Bytes of what the form sends.
const FORM_BYTES_MAX: usize = 8 << 10;
/// How long it may take; less than a connection that nobody vouches for may be silent.
const FORM_WITHIN: Duration = Duration::from_secs(5);
/// Where to go when nothing was asked for.
const HOME: &str = "/";

const WRONG: &str = "This is not the token of this server.";
const TOO_MANY: &str = "Too many wrong tokens came from this address. Try again in a minute.";

/// What the form sends.
#[derive(Deserialize, JsonSchema)]
struct Form {
    #[serde(default)]
    token: String,
    #[serde(default)]
    next: String,
}

/// What the address of the form says.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Destination {
    #[serde(default)]
    next: String,
}

/// The form.
pub(crate) async fn show(Parameters(destination): Parameters<Destination>) -> Response {
    page(StatusCode::OK, "", &destination.next)
}

/// Takes the token, and gives the cookie for it.
pub(crate) async fn enter(
    Extension(rules): Extension<Rules>,
    request: Request,
) -> Result<Response, ApiError> {
    let (head, body) = request.into_parts();
    let reading = tokio::time::timeout(FORM_WITHIN, axum::body::to_bytes(body, FORM_BYTES_MAX));
    let read_whole = reading.await.map_err(|_| {
        let problem = format!("the form did not arrive within {} seconds", FORM_WITHIN.as_secs());
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", problem)
    })?;
    let bytes = read_whole.map_err(|_| {
        let problem = format!("the form is larger than {FORM_BYTES_MAX} bytes, or broke off");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", problem)
    })?;
    let form = read(&bytes).ok_or_else(|| {
        ApiError::new(
            StatusCode::BAD_REQUEST,
            "invalid_body",
            "the body is not a form with the field token",
        )
    })?;
    // The origin was checked: it is the address by which the browser knows this server.
    let is_secure =
        head.headers.get(ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https:"));
    let judge = || {
        let cookie = rules.sign_in(form.token.trim(), is_secure);
        cookie.ok_or_else(|| ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", WRONG))
    };
    let judged = match head.extensions.get::<Guest>() {
        Some(guest) => {
            rules.guesses().of_secret(guest.address, form.token.as_bytes(), judge, |_| true)
        }
        None => judge(),
    };
    Ok(match judged {
        Ok(cookie) => go(local(&form.next), cookie),
        Err(error) if error.status() == StatusCode::UNAUTHORIZED => {
            page(error.status(), WRONG, &form.next)
        }
        Err(error) => page(error.status(), TOO_MANY, &form.next),
    })
}

/// Ends the session of this browser.
pub(crate) async fn leave(Extension(rules): Extension<Rules>, headers: HeaderMap) -> Response {
    go("/sign-in", rules.sign_out(&headers))
}

/// The form for someone who asked for a page and is not known.
pub(crate) fn ask(uri: &Uri) -> Response {
    let next = uri.path_and_query().map_or(HOME, |path| path.as_str());
    page(StatusCode::UNAUTHORIZED, "", next)
}

fn read(bytes: &[u8]) -> Option<Form> {
    // A form is coded as the query of an address is.
    let uri: Uri = format!("/?{}", std::str::from_utf8(bytes).ok()?).parse().ok()?;
    Query::<Form>::try_from_uri(&uri).ok().map(|Query(form)| form)
}

fn go(to: &str, cookie: String) -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, to.to_owned()), (SET_COOKIE, cookie)]).into_response()
}

/// A path of this server, whatever was asked for: a link to the form must not lead elsewhere.
fn local(next: &str) -> &str {
    let is_path = next.starts_with('/')
        && !next.starts_with("//")
        && next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_path { next } else { HOME }
}

fn page(status: StatusCode, problem: &str, next: &str) -> Response {
    let nonce = uuid::Uuid::now_v7().simple().to_string();
    let text = PAGE
        .replace("{{nonce}}", &nonce)
        .replace("{{problem}}", problem)
        .replace("{{next}}", &escape(local(next)));
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    );
    pages::page(status, policy, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_elsewhere() {
        assert_eq!(local("/videos/a?b=c"), "/videos/a?b=c");
        for bad in
            ["", "videos", "//evil.example", "/\\evil.example", "https://evil.example", "/a\r\nb"]
        {
            assert_eq!(local(bad), HOME, "{bad}");
        }
    }

    #[test]
    fn a_form_is_read_as_browsers_write_it() {
        let form = read(b"token=a%2Bb%26c+d&next=%2Fvideos%3Fx%3D1").unwrap();
        assert_eq!((form.token.as_str(), form.next.as_str()), ("a+b&c d", "/videos?x=1"));
        assert!(read(b"token=\xff").is_none());
    }
}
