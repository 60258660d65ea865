//! Why a task is where it is.

use axum::Json;
use axum::extract::State;
use divvy_http::{ApiError, PathText};
use divvy_types::overview::TaskExplanation;

use crate::app::App;

/// What keeps a task, who could run it and who does, and what became of its attempts.
pub(crate) async fn show(
    State(app): State<App>,
    PathText(id): PathText,
) -> Result<Json<TaskExplanation>, ApiError> {
    let id = app.handle.resolve(&id).await?;
    Ok(Json(app.handle.explain(id).await?))
}
