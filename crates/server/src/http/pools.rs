//! Pools of workers: how they stand, why, what they did, and what may be asked of them by hand.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use divvy_autoscale::Change;
use divvy_autoscale::status::{PoolEvent, PoolExplained, PoolStatus, Simulated, Trial};
use divvy_engine::Error;
use divvy_http::events::{self, LastEventId};
use divvy_http::{ApiError, JsonBody, PathText};
use divvy_types::Timestamp;
use divvy_types::view::Page;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::App;
use crate::http::whole;

/// The code of a refusal to simulate without anything to simulate with.
pub(crate) const NO_SAMPLES: &str = "no_samples";

/// How many workers to hold.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PoolSize")]
pub(crate) struct Size {
    /// So many, from the minimum to the maximum of the pool; nothing lets the pool decide again.
    workers: Option<u32>,
}

/// All pools, by name.
pub(crate) async fn list(State(app): State<App>) -> Result<Json<Page<PoolStatus>>, ApiError> {
    Ok(whole(app.scale.list(now(&app).await?)))
}

/// One pool.
pub(crate) async fn show(
    State(app): State<App>,
    PathText(name): PathText,
) -> Result<Json<PoolStatus>, ApiError> {
    Ok(Json(app.scale.show(&name, now(&app).await?)?))
}

/// Its changes, newest first.
pub(crate) async fn history(
    State(app): State<App>,
    PathText(name): PathText,
) -> Result<Json<Page<Change>>, ApiError> {
    Ok(whole(app.scale.history(&name)?))
}

/// Why it has as many workers as it has.
pub(crate) async fn explain(
    State(app): State<App>,
    PathText(name): PathText,
) -> Result<Json<PoolExplained>, ApiError> {
    Ok(Json(app.scale.explain(&name, now(&app).await?)?))
}

/// Holds a number of workers, or lets the pool decide again.
pub(crate) async fn set(
    State(app): State<App>,
    PathText(name): PathText,
    JsonBody(Size { workers }): JsonBody<Size>,
) -> Result<Json<PoolStatus>, ApiError> {
    Ok(Json(app.scale.set(&name, now(&app).await?, workers)?))
}

/// Stops changing the number of workers.
pub(crate) async fn pause(
    State(app): State<App>,
    PathText(name): PathText,
) -> Result<Json<PoolStatus>, ApiError> {
    Ok(Json(app.scale.pause(&name, now(&app).await?, true)?))
}

/// Goes on with it.
pub(crate) async fn resume(
    State(app): State<App>,
    PathText(name): PathText,
) -> Result<Json<PoolStatus>, ApiError> {
    Ok(Json(app.scale.pause(&name, now(&app).await?, false)?))
}

/// What it would have wanted with other settings.
pub(crate) async fn simulate(
    State(app): State<App>,
    PathText(name): PathText,
    JsonBody(trial): JsonBody<Trial>,
) -> Result<Json<Simulated>, ApiError> {
    app.scale.simulate(&name, trial)?.map(Json).ok_or_else(|| {
        let message = format!(
            "pool `{name}` has seen nothing yet that it could be tried with; let some tasks run first"
        );
        ApiError::new(StatusCode::CONFLICT, NO_SAMPLES, message)
    })
}

/// Changes of what is wanted as server-sent events, from now on or from the last one that was seen.
pub(crate) async fn stream(
    State(app): State<App>,
    LastEventId(last): LastEventId,
) -> Result<Response, ApiError> {
    let following = app.scale.follow(last.as_deref());
    let changes =
        events::of_ring(following, |event: &Arc<PoolEvent>| Some(events::event("scale", &**event)));
    Ok(events::answer(changes, app.shutdown.clone()))
}

async fn now(app: &App) -> Result<Timestamp, Error> {
    app.handle.look(|core| core.now()).await
}
