//! How the load is spread over the workers, and evening it out.

use axum::Json;
use axum::extract::State;
use divvy_http::{ApiError, JsonBody, NoFields, Parameters};
use divvy_types::overview::{LoadView, Rebalance};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::App;
use crate::samples::{queue_variance, utilisation};

/// Whether it is meant.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Trial {
    /// Only say what would move.
    dry_run: bool,
}

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
    Parameters(Trial { dry_run }): Parameters<Trial>,
    JsonBody(NoFields {}): JsonBody<NoFields>,
) -> Result<Json<Rebalance>, ApiError> {
    let moves = app.handle.rebalance(dry_run).await?;
    Ok(Json(Rebalance { dry_run, moves }))
}
