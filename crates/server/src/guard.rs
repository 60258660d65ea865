//! Who may ask: the Host and Origin of every request are checked, and the token if one is set.
//!
//! A page in a browser on this machine can reach a loopback port. Two ways are closed on every method: a foreign
//! page that calls us directly (its Origin is not our Host), and a foreign name that was made to resolve to us (its
//! Host is not one of ours). Neither needs the caller's help, so both hold without a token too.
//!
//! A browser cannot send the token by itself: whoever asks for a page without it gets a form to sign in, and then a
//! cookie that is as good as the token.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use divvy_http::ApiError;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri};

use crate::http::error::to_grpc;
use crate::http::sign_in;
use crate::options::Options;
use crate::session::Sessions;

/// The local end of the connection that a request came by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalAddress(pub(crate) IpAddr);

/// Addresses that say nothing but that the server is there, or let people in.
const OPEN_PATHS: [&str; 4] = ["/healthz", "/readyz", "/sign-in", "/sign-out"];

/// Sent with every answer that is not gRPC. The page sets a wider policy of its own.
const SECURITY_HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    // With `no-referrer` a browser hides the origin of our own forms too, and nobody could sign in.
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// What is checked.
#[derive(Clone)]
pub(crate) struct Rules(Arc<RuleSet>);

struct RuleSet {
    token: Option<String>,
    listen: IpAddr,
    allowed_hosts: Vec<String>,
    sessions: Sessions,
}

impl Rules {
    pub(crate) fn new(options: &Options, address: SocketAddr) -> Self {
        let allowed_hosts =
            options.allowed_hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        Self(Arc::new(RuleSet {
            token: options.token.clone(),
            listen: address.ip(),
            allowed_hosts,
            sessions: Sessions::new(address),
        }))
    }

    /// Whether callers need a token, so that people have a session to end.
    pub(crate) fn wants_token(&self) -> bool {
        self.0.token.is_some()
    }

    /// A cookie for whoever knows the token.
    pub(crate) fn sign_in(&self, given: &str, is_secure: bool) -> Option<String> {
        let expected = self.0.token.as_deref().unwrap_or_default();
        equal_in_constant_time(given.as_bytes(), expected.as_bytes())
            .then(|| self.0.sessions.cookie(expected, is_secure))
    }

    /// A cookie that ends a session.
    pub(crate) fn sign_out(&self) -> String {
        self.0.sessions.farewell()
    }

    fn check(&self, request: &Request) -> Result<(), ApiError> {
        let headers = request.headers();
        let host =
            self.check_host(request.uri(), headers, request.extensions().get::<LocalAddress>())?;
        if let Some(origin) = headers.get(header::ORIGIN) {
            check_origin(origin, &host)?;
        }
        if OPEN_PATHS.contains(&request.uri().path()) {
            return Ok(());
        }
        self.check_token(headers)
    }

    /// The host that the caller asked for, in lower case, if it is one of ours.
    fn check_host(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        local: Option<&LocalAddress>,
    ) -> Result<String, ApiError> {
        // HTTP/2 names the host in the address and may repeat it in a header: all that is said must be right.
        let authority = uri.authority().map(|authority| authority.as_str().to_ascii_lowercase());
        let named = headers.get_all(header::HOST).iter();
        let named = named.map(|value| value.to_str().unwrap_or_default().to_ascii_lowercase());
        let hosts: Vec<String> = authority.into_iter().chain(named).collect();
        let local = local.map(|local| local.0);
        match hosts.iter().find(|host| !self.is_ours(host, local)) {
            Some(foreign) => Err(forbidden(
                "host_not_allowed",
                &format!(
                    "host `{}` is not a name of this server; ask for the address that it listens on, or allow the name: --allowed-hosts",
                    foreign.chars().take(128).collect::<String>(),
                ),
            )),
            None => hosts.into_iter().next().ok_or_else(|| {
                forbidden("host_not_allowed", "the request names no host; send a Host header")
            }),
        }
    }

    fn is_ours(&self, host: &str, local: Option<IpAddr>) -> bool {
        let name = without_port(host);
        if name == "localhost"
            || self.0.allowed_hosts.iter().any(|allowed| allowed == host || allowed == name)
        {
            return true;
        }
        let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
        match bare.parse::<IpAddr>() {
            // An address cannot be made to resolve elsewhere, so the end of this very connection is as good.
            Ok(ip) => {
                ip.is_loopback()
                    || (ip == self.0.listen && !ip.is_unspecified())
                    || Some(ip) == local
            }
            Err(_) => false,
        }
    }

    fn check_token(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let Some(expected) = &self.0.token else { return Ok(()) };
        let unauthorized =
            |problem: &str| ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", problem);
        let Some(given) = headers.get(header::AUTHORIZATION) else {
            if self.0.sessions.admits(headers, expected) {
                return Ok(());
            }
            return Err(unauthorized(
                "a token is needed; send the header Authorization: Bearer TOKEN",
            ));
        };
        let (scheme, token) =
            given.to_str().ok().and_then(|text| text.split_once(' ')).unwrap_or_default();
        if scheme.eq_ignore_ascii_case("bearer")
            && equal_in_constant_time(token.trim().as_bytes(), expected.as_bytes())
        {
            return Ok(());
        }
        Err(unauthorized("the token is not the one that this server was started with"))
    }
}

/// Lets a request through or answers it, and hardens the answer.
pub(crate) async fn admit(State(rules): State<Rules>, request: Request, next: Next) -> Response {
    let is_grpc = is_grpc(request.headers());
    let is_page = is_page(&request);
    let uri = request.uri().clone();
    let response = match rules.check(&request) {
        Ok(()) => next.run(request).await,
        Err(error) if is_grpc => return to_grpc(&error).into_http(),
        Err(error) if is_page && error.status() == StatusCode::UNAUTHORIZED => sign_in::ask(&uri),
        Err(error) => error.into_response(),
    };
    if is_grpc { response } else { harden(response) }
}

/// Whether a request speaks gRPC, and so must be answered.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// Whether a person's browser asks for a page.
fn is_page(request: &Request) -> bool {
    let accepts = request.headers().get(header::ACCEPT);
    request.method() == Method::GET
        && accepts.is_some_and(|value| value.to_str().is_ok_and(|text| text.contains("text/html")))
}

fn harden(mut response: Response) -> Response {
    for (name, value) in SECURITY_HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

fn check_origin(origin: &HeaderValue, host: &str) -> Result<(), ApiError> {
    let text = origin.to_str().unwrap_or_default().to_ascii_lowercase();
    let matches = text.split_once("://").is_some_and(|(scheme, authority)| {
        let port = if scheme == "https" { ":443" } else { ":80" };
        authority.trim_end_matches(port) == host.trim_end_matches(port)
    });
    if matches {
        return Ok(());
    }
    Err(forbidden(
        "origin_not_allowed",
        "the request comes from a page of another origin, which may not use this server",
    ))
}

fn forbidden(code: &'static str, message: &str) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, code, message)
}

/// The host without its port; an IPv6 address keeps its brackets.
fn without_port(host: &str) -> &str {
    match host.rfind(':') {
        Some(at)
            if host[at + 1..].bytes().all(|b| b.is_ascii_digit()) && !host[..at].contains(':') =>
        {
            &host[..at]
        }
        Some(at) if host[..at].ends_with(']') => &host[..at],
        _ => host,
    }
}

/// Takes as long for a guess that is nearly right as for one that is all wrong.
fn equal_in_constant_time(given: &[u8], expected: &[u8]) -> bool {
    let mut difference = given.len() ^ expected.len();
    for (at, byte) in expected.iter().enumerate() {
        difference |= usize::from(byte ^ given.get(at).copied().unwrap_or(0));
    }
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(listen: &str, allowed: &[&str]) -> Rules {
        let mut options = Options::new(listen.parse().unwrap());
        options.allowed_hosts = allowed.iter().map(|host| (*host).to_owned()).collect();
        Rules::new(&options, options.listen)
    }

    #[test]
    fn only_names_that_cannot_be_rebound_are_ours() {
        let rules = rules("192.0.2.7:7171", &["divvy.example", "other.example:7171"]);
        for host in [
            "localhost",
            "localhost:7171",
            "127.0.0.1:7171",
            "127.9.9.9",
            "[::1]:7171",
            "[::1]",
            "192.0.2.7:80",
            "divvy.example",
            "divvy.example:443",
            "other.example:7171",
        ] {
            assert!(rules.is_ours(host, None), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "192.0.2.8",
            "other.example:80",
            "evil.example:7171",
            "[::2]:7171",
            "0.0.0.0",
        ] {
            assert!(!rules.is_ours(host, None), "{host}");
        }
        assert!(rules.is_ours("192.0.2.9:7171", Some("192.0.2.9".parse().unwrap())));
    }

    #[test]
    fn an_origin_must_be_the_host() {
        let check = |origin: &str, host: &str| {
            check_origin(&HeaderValue::from_str(origin).unwrap(), host).is_ok()
        };
        assert!(check("http://127.0.0.1:7171", "127.0.0.1:7171"));
        assert!(check("https://divvy.example", "divvy.example:443"));
        for foreign in [
            "null",
            "",
            "http://evil.example",
            "http://127.0.0.1:8080",
            "http://127.0.0.1:7171.evil.example",
        ] {
            assert!(!check(foreign, "127.0.0.1:7171"), "{foreign}");
        }
    }

    #[test]
    fn tokens_are_compared_whole() {
        assert!(equal_in_constant_time(b"secret", b"secret"));
        for wrong in [&b"secre"[..], b"secret1", b"Secret", b""] {
            assert!(!equal_in_constant_time(wrong, b"secret"));
        }
    }
}
