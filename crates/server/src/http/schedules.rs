//! Schedules: tasks that come by themselves, set and looked after by name.

use axum::Json;
use axum::extract::State;
use bytes::Bytes;
use divvy_engine::schedules;
use divvy_http::{ApiError, JsonBytes, PathText, form, parse};
use divvy_types::schedule::{Schedule, ScheduleView, Tick};
use divvy_types::view::Page;
use divvy_types::{Name, TaskId};
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::http::whole;

/// What became of a removal.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RemovedSchedule")]
pub(crate) struct Removed {
    name: Name,
    removed: bool,
}

/// When a schedule would tick.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SchedulePreview {
    /// When it would tick, in words.
    words: String,
    /// The next ticks; none after its end.
    next: Vec<Tick>,
}

/// What became of a trigger.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TriggeredSchedule")]
pub(crate) struct Triggered {
    name: Name,
    task: TaskId,
}

/// All schedules, by name.
pub(crate) async fn list(State(app): State<App>) -> Result<Json<Page<ScheduleView>>, ApiError> {
    Ok(whole(app.handle.schedules().await?))
}

/// One schedule.
pub(crate) async fn show(
    State(app): State<App>,
    PathText(name): PathText,
) -> Result<Json<ScheduleView>, ApiError> {
    Ok(Json(app.handle.schedule(name.into()).await?))
}

/// Sets a schedule, new or again.
pub(crate) async fn set(
    State(app): State<App>,
    PathText(name): PathText,
    JsonBytes(body): JsonBytes,
) -> Result<Json<ScheduleView>, ApiError> {
    let schedule = read(body)?;
    Ok(Json(app.handle.set_schedule(name.into(), schedule).await?))
}

fn read(body: Bytes) -> Result<Schedule, ApiError> {
    if body.is_empty() {
        let message = "the body is empty; send such as {\"cron\": \"0 3 * * *\", \"task\": {\"kind\": \"noop\"}}";
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "malformed_json", message));
    }
    let schedule: Schedule = parse(&form(body)?)?;
    // Checked here as well, because only here the fields lie within `task`.
    schedule.task.validate().map_err(|error| ApiError::from(error).within("task."))?;
    Ok(schedule)
}

/// When a schedule would tick if it was set now; nothing is set.
pub(crate) async fn preview(
    State(app): State<App>,
    JsonBytes(body): JsonBytes,
) -> Result<Json<SchedulePreview>, ApiError> {
    let schedule = read(body)?;
    let now = app.handle.look(|core| core.now()).await?;
    // A name is needed only to spread ticks, which is not shown.
    let view = schedules::preview(now, &Name::const_new("preview"), schedule)?;
    Ok(Json(SchedulePreview { words: view.words, next: view.next }))
}

/// Forgets a schedule; tasks that it submitted stay.
pub(crate) async fn remove(
    State(app): State<App>,
    PathText(name): PathText,
) -> Result<Json<Removed>, ApiError> {
    let name = Name::from(name);
    app.handle.remove_schedule(name.clone()).await?;
    Ok(Json(Removed { name, removed: true }))
}

/// Lets a schedule rest.
pub(crate) async fn pause(
    State(app): State<App>,
    PathText(name): PathText,
) -> Result<Json<ScheduleView>, ApiError> {
    Ok(Json(app.handle.pause_schedule(name.into(), true).await?))
}

/// Lets a schedule tick again.
pub(crate) async fn resume(
    State(app): State<App>,
    PathText(name): PathText,
) -> Result<Json<ScheduleView>, ApiError> {
    Ok(Json(app.handle.pause_schedule(name.into(), false).await?))
}

/// Submits the task of a schedule now.
pub(crate) async fn trigger(
    State(app): State<App>,
    PathText(name): PathText,
) -> Result<(StatusCode, Json<Triggered>), ApiError> {
    let name = Name::from(name);
    let task = app.handle.trigger_schedule(name.clone()).await?;
    Ok((StatusCode::CREATED, Json(Triggered { name, task })))
}
