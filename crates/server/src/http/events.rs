//! `GET /events`: changes of tasks as server-sent events, which [`divvy_wire::changes`] makes.

use axum::extract::State;
use axum::response::Response;
use divvy_http::events::LastEventId;
use divvy_http::{ApiError, Parameters};
use divvy_wire::changes::Filter;

use crate::app::App;

/// Streams changes until the caller leaves or the server stops.
pub(crate) async fn stream(
    State(app): State<App>,
    LastEventId(last): LastEventId,
    Parameters(filter): Parameters<Filter>,
) -> Result<Response, ApiError> {
    app.changes.stream(last, filter).await
}
