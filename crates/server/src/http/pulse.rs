//! What dashboards follow: `GET /overview`, `GET /history` and `GET /pulse`.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use divvy_http::events::{self, Event, LastEventId};
use divvy_http::{ApiError, Parameters};
use divvy_types::limits::QUEUE_LEN_MAX;
use divvy_types::pulse::{History, Overview};
use divvy_types::schema::Label;
use divvy_types::spec::check_name;
use divvy_types::{Name, Timestamp};
use futures_util::{StreamExt as _, stream};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::App;
use crate::pulse::Sent;

/// Steps that are told if the caller does not say, and at most.
const DEFAULT_POINTS: u64 = 120;
const POINTS_MAX: u64 = 1_440;

/// Which part of the history is wanted.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "HistorySpan")]
pub(crate) struct Asked {
    /// Only from this time on; an hour before `to` unless given.
    from: Option<Timestamp>,
    /// Only until this time; until now unless given.
    to: Option<Timestamp>,
    /// In at most so many steps.
    #[schemars(range(min = 1, max = POINTS_MAX))]
    points: Option<u64>,
    /// Only of this queue.
    #[schemars(with = "Option<Label<QUEUE_LEN_MAX>>")]
    queue: Option<Name>,
}

/// How the server stands.
pub(crate) async fn overview(State(app): State<App>) -> Result<Json<Overview>, ApiError> {
    Ok(Json(app.pulse.overview(&app).await?))
}

/// How it stood.
pub(crate) async fn history(
    State(app): State<App>,
    Parameters(Asked { from, to, points, queue }): Parameters<Asked>,
) -> Result<Json<History>, ApiError> {
    let points = points.unwrap_or(DEFAULT_POINTS);
    if !(1..=POINTS_MAX).contains(&points) {
        let problem = format!("is {points}, expected 1 to {POINTS_MAX}");
        return Err(ApiError::field("points", problem));
    }
    if let Some(queue) = &queue {
        check_name("queue", queue, QUEUE_LEN_MAX)?;
    }
    if let (Some(from), Some(to)) = (from, to)
        && to < from
    {
        return Err(ApiError::field("to", format!("is before from, which is {from}")));
    }
    Ok(Json(app.pulse.history(&app, queue.as_ref(), (from, to), points).await?))
}

/// How it stands once a second, and what happens, until the caller leaves or the server stops.
pub(crate) async fn stream(
    State(app): State<App>,
    LastEventId(last): LastEventId,
) -> Result<Response, ApiError> {
    // Before the first numbers are read: what happens after them is heard.
    let following = app.pulse.follow(last.as_deref());
    let first = app.pulse.beat(&app).await?;
    let events = events::of_ring(following, |sent: &Sent| Some(event(sent)));
    let events = stream::iter([event(&first)]).chain(events);
    Ok(events::answer(events, app.shutdown.clone()))
}

fn event(sent: &Sent) -> Event {
    let (name, text) = &**sent;
    Event::default().event(name).data(text)
}
