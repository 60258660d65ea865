//! Traces for OpenTelemetry: one per workflow, with spans for each task, its waits and its attempts, sent to a collector
//! over OTLP/HTTP as JSON.
//!
//! Reading order: `book` (what spans follow from changes of tasks: pure), `otlp` (how they are written), this file (the
//! loop that follows, collects and sends). Names of spans follow from ids (`divvy_types::trace`), so that workers know
//! them too.
//!
//! Tracing is a help and no promise: nothing is stored, nothing waits for it, and what a collector does not take is
//! dropped and counted in the log. Without a collector nothing of this runs.

mod book;
mod otlp;

use std::time::Duration;

use divvy_client::reqwest::Url;
use divvy_client::reqwest::header::CONTENT_TYPE;
use divvy_client::{Target, cause, plain};
use divvy_types::WorkflowId;
use divvy_types::view::{WorkflowState, WorkflowView};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use book::{Book, Span};
use divvy_wire::quiet::Quiet;

/// Where collectors take traces, below their address.
const PATH: &str = "/v1/traces";
/// Spans that are sent at once.
const BATCH_MAX: usize = 512;
/// Spans that may wait for a collector that is slow; more are dropped.
const WAITING_MAX: usize = 16_384;
/// How long spans wait for others.
const SEND_EVERY: Duration = Duration::from_secs(1);
/// How long a collector may take.
const SEND_WITHIN: Duration = Duration::from_secs(10);

/// Follows all tasks and sends their spans to the collector at `url` until `shutdown`; then sends what is left.
pub(crate) async fn run(app: App, url: String, shutdown: CancellationToken) {
    let Ok(mut changes) = app.handle.changes().await else { return };
    let (mut book, mut waiting, mut failures) = (Book::default(), Vec::new(), Quiet::default());
    let mut send_at = Instant::now() + SEND_EVERY;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            change = changes.recv() => match change {
                Ok(change) => {
                    let noted = book.note(&change);
                    waiting.extend(noted.spans);
                    if let Some(id) = noted.workflow {
                        waiting.extend(ended_workflow(&app, id).await);
                    }
                }
                Err(RecvError::Lagged(count)) => {
                    tracing::warn!(count, "changes of tasks came faster than they could be traced; their spans are missing");
                }
                Err(RecvError::Closed) => break,
            },
            () = sleep_until(send_at), if !waiting.is_empty() => {
                send_all(&url, &mut waiting, &mut failures).await;
                send_at = Instant::now() + SEND_EVERY;
            }
        }
        if waiting.len() >= BATCH_MAX {
            send_all(&url, &mut waiting, &mut failures).await;
            send_at = Instant::now() + SEND_EVERY;
        }
    }
    send_all(&url, &mut waiting, &mut failures).await;
}

/// The span of a workflow, if its last member has ended.
async fn ended_workflow(app: &App, id: WorkflowId) -> Option<Span> {
    // One that nobody knows any more, or can tell of, has no span.
    let view = app.handle.workflow(id).await.ok()?;
    let ended = view.ended_at.filter(|_| view.state != WorkflowState::Open)?;
    let WorkflowView { name, started_at, total, state, .. } = view;
    Some(Span::of_workflow(id, &name, started_at, ended, total, state))
}

/// Sends what waits, in batches. What is refused for good is dropped; what fails is kept while there is room.
async fn send_all(url: &str, waiting: &mut Vec<Span>, failures: &mut Quiet) {
    while !waiting.is_empty() {
        let count = waiting.len().min(BATCH_MAX);
        match send(url, &waiting[..count]).await {
            Ok(()) => drop(waiting.drain(..count)),
            Err(problem) => {
                let lost = waiting.len().saturating_sub(WAITING_MAX);
                waiting.drain(..lost);
                if let Some(times) = failures.count() {
                    tracing::warn!(times, lost, "spans cannot be sent, tried again: {problem}");
                }
                return;
            }
        }
    }
}

async fn send(url: &str, spans: &[Span]) -> Result<(), String> {
    let base = Url::parse(url).map_err(|error| format!("`{url}` is no address: {error}"))?;
    let target = Target::new(base.origin().ascii_serialization());
    let (client, _) = plain(&target).map_err(|error| error.to_string())?;
    let address = format!("{}{PATH}", base.as_str().trim_end_matches('/'));
    let answer = client
        .post(&address)
        .header(CONTENT_TYPE, "application/json")
        .timeout(SEND_WITHIN)
        .body(otlp::written(spans))
        .send()
        .await
        .map_err(|error| format!("{address} cannot be reached: {}", cause(&error)))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    if status.is_client_error() && status.as_u16() != 429 {
        // It would be refused again.
        tracing::warn!(%status, spans = spans.len(), "{address} refused spans; is it a collector of OTLP over HTTP?");
        return Ok(());
    }
    Err(format!("{address} answered {status}"))
}
