//! `GET /tasks/{id}/log`: the log of a task as text, whole or followed until the task is final.
//!
//! Fresh log text reaches the server with heartbeats and makes no event of its own, so a follower looks twice a
//! second; a change of the task's state makes it look at once.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use divvy_engine::{Handle, TaskLog};
use divvy_http::{ApiError, Parameters, PathText};
use divvy_types::cut::tail;
use divvy_types::{TaskId, Token};
use futures_util::stream;
use http::header::CONTENT_TYPE;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::app::App;

/// How often a follower looks at most.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How much of the end of what was sent is looked for in a log whose beginning was cut off.
const OVERLAP_BYTES: usize = 256;

/// How the log is read.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Reading {
    /// Go on with what comes until the task is final.
    follow: bool,
}

/// The log, or the log and what comes until the task is final.
pub(crate) async fn show(
    State(app): State<App>,
    PathText(id): PathText,
    Parameters(Reading { follow }): Parameters<Reading>,
) -> Result<Response, ApiError> {
    let id = app.handle.resolve(&id).await?;
    let text = [(CONTENT_TYPE, "text/plain; charset=utf-8")];
    if !follow {
        return Ok((text, app.handle.log(id).await?.text()).into_response());
    }
    let changes = app.handle.changes().await?;
    // The first look is made here, so that an error still has a status of its own.
    let first = app.handle.log(id).await?;
    let mut follower = Follower {
        handle: app.handle.clone(),
        shutdown: app.shutdown.clone(),
        changes,
        id,
        ended: false,
        looked: Instant::now(),
        fresh: String::new(),
        told: Told::default(),
    };
    follower.see(&first);
    let pieces = stream::unfold(follower, |mut follower| async move {
        let piece = follower.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(piece)), follower))
    });
    Ok((text, Body::from_stream(pieces)).into_response())
}

struct Follower {
    handle: Handle,
    shutdown: CancellationToken,
    changes: broadcast::Receiver<std::sync::Arc<divvy_types::view::TaskChange>>,
    id: TaskId,
    /// Whether the task was final when it was last looked at.
    ended: bool,
    looked: Instant,
    /// Text that was seen and not sent yet.
    fresh: String,
    told: Told,
}

impl Follower {
    /// The next piece of the log; nothing when the task is final, gone, or the server stops.
    async fn next(&mut self) -> Option<String> {
        loop {
            if !self.fresh.is_empty() {
                return Some(std::mem::take(&mut self.fresh));
            }
            if self.ended {
                return None;
            }
            tokio::select! {
                () = self.shutdown.cancelled() => return None,
                () = tokio::time::sleep_until(self.looked + LOOK_EVERY) => {}
                () = changed(&mut self.changes, self.id) => {}
            }
            let log = self.handle.log(self.id).await.ok()?;
            self.looked = Instant::now();
            self.see(&log);
        }
    }

    fn see(&mut self, log: &TaskLog) {
        self.ended = log.state.is_final();
        self.fresh.push_str(&self.told.news(log));
    }
}

/// What a follower was told already.
#[derive(Default)]
struct Told {
    /// The last attempt whose end was told.
    ended: Token,
    /// What was told of the attempt that ran at the last look; empty if nothing was.
    live: String,
}

impl Told {
    /// What is new in `log`. An attempt that was followed while it ran is told from where it was left, with its end
    /// below it; another has its end above what it said.
    fn news(&mut self, log: &TaskLog) -> String {
        let mut text = String::new();
        for attempt in log.attempts.iter().filter(|attempt| attempt.token > self.ended) {
            let live = std::mem::take(&mut self.live);
            if live.is_empty() {
                text.push_str(&attempt.heading);
                text.push_str(&attempt.text);
            } else {
                let rest = since(&live, &attempt.text);
                let ends_line = live.ends_with('\n') || !rest.is_empty();
                text.extend([rest, if ends_line { "" } else { "\n" }, &attempt.heading]);
            }
        }
        self.ended = log.attempts.last().map_or(self.ended, |attempt| attempt.token);
        if self.live.is_empty() && !log.live.is_empty() {
            text.push_str(TaskLog::RUNNING);
        }
        text.push_str(since(&self.live, &log.live));
        self.live.clone_from(&log.live);
        text
    }
}

/// Returns when the task changed, or may have.
async fn changed(
    changes: &mut broadcast::Receiver<std::sync::Arc<divvy_types::view::TaskChange>>,
    id: TaskId,
) {
    loop {
        match changes.recv().await {
            Ok(change) if change.id != id => {}
            Ok(_) => return,
            // A flood of other changes must not make a follower look more often than its own pace.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return std::future::pending().await,
        }
    }
}

/// What `now` has that `before` had not. A log keeps its end only, so `now` may lack the beginning of `before`.
fn since<'a>(before: &str, now: &'a str) -> &'a str {
    if let Some(rest) = now.strip_prefix(before) {
        return rest;
    }
    let overlap = tail(before, OVERLAP_BYTES);
    match now.rfind(overlap) {
        Some(at) => &now[at + overlap.len()..],
        None => now,
    }
}

#[cfg(test)]
mod tests {
    use divvy_engine::AttemptLog;
    use divvy_types::TaskState;

    use std::slice::from_ref;

    use super::*;

    #[test]
    fn only_new_text_is_sent_even_when_the_beginning_was_cut_off() {
        assert_eq!(since("", "abc"), "abc");
        assert_eq!(since("abc", "abcdef"), "def");
        assert_eq!(since("abc", "abc"), "");
        let before = format!("{}{}", "x".repeat(1_000), "the end of it");
        let now = format!("{}{}more", "x".repeat(500), "the end of it");
        assert_eq!(since(&before, &now), "more");
        assert_eq!(since("one", "two"), "two");
        let wide = "ä".repeat(300);
        assert_eq!(since(&format!("y{wide}"), &format!("{wide}!")), "!");
    }

    #[test]
    fn a_followed_attempt_is_told_once_and_its_last_line_too() {
        let attempt = |token, text: &str| AttemptLog {
            token: Token(token),
            heading: format!("--- attempt {token}: done\n"),
            text: text.to_owned(),
        };
        let log = |attempts: &[AttemptLog], live: &str| TaskLog {
            state: TaskState::Leased,
            attempts: attempts.to_vec(),
            live: live.to_owned(),
        };
        let first = attempt(1, "early\n");
        let mut told = Told::default();
        let looks = [
            (log(&[], ""), ""),
            (log(from_ref(&first), ""), "--- attempt 1: done\nearly\n"),
            (log(from_ref(&first), "zero\none\n"), "--- running\nzero\none\n"),
            (log(from_ref(&first), "zero\none\ntwo\n"), "two\n"),
            (
                log(&[first.clone(), attempt(2, "zero\none\ntwo\nthree\n")], ""),
                "three\n--- attempt 2: done\n",
            ),
            (
                log(&[first.clone(), attempt(2, "zero\n"), attempt(3, "x\n")], "y"),
                "--- attempt 3: done\nx\n--- running\ny",
            ),
            // The worker went away: what it was running is granted anew, and begins at the beginning.
            (log(&[first.clone(), attempt(3, "x\n")], ""), ""),
            (log(&[first, attempt(3, "x\n")], "z\n"), "--- running\nz\n"),
        ];
        for (log, expected) in looks {
            assert_eq!(told.news(&log), expected, "{log:?}");
        }
    }
}
