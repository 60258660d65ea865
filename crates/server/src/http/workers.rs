//! Connected workers. One name may stand for several connections, so a worker is shown as a list of them.

use axum::Json;
use axum::extract::State;
use divvy_engine::Error;
use divvy_http::{ApiError, PathText};
use divvy_types::Name;
use divvy_types::spec::check_name;
use divvy_types::view::{Page, WorkerView};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::http::whole;
use divvy_types::limits::WORKER_NAME_LEN_MAX;

/// Who was told.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AskedWorker")]
pub(crate) struct Asked {
    name: Name,
    /// Connections of that name that were asked.
    asked: u32,
}

/// All workers, by name.
pub(crate) async fn list(State(app): State<App>) -> Result<Json<Page<WorkerView>>, ApiError> {
    let mut workers = app.handle.workers().await?;
    workers.sort_unstable_by(|a, b| (&a.name, a.key).cmp(&(&b.name, b.key)));
    Ok(whole(workers))
}

/// The connections of one worker.
pub(crate) async fn show(
    State(app): State<App>,
    PathText(name): PathText,
) -> Result<Json<Page<WorkerView>>, ApiError> {
    let mut workers = app.handle.workers().await?;
    workers.retain(|worker| worker.name == name);
    if workers.is_empty() {
        return Err(Error::NoSuchWorker(name.chars().take(WORKER_NAME_LEN_MAX).collect()).into());
    }
    workers.sort_unstable_by_key(|worker| worker.key);
    Ok(whole(workers))
}

/// Asks a worker to finish what it holds and take no more.
pub(crate) async fn drain(
    State(app): State<App>,
    PathText(name): PathText,
) -> Result<Json<Asked>, ApiError> {
    let name = named(name)?;
    let asked = app.handle.drain_worker(name.clone()).await?;
    app.pulse.note();
    Ok(Json(Asked { name, asked }))
}

/// Lets a worker finish what it holds and take no more until it is resumed.
pub(crate) async fn pause(
    State(app): State<App>,
    PathText(name): PathText,
) -> Result<Json<Asked>, ApiError> {
    rest(&app, name, true).await
}

/// Lets a paused worker take tasks again.
pub(crate) async fn resume(
    State(app): State<App>,
    PathText(name): PathText,
) -> Result<Json<Asked>, ApiError> {
    rest(&app, name, false).await
}

async fn rest(app: &App, name: String, paused: bool) -> Result<Json<Asked>, ApiError> {
    let name = named(name)?;
    let asked = app.handle.pause_worker(name.clone(), paused).await?;
    app.pulse.note();
    Ok(Json(Asked { name, asked }))
}

fn named(name: String) -> Result<Name, ApiError> {
    check_name("worker", &name, WORKER_NAME_LEN_MAX)?;
    Ok(name.into())
}
