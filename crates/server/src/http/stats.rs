//! `GET /stats`: the figures of the server in one object, for `divvy status` and dashboards.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use divvy_engine::Snapshot;
use divvy_http::ApiError;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::{App, VERSION};

/// The server at one moment.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Statistics {
    version: &'static str,
    address: String,
    uptime_ms: u64,
    lease_ms: u64,
    /// Counters since the start and the open tasks.
    engine: Snapshot,
    /// Tasks that are kept in each final state.
    r#final: BTreeMap<&'static str, u64>,
}

/// All figures.
pub(crate) async fn show(State(app): State<App>) -> Result<Json<Statistics>, ApiError> {
    let engine = app.handle.stats().await?;
    let counts = app.handle.final_counts().await?;
    Ok(Json(Statistics {
        version: VERSION,
        address: app.address(),
        uptime_ms: u64::try_from(app.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        lease_ms: app.lease_ms,
        engine,
        r#final: counts.into_iter().map(|(state, count)| (state.as_str(), count)).collect(),
    }))
}
