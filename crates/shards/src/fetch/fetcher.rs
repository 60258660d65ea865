//! Sends one request and reads its answer within the bounds.
//!
//! A connection that was kept is used again for the same scheme, host and port. If it turns out to be closed before the
//! request was written, a new one is made; a request that may have been seen by the host is never sent twice, because the
//! host would count it.

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, HOST, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, LOCATION, USER_AGENT,
};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::Empty;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout, timeout_at};
use url::{Position, Url};

use super::body::{self, Unread, Wire};
use super::decode::{self, Plan, Room};
use super::session::Connection;
use super::{FetchError, Fetched, Limits, Session, Timings, Truncation, Validators};
use crate::net::{Connector, Target};

const ACCEPTED: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.5";
const ENCODINGS: &str = "gzip, deflate, br, zstd";
/// A body of a redirect is read so far, to keep the connection.
const REDIRECT_BYTES_MAX: usize = 64 * 1024;
/// Bodies that travelled as more are decoded on another thread, so that other hosts do not wait.
const DECODED_HERE_BYTES_MAX: usize = 64 * 1024;

/// Fetches pages. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Fetcher {
    connector: Connector,
    limits: Limits,
    /// What every request says.
    headers: HeaderMap,
}

/// What is to be fetched.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// From where.
    pub url: &'a Url,
    /// What is known of the last version, to get it only if there is another.
    pub validators: Option<&'a Validators>,
    /// What for, which decides how much of it is read.
    pub purpose: Purpose,
}

/// What something is fetched for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// To read it.
    #[default]
    Page,
    /// To know what the host allows.
    Robots,
    /// To know what the host has.
    Sitemap,
}

impl<'a> Order<'a> {
    /// An order for a page that was not fetched before.
    pub fn page(url: &'a Url) -> Self {
        Self { url, validators: None, purpose: Purpose::Page }
    }
}

impl Fetcher {
    /// A fetcher that goes out through `connector`.
    pub fn new(connector: Connector, limits: Limits) -> Self {
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(USER_AGENT, connector.user_agent().value().clone());
        headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(ENCODINGS));
        Self { connector, limits, headers }
    }

    /// Its bounds.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Its way out.
    pub fn connector(&self) -> &Connector {
        &self.connector
    }

    /// Sends one request and reads its answer. The session belongs to the host of the URL.
    pub fn fetch<'a>(
        &'a self,
        order: Order<'a>,
        session: &'a mut Session,
    ) -> BoxFuture<'a, Result<Fetched, FetchError>> {
        async move {
            let start = Instant::now();
            // Out of the session while it is used: whoever drops this future drops the connection, too.
            let kept = session.connection.take();
            let (mut connection, asked) = self.ask(order, kept, session, start).await?;
            let (fetched, is_whole) = self.read(order, &mut connection, asked, start).await?;
            session.connection = is_whole.then_some(connection);
            Ok(fetched)
        }
        .boxed()
    }

    /// Sends the request, over the connection that was kept or over a new one.
    async fn ask(
        &self,
        order: Order<'_>,
        kept: Option<Connection>,
        session: &mut Session,
        start: Instant,
    ) -> Result<(Connection, Asked), FetchError> {
        let target = Target::of(order.url).map_err(crate::net::ConnectError::from)?;
        let mut timings = Timings::default();
        let mut kept = kept.filter(|kept| kept.target == target);
        loop {
            let (mut connection, is_new) = match self.still_open(kept.take()).await {
                Some(kept) => (kept, false),
                None => {
                    let connection = self.open(target.clone()).await?;
                    timings.connect = Some(start.elapsed());
                    (connection, true)
                }
            };
            let request = self.request(order, &connection, &target)?;
            let mut headers = request.headers().clone();
            let asked = Instant::now();
            session.sending(asked);
            let deadline = (asked + self.limits.first_byte).min(start + self.limits.whole);
            let Ok(answer) = timeout_at(deadline, connection.send(request)).await else {
                return Err(FetchError::FirstByte {
                    target: target.to_string(),
                    limit: deadline - asked,
                });
            };
            match answer {
                Ok(response) => {
                    timings.first_byte = asked.elapsed();
                    // HTTP/2 sends it under another name.
                    headers.entry(HOST).or_insert_with(|| connection.host.clone());
                    return Ok((connection, Asked { headers, response, timings }));
                }
                // It was never written, so the host knows nothing of it.
                Err(error) if !is_new && error.message().is_some() => {}
                Err(error) => return Err(self.failure(&target, error.into_error())),
            }
        }
    }

    /// The connection that was kept, unless the host has hung up or is not done with it.
    async fn still_open(&self, kept: Option<Connection>) -> Option<Connection> {
        let mut kept = kept?;
        let is_ready = timeout(self.limits.connect, kept.is_ready()).await;
        matches!(is_ready, Ok(true)).then_some(kept)
    }

    async fn open(&self, target: Target) -> Result<Connection, FetchError> {
        let connected = self.connector.connect(&target, self.limits.connect).await?;
        let opened = Connection::open(target.clone(), connected, &self.limits).await;
        opened.map_err(|error| self.failure(&target, error))
    }

    fn request(
        &self,
        order: Order<'_>,
        connection: &Connection,
        target: &Target,
    ) -> Result<Request<Empty<Bytes>>, FetchError> {
        let url = order.url;
        let malformed =
            |problem: String| FetchError::Malformed { target: target.to_string(), problem };
        let mut headers = self.headers.clone();
        let uri = if connection.is_http2() {
            let path = &url[Position::BeforePath..Position::AfterQuery];
            let authority = connection.host.to_str().unwrap_or_default();
            Uri::builder().scheme("https").authority(authority).path_and_query(path).build()
        } else {
            headers.insert(HOST, connection.host.clone());
            url[Position::BeforePath..Position::AfterQuery].parse().map_err(http::Error::from)
        };
        let uri = uri.map_err(|e| malformed(e.to_string()))?;
        if let Some(validators) = order.validators {
            insert(&mut headers, IF_NONE_MATCH, validators.etag.as_deref());
            insert(&mut headers, IF_MODIFIED_SINCE, validators.last_modified.as_deref());
        }
        let mut request = Request::new(Empty::new());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// Reads the answer; says also whether the connection can be used again.
    async fn read(
        &self,
        order: Order<'_>,
        connection: &mut Connection,
        asked: Asked,
        start: Instant,
    ) -> Result<(Fetched, bool), FetchError> {
        let Asked { headers: request, response, mut timings } = asked;
        let (head, incoming) = response.into_parts();
        if head.headers.len() > self.limits.headers_max {
            return Err(self.too_many_headers(&connection.target));
        }
        let redirect = redirect(order.url, head.status, &head.headers);
        let room = match redirect {
            Some(_) => REDIRECT_BYTES_MAX,
            None => self.limits.wire_room(order.purpose),
        };
        let deadline = start + self.limits.whole;
        let wire = body::read(connection, incoming, room, deadline, &self.limits).await;
        let wire = wire.map_err(|problem| self.unread(&connection.target, problem))?;
        let is_whole = !wire.is_cut;
        let wire_bytes = wire.bytes as u64;
        let (body, truncated) = self.decoded(order.purpose, &head.headers, wire).await;
        // Half of what a host forbids would allow the rest.
        let is_unreadable = matches!(truncated, Some(Truncation::Encoding | Truncation::Broken));
        if is_unreadable && order.purpose == Purpose::Robots {
            let problem = "its robots.txt cannot be decoded".to_owned();
            return Err(FetchError::Malformed { target: connection.target.to_string(), problem });
        }
        timings.whole = start.elapsed();
        let fetched = Fetched {
            status: head.status.as_u16(),
            version: head.version,
            request,
            headers: head.headers,
            body,
            truncated,
            redirect,
            wire_bytes,
            address: connection.address,
            timings,
        };
        Ok((fetched, is_whole))
    }

    async fn decoded(
        &self,
        purpose: Purpose,
        headers: &HeaderMap,
        wire: Wire,
    ) -> (Bytes, Option<Truncation>) {
        let plan = Plan::of(headers, self.limits.encodings_max);
        let room = Room {
            bytes: self.limits.decoded_room(purpose, wire.bytes),
            bytes_max: self.limits.decoded_room(purpose, usize::MAX),
        };
        if wire.bytes <= DECODED_HERE_BYTES_MAX || !plan.is_encoded() {
            return decode::body(wire, &plan, room);
        }
        let decoding = tokio::task::spawn_blocking(move || decode::body(wire, &plan, room));
        // A decoder that panics has met a body that is broken.
        decoding.await.unwrap_or((Bytes::new(), Some(Truncation::Broken)))
    }

    fn failure(&self, target: &Target, source: hyper::Error) -> FetchError {
        if source.is_parse_too_large() {
            return self.too_many_headers(target);
        }
        let target = target.to_string();
        if source.is_parse() || source.is_user() {
            return FetchError::Malformed { target, problem: source.to_string() };
        }
        FetchError::Broken { target, source }
    }

    fn unread(&self, target: &Target, problem: Unread) -> FetchError {
        match problem {
            Unread::Broken(error) => self.failure(target, error),
            Unread::Late => {
                FetchError::Whole { target: target.to_string(), limit: self.limits.whole }
            }
            Unread::TooSlow => FetchError::TooSlow {
                target: target.to_string(),
                bytes: self.limits.slow_bytes_min,
                window: self.limits.slow_window,
            },
        }
    }

    fn too_many_headers(&self, target: &Target) -> FetchError {
        let Limits { headers_max: count, header_bytes_max: bytes, .. } = self.limits;
        FetchError::Headers { target: target.to_string(), count, bytes }
    }
}

/// A request that was sent, and the head of its answer.
struct Asked {
    headers: HeaderMap,
    response: Response<Incoming>,
    timings: Timings,
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: Option<&str>) {
    if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
        headers.insert(name, value);
    }
}

/// Where an answer sends on to.
fn redirect(url: &Url, status: StatusCode, headers: &HeaderMap) -> Option<Url> {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    // Hosts write it in any encoding; browsers take it for UTF-8.
    let location = String::from_utf8_lossy(headers.get(LOCATION)?.as_bytes());
    let mut target = url.join(&location).ok()?;
    if !matches!(target.scheme(), "http" | "https") {
        return None;
    }
    target.set_fragment(None);
    // These cannot fail for URLs with a host, which http and https always have.
    let _ = target.set_username("");
    let _ = target.set_password(None);
    Some(target)
}
