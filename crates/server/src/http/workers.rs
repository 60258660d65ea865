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

/// What became of a drain.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DrainedWorker")]
pub(crate) struct Drained {
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
) -> Result<Json<Drained>, ApiError> {
    check_name("worker", &name, WORKER_NAME_LEN_MAX)?;
    let name = Name::from(name);
    let asked = app.handle.drain_worker(name.clone()).await?;
    if asked == 0 {
        return Err(Error::NoSuchWorker(name.into()).into());
    }
    Ok(Json(Drained { name, asked }))
}
