//! How the load is spread over the workers, and evening it out.

use axum::Json;
use axum::extract::State;
use divvy_types::overview::{LoadView, Rebalance};

use crate::app::App;
use crate::http::error::ApiError;
use crate::http::extract::JsonBody;
use crate::http::parameters::Parameters;
use crate::http::tasks::NoFields;
use crate::samples::{queue_variance, utilisation};

/// The load now and in the last half hour of work.
pub(crate) async fn show(State(app): State<App>) -> Result<Json<LoadView>, ApiError> {
    let (metrics, mut workers) = app
        .handle
        .look(|core| (core.scheduler().load_metrics(), core.scheduler().worker_loads()))
        .await?;
    workers.sort_unstable_by(|a, b| (&a.name, a.key).cmp(&(&b.name, b.key)));
    Ok(Json(LoadView {
        metrics,
        utilisation: utilisation(&workers),
        queue_variance: queue_variance(&workers),
        workers,
        samples: app.samples.list(),
    }))
}

/// Evens the load out now, or says what that would move.
pub(crate) async fn rebalance(
    State(app): State<App>,
    mut parameters: Parameters,
    JsonBody(NoFields {}): JsonBody<NoFields>,
) -> Result<Json<Rebalance>, ApiError> {
    let dry_run = parameters.take_switch("dry_run")?;
    parameters.finish()?;
    let moves = app.handle.rebalance(dry_run).await?;
    Ok(Json(Rebalance { dry_run, moves }))
}
