//! Kinds to try things out with: one that does nothing, one that waits, one that fails as told.

use std::time::Duration;

use divvy_types::{AttemptOutcome, ErrorClass, FailureVerdict, Payload};
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};

use crate::handler::failed;
use crate::{Attempt, BoxFuture, Handler};

/// The longest sleep: 30 days, like the longest attempt.
const SLEEP_MS_MAX: u64 = divvy_types::limits::TIMEOUT_MS_MAX;
/// How often a sleep tells how far it is.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Kind `noop`: finishes at once with `null`, whatever its payload.
#[derive(Clone, Copy, Debug, Default)]
pub struct Noop;

impl Handler for Noop {
    fn run(&self, _attempt: Attempt) -> BoxFuture<'static, AttemptOutcome> {
        // A ready future has no size worth speaking of, and this one is what throughput is measured with.
        Box::pin(std::future::ready(AttemptOutcome::Finished {
            result: Payload::null(),
            spawned: Vec::new(),
        }))
    }
}

/// Kind `sleep`: waits for `{"ms": n}`, telling its progress, and finishes with `null`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sleep;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct SleepPayload {
    ms: u64,
}

impl Handler for Sleep {
    fn run(&self, attempt: Attempt) -> BoxFuture<'static, AttemptOutcome> {
        Box::pin(async move {
            let ms = match attempt.task.payload.parse::<SleepPayload>() {
                Ok(SleepPayload { ms }) if ms <= SLEEP_MS_MAX => ms,
                Ok(SleepPayload { ms }) => {
                    return bad_payload("sleep", format!("ms is {ms}, at most {SLEEP_MS_MAX}"));
                }
                Err(error) => {
                    return bad_payload("sleep", format!("{error}; expected {{\"ms\": 1000}}"));
                }
            };
            let (progress, cancel) = (attempt.progress(), attempt.cancelled());
            let (start, total) = (Instant::now(), Duration::from_millis(ms));
            let end = start + total;
            while Instant::now() < end {
                tokio::select! {
                    () = sleep_until(end.min(Instant::now() + TELL_EVERY)) => {}
                    () = cancel.wait() => return failed(ErrorClass::Cancelled, FailureVerdict::Cancelled, "woken up"),
                }
                progress
                    .set(u64::try_from(start.elapsed().min(total).as_millis()).unwrap_or(ms), ms);
            }
            AttemptOutcome::Finished { result: Payload::null(), spawned: Vec::new() }
        })
    }
}

/// Kind `fail`: fails as its payload says. `{"message": "…", "verdict": "retry" | "retry_after" | "snooze" | "dead" |
/// "cancelled" | "panic", "wait_ms": n, "times": n}`; with `times` it fails in the first `times` attempts only.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fail;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, expecting = "an object")]
struct FailPayload {
    message: Option<String>,
    verdict: FailWord,
    wait_ms: Option<u64>,
    times: Option<u32>,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum FailWord {
    #[default]
    Retry,
    RetryAfter,
    Snooze,
    Dead,
    Cancelled,
    Panic,
}

impl Handler for Fail {
    fn run(&self, attempt: Attempt) -> BoxFuture<'static, AttemptOutcome> {
        let payload = match attempt.task.payload.parse::<Option<FailPayload>>() {
            Ok(payload) => payload.unwrap_or_default(),
            Err(error) => {
                return Box::pin(std::future::ready(bad_payload("fail", error.to_string())));
            }
        };
        Box::pin(async move {
            if payload.times.is_some_and(|times| attempt.attempt > times) {
                return AttemptOutcome::Finished { result: Payload::null(), spawned: Vec::new() };
            }
            let message = payload.message.as_deref().unwrap_or("failed as asked");
            let wait_ms = payload.wait_ms.unwrap_or(1_000);
            let verdict = match payload.verdict {
                FailWord::Retry => FailureVerdict::Retry,
                FailWord::RetryAfter => FailureVerdict::RetryAfterMs(wait_ms),
                FailWord::Snooze => FailureVerdict::SnoozeMs(wait_ms),
                FailWord::Dead => FailureVerdict::Dead,
                FailWord::Cancelled => FailureVerdict::Cancelled,
                FailWord::Panic => panic!("{message}"),
            };
            failed(ErrorClass::Failed, verdict, message)
        })
    }
}

/// The end of an attempt whose payload its kind cannot read; no retry can help.
pub(crate) fn bad_payload(kind: &str, problem: impl AsRef<str>) -> AttemptOutcome {
    failed(
        ErrorClass::Failed,
        FailureVerdict::Dead,
        format!("payload of `{kind}`: {}", problem.as_ref()),
    )
}
