//! What the answer to an HTTP call means for its task: the result, or what shall follow from the failure.
//!
//! An expected status finishes the task (2xx if none was named). 429 and 5xx are worth another try, after `Retry-After` if
//! the answer has one. Anything else will not get better: dead.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use divvy_guard::breaker::Outcome;
use divvy_types::{AttemptOutcome, ErrorClass, FailureVerdict, Payload};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use serde::Serialize;
use tokio::time::Instant;

use crate::handler::failed;

/// Bytes of an answer's body that are kept.
const BODY_BYTES_MAX: usize = 256 << 10;
/// Bytes of a failed answer's body that its error quotes.
const QUOTE_BYTES_MAX: usize = 512;
/// The longest `Retry-After` that is followed: one day.
const RETRY_AFTER_MS_MAX: u64 = 86_400_000;

/// What a task of kind `http` returns.
#[derive(Serialize)]
struct HttpResult {
    status: u16,
    url: String,
    headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    /// The body where it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    /// Whether the body was longer than what is kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    elapsed_ms: u64,
}

/// Reads an answer and decides.
pub(super) async fn read(
    mut response: Response,
    expected: &[u16],
    start: Instant,
) -> AttemptOutcome {
    let status = response.status();
    let (url, headers) = (response.url().to_string(), response.headers().clone());
    let mut body = Vec::new();
    let mut truncated = false;
    while !truncated {
        match response.chunk().await {
            Ok(None) => break,
            Ok(Some(chunk)) => {
                let room = BODY_BYTES_MAX - body.len();
                truncated = chunk.len() > room;
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            }
            Err(error) => {
                let problem =
                    format!("status {}, but its body broke off: {error}", status.as_u16());
                return failed(ErrorClass::Failed, FailureVerdict::Retry, problem);
            }
        }
    }
    let good =
        if expected.is_empty() { status.is_success() } else { expected.contains(&status.as_u16()) };
    if !good {
        return unexpected(status, &headers, &body);
    }
    let (body, body_base64) = body_text(body, truncated);
    let text = |(name, value): (&reqwest::header::HeaderName, &reqwest::header::HeaderValue)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let elapsed_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    let headers = headers.iter().map(text).collect();
    let result = HttpResult {
        status: status.as_u16(),
        url,
        headers,
        body,
        body_base64,
        truncated,
        elapsed_ms,
    };
    match Payload::from_value(&result) {
        Ok(result) => AttemptOutcome::Finished { result, spawned: Vec::new() },
        Err(error) => failed(
            ErrorClass::Failed,
            FailureVerdict::Dead,
            format!("the answer is not JSON: {error}"),
        ),
    }
}

/// What an answer tells of the host, given what it means for the task.
pub(super) fn blame(status: StatusCode, outcome: &AttemptOutcome) -> Outcome {
    match outcome {
        AttemptOutcome::Failed(_) if status == StatusCode::TOO_MANY_REQUESTS => Outcome::Ignored,
        // An expected status whose answer failed all the same has broken off.
        AttemptOutcome::Failed(failure)
            if status.is_server_error() || failure.verdict == FailureVerdict::Retry =>
        {
            Outcome::Failure
        }
        _ => Outcome::Success,
    }
}

/// The body as text, or encoded if it is not text. A character cut in half by the limit does not make it binary.
fn body_text(body: Vec<u8>, truncated: bool) -> (Option<String>, Option<String>) {
    match String::from_utf8(body) {
        Ok(text) => (Some(text), None),
        Err(error) => {
            let whole = error.utf8_error().valid_up_to();
            let mut body = error.into_bytes();
            if truncated && body.len() - whole < 4 {
                body.truncate(whole);
                return (Some(String::from_utf8_lossy(&body).into_owned()), None);
            }
            (None, Some(STANDARD.encode(body)))
        }
    }
}

fn unexpected(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> AttemptOutcome {
    let quote = String::from_utf8_lossy(&body[..body.len().min(QUOTE_BYTES_MAX)]);
    let message = format!("status {status}: {}", quote.trim());
    let verdict = if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        retry_after_ms(headers).map_or(FailureVerdict::Retry, FailureVerdict::RetryAfterMs)
    } else {
        FailureVerdict::Dead
    };
    failed(ErrorClass::Failed, verdict, message.trim_end_matches([':', ' ']))
}

/// `Retry-After` in either of its forms, seconds or a date.
fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let ms = match text.parse::<u64>() {
        Ok(seconds) => seconds.saturating_mul(1_000),
        Err(_) => {
            let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_millisecond();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_millis();
            u64::try_from(at).ok()?.saturating_sub(u64::try_from(now).ok()?)
        }
    };
    Some(ms.min(RETRY_AFTER_MS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date_and_bounded() {
        let after = |text: &str| {
            retry_after_ms(&HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]))
        };
        assert_eq!(after("7"), Some(7_000));
        assert_eq!(after("99999999999"), Some(RETRY_AFTER_MS_MAX));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT"), Some(0));
        assert_eq!(after("Wed, 01 Jan 2200 00:00:00 GMT"), Some(RETRY_AFTER_MS_MAX));
        assert_eq!(after("soon"), None);
    }

    #[test]
    fn a_cut_character_leaves_text_and_other_bytes_are_encoded() {
        assert_eq!(body_text(b"ab\xc3".to_vec(), true), (Some("ab".to_owned()), None));
        assert_eq!(body_text(vec![0xff, 0xfe], false), (None, Some("//4=".to_owned())));
    }
}
