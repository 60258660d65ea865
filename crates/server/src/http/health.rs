//! Whether the process lives, and whether it can work. Open to everybody: monitors have no tokens.

use axum::extract::State;
use divvy_engine::Error;
use divvy_http::ApiError;

use crate::app::App;

/// The process lives.
pub(crate) async fn alive() -> &'static str {
    "ok\n"
}

/// The engine takes requests.
pub(crate) async fn ready(State(app): State<App>) -> Result<&'static str, ApiError> {
    if app.handle.is_running() && !app.shutdown.is_cancelled() {
        return Ok("ready\n");
    }
    Err(Error::Stopping.into())
}
