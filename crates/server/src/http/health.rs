//! Whether the process lives, and whether it can work. Open to everybody: monitors have no tokens.
//!
//! A store that cannot be written to makes both fail, with the reason: nothing is recorded, and only a person can help.

use axum::extract::State;
use divvy_engine::Error;
use divvy_http::ApiError;

use crate::app::App;

/// The process lives, and can record.
pub(crate) async fn alive(State(app): State<App>) -> Result<&'static str, ApiError> {
    app.handle.store_problem().map_or(Ok("ok\n"), |error| Err(error.into()))
}

/// The engine takes requests.
pub(crate) async fn ready(State(app): State<App>) -> Result<&'static str, ApiError> {
    if app.handle.is_running() && !app.shutdown.is_cancelled() {
        return app.handle.store_problem().map_or(Ok("ready\n"), |error| Err(error.into()));
    }
    Err(Error::Stopping.into())
}
