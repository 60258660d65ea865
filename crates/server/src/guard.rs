//! Who may ask: the Host and Origin of every request are checked, and then what the caller's token allows.
//!
//! A page in a browser on this machine can reach a loopback port. Two ways are closed on every method: a foreign
//! page that calls us directly (its Origin is not our Host), and a foreign name that was made to resolve to us (its
//! Host is not one of ours). Neither needs the caller's help, so both hold without a token too.
//!
//! Without any token, a server on loopback is open to everybody who reaches it. Otherwise every address needs one of the
//! scopes that its route names, and an address that names none needs `admin`.
//!
//! A browser cannot send the token by itself: whoever asks for a page without it gets a form to sign in, and then a
//! cookie that is as good as the token.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{MatchedPath, Request};
use axum::response::{IntoResponse, Response};
use divvy_http::{ApiError, Operation};
use divvy_types::pulse::Caller;
use divvy_types::{REFUSAL_MARK as MARK, Scope, Scopes};
use divvy_wire::connection::LocalAddress;
use divvy_wire::door::{self, Guest};
use divvy_wire::gate::{self, Gate};
use divvy_wire::grpc;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Extensions, Method, StatusCode, Uri};

use crate::guesses::Guesses;
use crate::http::error::to_grpc;
use crate::http::sign_in;
use crate::keda;
use crate::options::Options;
use crate::session::Sessions;
use crate::tokens::{self, Tokens, Worth};

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
    /// The hash of the token that the server was started with, which allows everything.
    started_with: Option<blake3::Hash>,
    tokens: Tokens,
    access: Access,
    listen: IpAddr,
    allowed_hosts: Vec<String>,
    sessions: Sessions,
    guesses: Guesses,
}

impl Rules {
    /// The rules for these addresses.
    pub(crate) fn new<'a>(
        options: &Options,
        address: SocketAddr,
        operations: impl IntoIterator<Item = &'a Operation>,
    ) -> Self {
        let allowed_hosts =
            options.allowed_hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        Self(Arc::new(RuleSet {
            started_with: options.token.as_deref().map(tokens::hash),
            tokens: options.tokens.clone(),
            access: Access::new(operations),
            listen: address.ip(),
            allowed_hosts,
            sessions: Sessions::new(address),
            guesses: Guesses::default(),
        }))
    }

    /// Whether callers need a token, so that people have a session to end.
    pub(crate) fn wants_token(&self) -> bool {
        !self.is_open()
    }

    /// Whether everybody who reaches the server may do everything.
    fn is_open(&self) -> bool {
        self.0.started_with.is_none() && self.0.tokens.is_empty() && self.0.listen.is_loopback()
    }

    /// Whether someone can manage tokens when the token of this name is gone.
    pub(crate) fn has_admin_without(&self, name: &str) -> bool {
        self.0.started_with.is_some() || self.0.tokens.has_other_admin(name)
    }

    /// A cookie for whoever knows a token.
    pub(crate) fn sign_in(&self, given: &str, is_secure: bool) -> Option<String> {
        let given = tokens::hash(given);
        let is_known =
            self.is_open() || matches!(self.worth(|known| *known == given), Worth::Allows(_));
        is_known.then(|| self.0.sessions.cookie(&given.to_hex(), is_secure))
    }

    /// Ends the session of a request; gives the cookie that takes its place.
    pub(crate) fn sign_out(&self, headers: &HeaderMap) -> String {
        // The cookie does not say whose token it stands for.
        let _ = self.worth(|known| self.0.sessions.end(headers, &known.to_hex()));
        self.0.sessions.farewell()
    }

    /// How often tokens were guessed.
    pub(crate) fn guesses(&self) -> &Guesses {
        &self.0.guesses
    }

    fn check(&self, request: &Request) -> Result<(), ApiError> {
        let headers = request.headers();
        let host =
            self.check_host(request.uri(), headers, request.extensions().get::<LocalAddress>())?;
        if let Some(origin) = headers.get(header::ORIGIN) {
            check_origin(origin, &host)?;
        }
        let Some(needed) = self.0.access.needed(request) else { return Ok(()) };
        let have = self.check_token(headers)?;
        if have.allow(needed) { Ok(()) } else { Err(scope_missing(needed, have)) }
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

    /// Judges a token that was named elsewhere than in a header; `cure` says where it belongs.
    pub(crate) fn check_named(
        &self,
        guest: Option<&Guest>,
        token: Option<&str>,
        needed: Scopes,
        cure: &str,
    ) -> Result<(), ApiError> {
        if self.is_open() {
            return Ok(());
        }
        let unauthorized = |problem: &str| {
            ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", format!("{problem}; {cure}"))
        };
        let Some(token) = token else { return Err(unauthorized("a token is needed")) };
        let shown = tokens::hash(token);
        let judge = || match self.worth(|known| *known == shown) {
            Worth::Allows(have) if have.allow(needed) => Ok(()),
            Worth::Allows(have) => Err(scope_missing(needed, have)),
            Worth::Expired(end) => Err(unauthorized(&format!("this token was good until {end}"))),
            Worth::Nothing => Err(unauthorized("this server does not know this token")),
        };
        let Some(guest) = guest else { return judge() };
        let is_wrong = |error: &ApiError| error.status() == StatusCode::UNAUTHORIZED;
        self.guesses().of_secret(guest.address, token.as_bytes(), judge, is_wrong)
    }

    /// What the caller may do.
    fn check_token(&self, headers: &HeaderMap) -> Result<Scopes, ApiError> {
        if self.is_open() {
            return Ok(Scopes::ADMIN);
        }
        let unauthorized =
            |problem: &str| ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", problem);
        let Some(given) = headers.get(header::AUTHORIZATION) else {
            return match self.worth(|known| self.0.sessions.admits(headers, &known.to_hex())) {
                Worth::Allows(scopes) => Ok(scopes),
                _ => Err(unauthorized(
                    "a token is needed; send the header Authorization: Bearer TOKEN",
                )),
            };
        };
        let (scheme, token) =
            given.to_str().ok().and_then(|text| text.split_once(' ')).unwrap_or_default();
        let shown = tokens::hash(token.trim());
        match self.worth(|known| *known == shown) {
            _ if !scheme.eq_ignore_ascii_case("bearer") => {
                Err(unauthorized("the header Authorization is not of the form Bearer TOKEN"))
            }
            Worth::Allows(scopes) => Ok(scopes),
            Worth::Expired(end) => Err(unauthorized(&format!(
                "this token was good until {end}; ask for a new one: divvy token create"
            ))),
            Worth::Nothing => Err(unauthorized(
                "the token is neither the one that this server was started with nor one that it made",
            )),
        }
    }

    /// Who asks, as far as its token tells.
    pub(crate) fn caller(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let have = self.check_token(headers)?;
        let scopes = if have.has(Scope::Admin) { Scopes::of(Scope::ALL) } else { have };
        let given = headers.get(header::AUTHORIZATION).and_then(|given| given.to_str().ok());
        let shown = given.and_then(|text| text.split_once(' ')).map(|it| tokens::hash(it.1.trim()));
        let is_it = |known: &blake3::Hash| match &shown {
            Some(shown) => known == shown,
            None => self.0.sessions.admits(headers, &known.to_hex()),
        };
        let is_named = !self.is_open() && !self.0.started_with.as_ref().is_some_and(is_it);
        let token = if is_named { self.0.tokens.name_of(is_it) } else { None };
        Ok(Caller { scopes, token })
    }

    /// What the token that `is_it` is worth. Hashes are compared in constant time.
    fn worth(&self, is_it: impl Fn(&blake3::Hash) -> bool) -> Worth {
        if self.0.started_with.as_ref().is_some_and(&is_it) {
            return Worth::Allows(Scopes::ADMIN);
        }
        self.0.tokens.worth(is_it)
    }
}

/// Which scopes each address needs, as the routes say it.
struct Access(HashMap<&'static str, Vec<(Method, Option<Scopes>)>>);

impl Access {
    fn new<'a>(operations: impl IntoIterator<Item = &'a Operation>) -> Self {
        let mut known: HashMap<_, Vec<_>> = HashMap::new();
        for operation in operations {
            let needed = (operation.method().clone(), operation.scopes());
            known.entry(operation.path()).or_default().push(needed);
        }
        Self(known)
    }

    /// The scopes of which one is needed; nothing if everybody may ask.
    fn needed(&self, request: &Request) -> Option<Scopes> {
        let Some(matched) = request.extensions().get::<MatchedPath>() else {
            // Nothing is there. Who has a token of any sort may know that.
            return Some(Scopes::of(Scope::ALL));
        };
        let known = self.0.get(matched.as_str()).map(Vec::as_slice).unwrap_or_default();
        let find = |method: &Method| known.iter().find(|(known, _)| known == method);
        let method = request.method();
        // A GET route answers HEAD too.
        let told = find(method).or_else(|| find(&Method::GET).filter(|_| method == Method::HEAD));
        if let Some((_, needed)) = told {
            return *needed;
        }
        let service = service(request.uri().path());
        match keda::scopes(service) {
            // Who cannot send a header names its token in what it asks, and is judged where that is read.
            Some(_) if !request.headers().contains_key(header::AUTHORIZATION) => None,
            needed => Some(needed.or_else(|| grpc::scopes(service)).unwrap_or(Scopes::ADMIN)),
        }
    }
}

/// The service of gRPC that a path names.
fn service(path: &str) -> &str {
    path.strip_prefix('/').and_then(|path| path.split_once('/')).map_or("", |(service, _)| service)
}

fn scope_missing(needed: Scopes, have: Scopes) -> ApiError {
    let names: Vec<&str> = needed.iter().map(Scope::name).collect();
    let (names, first) = (names.join("` or `"), names.first().copied().unwrap_or("admin"));
    forbidden(
        "scope_missing",
        &format!(
            "this needs a token with the scope `{names}`, and yours has `{have}`; ask whoever looks after the server for one: divvy token create NAME --scope {first}"
        ),
    )
}

/// The gate to the world: lets through whom the rules let through, and hardens what leaves.
pub(crate) struct Guarded {
    rules: Rules,
    beside: Extensions,
}

impl Guarded {
    /// The gate; handlers find this beside every request.
    pub(crate) fn new(rules: Rules, beside: Extensions) -> Self {
        Self { rules, beside }
    }
}

impl Gate for Guarded {
    fn admit(&self, request: &mut Request) -> Option<Response> {
        let rules = &self.rules;
        let Err(error) = rules.guesses().of_request(request, || rules.check(request)) else {
            // Who asks for what is open to all has shown nothing.
            if rules.0.access.needed(request).is_some() {
                door::let_in(request);
            }
            request.extensions_mut().extend(self.beside.clone());
            return None;
        };
        Some(if gate::is_grpc(request.headers()) {
            to_grpc(&error).into_http()
        } else if is_page(request) && error.status() == StatusCode::UNAUTHORIZED {
            sign_in::ask(request.uri())
        } else {
            error.into_response()
        })
    }

    fn release(&self, answer: Response, is_grpc: bool) -> Response {
        mark(if is_grpc { answer } else { harden(answer) })
    }
}

/// The gate to this process, which needs no guard.
pub(crate) struct Inside {
    beside: Extensions,
}

impl Inside {
    /// The gate; handlers find this beside every request.
    pub(crate) fn new(beside: Extensions) -> Self {
        Self { beside }
    }
}

impl Gate for Inside {
    fn admit(&self, request: &mut Request) -> Option<Response> {
        request.extensions_mut().extend(self.beside.clone());
        None
    }

    fn release(&self, answer: Response, _: bool) -> Response {
        mark(answer)
    }
}

/// Whether a person's browser asks for a page.
fn is_page(request: &Request) -> bool {
    let accepts = request.headers().get(header::ACCEPT);
    request.method() == Method::GET
        && accepts.is_some_and(|value| value.to_str().is_ok_and(|text| text.contains("text/html")))
}

/// Marks a refusal as ours, if nobody has: what has no mark is a proxy's word, which clients and workers do not believe.
fn mark(mut response: Response) -> Response {
    let is_refusal = |status: &HeaderValue| status != "0";
    let status = response.status();
    if status.is_client_error()
        || status.is_server_error()
        || response.headers().get("grpc-status").is_some_and(is_refusal)
    {
        response.headers_mut().entry(MARK).or_insert(HeaderValue::from_static("refused"));
    }
    response
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(listen: &str, allowed: &[&str]) -> Rules {
        let mut options = Options::new(listen.parse().unwrap());
        options.allowed_hosts = allowed.iter().map(|host| (*host).to_owned()).collect();
        Rules::new(&options, options.listen, [])
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
}
