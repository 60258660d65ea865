//! Alerts: every rule about the health of the server and how it stands, silences, and a test of those who are told.

use axum::Json;
use axum::extract::State;
use divvy_http::{ApiError, JsonBody, PathText};
use divvy_types::Name;
use divvy_types::alerts::{AlertTest, Alerts, NewSilence, Silenced};
use http::StatusCode;

use crate::alerts::{self, Looked, RULES};
use crate::app::App;

/// The code of a refusal because there is no such rule.
pub(crate) const NO_SUCH_ALERT: &str = "no_such_alert";
/// The longest silence: a month.
const SILENCE_SEC_MAX: u64 = 31 * 86_400;

/// All rules.
pub(crate) async fn show(State(app): State<App>) -> Result<Json<Alerts>, ApiError> {
    let stats = app.handle.stats().await?;
    let Looked { alerts, .. } = alerts::look(&app, stats).await?;
    Ok(Json(alerts))
}

/// Tells nobody of an alert for a while.
pub(crate) async fn silence(
    State(app): State<App>,
    PathText(name): PathText,
    JsonBody(NewSilence { for_sec }): JsonBody<NewSilence>,
) -> Result<Json<Silenced>, ApiError> {
    let name = known(name)?;
    if !(1..=SILENCE_SEC_MAX).contains(&for_sec) {
        let problem = format!("is {for_sec}, expected 1 to {SILENCE_SEC_MAX}");
        return Err(ApiError::field("for_sec", problem));
    }
    let now = app.handle.look(|core| core.now()).await?;
    let until = now.plus_ms(for_sec * 1_000);
    app.watch.silence(&name, Some(until));
    Ok(Json(Silenced { name, silenced_until: Some(until) }))
}

/// Tells others of an alert again.
pub(crate) async fn unsilence(
    State(app): State<App>,
    PathText(name): PathText,
) -> Result<Json<Silenced>, ApiError> {
    let name = known(name)?;
    app.watch.silence(&name, None);
    Ok(Json(Silenced { name, silenced_until: None }))
}

/// Sends a test to everybody who is told.
pub(crate) async fn test(
    State(app): State<App>,
) -> Result<(StatusCode, Json<AlertTest>), ApiError> {
    let now = app.handle.look(|core| core.now()).await?;
    let sent = app.watch.test(&app.settings_file.alerts(), now);
    Ok((StatusCode::ACCEPTED, Json(AlertTest { sent })))
}

fn known(name: String) -> Result<Name, ApiError> {
    if RULES.iter().any(|rule| rule.name == name) {
        return Ok(name.into());
    }
    let message = format!("there is no alert `{name}`; list them with: divvy alert list");
    Err(ApiError::new(StatusCode::NOT_FOUND, NO_SUCH_ALERT, message))
}
