//! Kind `http`: calls a URL. Payload: `{"url", "method", "headers", "body", "timeout_ms", "expect_status"}`, of which only
//! `url` is required.
//!
//! Decides what is sent and where: every hop is checked against [`super::address`], redirects are followed here and not
//! by the client, and connections go to checked addresses only. What an answer means is in [`super::http_outcome`];
//! which hosts are not called for a while is in [`super::http_hosts`].

use std::collections::BTreeMap;
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use divvy_guard::breaker::Outcome;
use divvy_types::{AttemptOutcome, ErrorClass, FailureVerdict};
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Response, StatusCode, Url};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::address::{self, Reach, check_url};
use super::http_hosts::{Hosts, Resting};
use super::http_outcome;
use super::trial::bad_payload;
use crate::handler::failed;
use crate::{Attempt, BoxFuture, Error, Handler};

/// Redirects that are followed.
const REDIRECTS_MAX: usize = 5;
/// How long a call may take if its payload does not say.
const TIMEOUT_MS_DEFAULT: u64 = 30_000;
/// The longest that a payload may ask for: one hour.
const TIMEOUT_MS_MAX: u64 = 3_600_000;

/// Kind `http`.
#[derive(Clone, Debug)]
pub struct Http {
    client: Client,
    reach: Reach,
    hosts: Arc<Hosts>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct HttpPayload {
    url: String,
    method: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<Value>,
    timeout_ms: Option<u64>,
    expect_status: Option<Expected>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a status such as 200, or a list of them")]
enum Expected {
    One(u16),
    Any(Vec<u16>),
}

/// What is sent at one hop.
#[derive(Debug)]
struct Call {
    url: Url,
    method: Method,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
    expected: Vec<u16>,
    timeout: Duration,
}

impl Http {
    /// The kind, whose calls may go so far.
    pub fn new(reach: impl Into<Reach>) -> Result<Self, Error> {
        let reach = reach.into();
        let client = address::client(reach.clone());
        let failed = |e| Error::System {
            what: "cannot set up the HTTP client",
            source: std::io::Error::other(e),
        };
        let hosts = Arc::new(Hosts::new());
        Ok(Self { client: client.map_err(failed)?, reach, hosts })
    }

    async fn call(self, mut call: Call) -> AttemptOutcome {
        let start = Instant::now();
        let deadline = start + call.timeout;
        for _ in 0..=REDIRECTS_MAX {
            if let Err(problem) = check_url(&call.url, self.reach.clone()) {
                return failed(ErrorClass::Failed, FailureVerdict::Dead, problem);
            }
            let leave = match self.hosts.ask(&call.url) {
                Ok(leave) => leave,
                Err(resting) => return snooze(&resting),
            };
            let Ok((hop, blame)) = timeout_at(deadline, self.hop(&call, start)).await else {
                leave.end(Outcome::Failure);
                let problem = format!("no answer within {} ms", call.timeout.as_millis());
                return failed(ErrorClass::Timeout, FailureVerdict::Retry, problem);
            };
            leave.end(blame);
            match hop {
                Hop::End(outcome) => return outcome,
                Hop::Follow(status, url) => call.follow(status, url),
            }
        }
        let problem = format!("more than {REDIRECTS_MAX} redirects, the last to {}", call.url);
        failed(ErrorClass::Failed, FailureVerdict::Dead, problem)
    }

    /// Sends a call and reads the answer; says also what that tells of the host.
    async fn hop(&self, call: &Call, start: Instant) -> (Hop, Outcome) {
        let mut request = self
            .client
            .request(call.method.clone(), call.url.clone())
            .headers(call.headers.clone());
        if let Some(body) = &call.body {
            request = request.body(body.clone());
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => return failed_to_send(&error),
        };
        let status = response.status();
        match next_hop(call, &response) {
            None => {
                let outcome = http_outcome::read(response, &call.expected, start).await;
                let blame = http_outcome::blame(status, &outcome);
                (Hop::End(outcome), blame)
            }
            Some(Err(problem)) => {
                let outcome = failed(ErrorClass::Failed, FailureVerdict::Dead, problem);
                (Hop::End(outcome), Outcome::Success)
            }
            Some(Ok(url)) => (Hop::Follow(status, url), Outcome::Success),
        }
    }
}

impl Handler for Http {
    fn run(&self, attempt: Attempt) -> BoxFuture<'static, AttemptOutcome> {
        let http = self.clone();
        Box::pin(async move {
            let call = match attempt
                .task
                .payload
                .parse::<HttpPayload>()
                .map_err(|e| e.to_string())
                .and_then(Call::new)
            {
                Ok(call) => call,
                Err(problem) => return bad_payload("http", problem),
            };
            let cancel = attempt.cancelled();
            tokio::select! {
                outcome = http.call(call) => outcome,
                () = cancel.wait() => failed(ErrorClass::Cancelled, FailureVerdict::Cancelled, "the call was stopped"),
            }
        })
    }
}

impl Call {
    fn new(payload: HttpPayload) -> Result<Self, String> {
        let url = Url::parse(&payload.url)
            .map_err(|e| format!("url `{}` is not a URL: {e}", payload.url))?;
        let method = match payload.method {
            None if payload.body.is_some() => Method::POST,
            None => Method::GET,
            Some(name) => Method::from_bytes(name.to_ascii_uppercase().as_bytes())
                .ok()
                .filter(|method| *method != Method::CONNECT)
                .ok_or_else(|| format!("method `{name}` is not one that can be called"))?,
        };
        let mut headers = HeaderMap::new();
        for (name, value) in payload.headers {
            let parsed = HeaderName::try_from(&name).ok().filter(|name| !is_framing(name));
            let parsed_name = parsed.ok_or_else(|| format!("headers: `{name}` cannot be set"))?;
            let bad_value = |_| {
                format!("headers: the value of `{name}` has characters that a header cannot carry")
            };
            headers.append(parsed_name, HeaderValue::try_from(value).map_err(bad_value)?);
        }
        let body = payload.body.map(|body| match body {
            Value::String(text) => text.into_bytes(),
            json => {
                let json_type = HeaderValue::from_static("application/json");
                headers.entry(header::CONTENT_TYPE).or_insert(json_type);
                json.to_string().into_bytes()
            }
        });
        let timeout_ms = payload.timeout_ms.unwrap_or(TIMEOUT_MS_DEFAULT);
        if !(1..=TIMEOUT_MS_MAX).contains(&timeout_ms) {
            return Err(format!("timeout_ms is {timeout_ms}, expected 1 to {TIMEOUT_MS_MAX}"));
        }
        let expected = match payload.expect_status {
            None => Vec::new(),
            Some(Expected::One(status)) => vec![status],
            Some(Expected::Any(list)) => list,
        };
        Ok(Self {
            url,
            method,
            headers,
            body,
            expected,
            timeout: Duration::from_millis(timeout_ms),
        })
    }

    /// Becomes the call that a redirect asks for. Secrets stay with the origin they were meant for.
    fn follow(&mut self, status: StatusCode, url: Url) {
        let keeps_method =
            matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        if !keeps_method && self.method != Method::HEAD {
            self.method = Method::GET;
            self.body = None;
            self.headers.remove(header::CONTENT_TYPE);
        }
        if url.origin() != self.url.origin() {
            let names: Vec<HeaderName> = self.headers.keys().cloned().collect();
            for name in names.iter().filter(|name| !is_harmless(name)) {
                self.headers.remove(name);
            }
        }
        self.url = url;
    }
}

/// Headers that cannot hold a secret. Any other may, whatever it is called: `X-Api-Key`, `Private-Token`, `Api-Token`.
fn is_harmless(name: &HeaderName) -> bool {
    let harmless = [
        header::ACCEPT,
        header::ACCEPT_ENCODING,
        header::ACCEPT_LANGUAGE,
        header::CACHE_CONTROL,
        header::CONTENT_ENCODING,
        header::CONTENT_LANGUAGE,
        header::CONTENT_TYPE,
        header::RANGE,
        header::USER_AGENT,
    ];
    harmless.contains(name)
}

/// Headers that say how a message is framed or where it goes; they are the client's business.
fn is_framing(name: &HeaderName) -> bool {
    let framing = [
        header::HOST,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::CONNECTION,
        header::UPGRADE,
        header::TE,
        header::TRAILER,
    ];
    framing.contains(name)
}

/// Where an answer sends the call, unless the answer itself was expected.
fn next_hop(call: &Call, response: &Response) -> Option<Result<Url, String>> {
    let status = response.status();
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
        || call.expected.contains(&status.as_u16())
    {
        return None;
    }
    let location = response.headers().get(header::LOCATION)?;
    let text = String::from_utf8_lossy(location.as_bytes());
    Some(
        call.url
            .join(&text)
            .map_err(|e| format!("status {} points to `{text}`, not a URL: {e}", status.as_u16())),
    )
}

/// What became of one hop.
enum Hop {
    End(AttemptOutcome),
    Follow(StatusCode, Url),
}

/// The end of a call to a host that is left alone for now: later, and not an attempt.
fn snooze(Resting { host, wait }: &Resting) -> AttemptOutcome {
    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
    let problem = format!("host `{host}` keeps failing; it is tried again in {wait_ms} ms");
    failed(ErrorClass::Failed, FailureVerdict::SnoozeMs(wait_ms), problem)
}

fn failed_to_send(error: &reqwest::Error) -> (Hop, Outcome) {
    if let Some(refused) = address::refused(error) {
        let outcome = failed(ErrorClass::Failed, FailureVerdict::Dead, refused);
        return (Hop::End(outcome), Outcome::Ignored);
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    (Hop::End(failed(ErrorClass::Failed, FailureVerdict::Retry, text)), Outcome::Failure)
}
