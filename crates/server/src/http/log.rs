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
use divvy_engine::Handle;
use divvy_http::{ApiError, Parameters, PathText};
use divvy_types::TaskId;
use divvy_types::cut::tail;
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
        return Ok((text, app.handle.log(id).await?.text).into_response());
    }
    let changes = app.handle.changes().await?;
    // The first look is made here, so that an error still has a status of its own.
    let first = app.handle.log(id).await?;
    let follower = Follower {
        handle: app.handle.clone(),
        shutdown: app.shutdown.clone(),
        changes,
        id,
        ended: first.state.is_final(),
        looked: Instant::now(),
        fresh: Some(first.text.clone()),
        sent: first.text,
    };
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
    fresh: Option<String>,
    /// The whole log as it was last seen.
    sent: String,
}

impl Follower {
    /// The next piece of the log; nothing when the task is final, gone, or the server stops.
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(fresh) = self.fresh.take().filter(|fresh| !fresh.is_empty()) {
                return Some(fresh);
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
            self.ended = log.state.is_final();
            self.fresh = Some(news(&self.sent, &log.text).to_owned());
            self.sent = log.text;
        }
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
fn news<'a>(before: &str, now: &'a str) -> &'a str {
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
    use super::*;

    #[test]
    fn only_new_text_is_sent_even_when_the_beginning_was_cut_off() {
        assert_eq!(news("", "abc"), "abc");
        assert_eq!(news("abc", "abcdef"), "def");
        assert_eq!(news("abc", "abc"), "");
        let before = format!("{}{}", "x".repeat(1_000), "the end of it");
        let now = format!("{}{}more", "x".repeat(500), "the end of it");
        assert_eq!(news(&before, &now), "more");
        assert_eq!(news("one", "two"), "two");
        let wide = "ä".repeat(300);
        assert_eq!(news(&format!("y{wide}"), &format!("{wide}!")), "!");
    }
}
