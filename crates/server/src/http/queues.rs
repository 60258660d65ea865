//! Queues: what waits in them, what is set about them, and pausing.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use divvy_http::{ApiError, JsonBody, Parameters, PathText, rows};
use divvy_types::Name;
use divvy_types::Settings;
use divvy_types::limits::{PAGE_ROWS_MAX, QUEUE_LEN_MAX};
use divvy_types::overview::QueueStatus;
use divvy_types::schema::Label;
use divvy_types::settings::QueueSettings;
use divvy_types::spec::check_name;
use divvy_types::view::{Page, QueueView};
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::http::settings::change;

/// What became of a pause or resume.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PausedQueue")]
pub(crate) struct Paused {
    name: Name,
    paused: bool,
}

/// Which queues are wanted.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Listing {
    /// What `next` of the page before said.
    #[schemars(with = "Option<Label<QUEUE_LEN_MAX>>")]
    after: Option<Name>,
    /// How many at most.
    #[schemars(range(min = 1, max = PAGE_ROWS_MAX))]
    limit: Option<usize>,
}

/// Queues that have tasks, are paused or have settings, by name.
pub(crate) async fn list(
    State(app): State<App>,
    Parameters(Listing { after, limit }): Parameters<Listing>,
) -> Result<Json<Page<QueueStatus>>, ApiError> {
    let limit = rows(limit, PAGE_ROWS_MAX, PAGE_ROWS_MAX)?;
    let mut items = all(&app).await?;
    if let Some(after) = after {
        check_name("after", &after, QUEUE_LEN_MAX)?;
        items.drain(..items.partition_point(|status| status.queue.name <= after));
    }
    let has_more = items.len() > limit;
    items.truncate(limit);
    let last = items.last().filter(|_| has_more);
    let next = last.map(|status| status.queue.name.to_string());
    Ok(Json(Page { items, next, partial: false }))
}

/// One queue.
pub(crate) async fn show(
    State(app): State<App>,
    PathText(name): PathText,
) -> Result<Json<QueueStatus>, ApiError> {
    let found = all(&app).await?.into_iter().find(|status| status.queue.name == name);
    found.map(Json).ok_or_else(|| {
        let name: String = name.chars().take(QUEUE_LEN_MAX).collect();
        let message = format!("no queue `{name}`: it has no open tasks and no settings");
        ApiError::new(StatusCode::NOT_FOUND, "no_such_queue", message)
    })
}

/// Sets what is special about a queue; what is left out gets its default.
pub(crate) async fn set(
    State(app): State<App>,
    PathText(name): PathText,
    JsonBody(queue): JsonBody<QueueSettings>,
) -> Result<Json<QueueStatus>, ApiError> {
    check_name("queue", &name, QUEUE_LEN_MAX)?;
    let key = Name::from(name.as_str());
    change(&app, move |settings| {
        if queue == QueueSettings::default() {
            settings.queues.remove(&key);
        } else {
            settings.queues.insert(key, queue);
        }
        Ok(())
    })
    .await?;
    let (queues, settings) = look(&app).await?;
    let queue = queues.into_iter().find(|queue| queue.name == name);
    Ok(Json(status(queue.unwrap_or_else(|| empty(name.into())), &settings)))
}

async fn all(app: &App) -> Result<Vec<QueueStatus>, ApiError> {
    let (mut queues, settings) = look(app).await?;
    let known: BTreeSet<Name> = queues.iter().map(|queue| queue.name.clone()).collect();
    let others = settings.queues.keys().filter(|name| !known.contains(*name));
    queues.extend(others.cloned().map(empty));
    queues.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(queues.into_iter().map(|queue| status(queue, &settings)).collect())
}

async fn look(app: &App) -> Result<(Vec<QueueView>, Settings), ApiError> {
    let look = app.handle.look(|core| (core.queues(), core.scheduler().settings().clone()));
    Ok(look.await?)
}

/// A queue that only has settings.
fn empty(name: Name) -> QueueView {
    QueueView {
        name,
        paused: false,
        blocked: 0,
        scheduled: 0,
        ready: 0,
        leased: 0,
        queued: 0,
        oldest_ready_ms: None,
        ready_by_priority: Vec::new(),
    }
}

fn status(queue: QueueView, settings: &Settings) -> QueueStatus {
    let set = settings.queues.get(&queue.name).cloned().unwrap_or_default();
    let QueueSettings { weight, fair_by, fair_weights } = set;
    QueueStatus { queue, weight, fair_by, fair_weights }
}

/// Grants no more tasks of a queue. A queue without tasks can be paused ahead.
pub(crate) async fn pause(state: State<App>, name: PathText) -> Result<Json<Paused>, ApiError> {
    set_paused(state, name, true).await
}

/// Grants tasks of a queue again.
pub(crate) async fn resume(state: State<App>, name: PathText) -> Result<Json<Paused>, ApiError> {
    set_paused(state, name, false).await
}

async fn set_paused(
    State(app): State<App>,
    PathText(name): PathText,
    paused: bool,
) -> Result<Json<Paused>, ApiError> {
    check_name("queue", &name, QUEUE_LEN_MAX)?;
    let name = Name::from(name);
    app.handle.pause_queue(name.clone(), paused).await?;
    // What waits in it counts again, or does not any more.
    app.scale.note();
    app.pulse.note();
    Ok(Json(Paused { name, paused }))
}
