//! Queues: what waits in them, and pausing.

use axum::Json;
use axum::extract::State;
use divvy_types::Name;
use divvy_types::limits::QUEUE_LEN_MAX;
use divvy_types::spec::check_name;
use divvy_types::view::{Page, QueueView};
use http::StatusCode;
use serde::Serialize;

use crate::app::App;
use crate::http::error::ApiError;
use crate::http::parameters::PathText;
use crate::http::whole;

/// What became of a pause or resume.
#[derive(Serialize)]
pub(crate) struct Paused {
    name: Name,
    paused: bool,
}

/// All queues, by name.
pub(crate) async fn list(State(app): State<App>) -> Result<Json<Page<QueueView>>, ApiError> {
    let mut queues = app.handle.queues().await?;
    queues.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(whole(queues))
}

/// One queue.
pub(crate) async fn show(
    State(app): State<App>,
    PathText(name): PathText,
) -> Result<Json<QueueView>, ApiError> {
    let found = app.handle.queues().await?.into_iter().find(|queue| queue.name == name);
    found.map(Json).ok_or_else(|| {
        let name: String = name.chars().take(QUEUE_LEN_MAX).collect();
        let message = format!("no queue `{name}`: it has no open tasks and no settings");
        ApiError::new(StatusCode::NOT_FOUND, "no_such_queue", message)
    })
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
    Ok(Json(Paused { name, paused }))
}
