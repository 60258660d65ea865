//! Limits by name: what is set, and how full they are.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use divvy_engine::Error;
use divvy_http::{ApiError, JsonBody, PathText};
use divvy_types::limits::LIMIT_LEN_MAX;
use divvy_types::overview::LimitStatus;
use divvy_types::settings::Limit;
use divvy_types::spec::check_name;
use divvy_types::view::{LimitView, Page};
use divvy_types::{Name, Settings};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::http::settings::change;
use crate::http::whole;

/// Keys of one limit that are listed, those that keep most first.
const LEVELS_MAX: usize = 100;

/// What became of a removal.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RemovedLimit")]
pub(crate) struct Removed {
    name: Name,
    removed: bool,
}

/// All limits, by name, with their levels.
pub(crate) async fn list(State(app): State<App>) -> Result<Json<Page<LimitStatus>>, ApiError> {
    let (settings, views) = look(&app).await?;
    Ok(whole(statuses(&settings, views)))
}

/// Sets a limit; what is left out is not limited.
pub(crate) async fn set(
    State(app): State<App>,
    PathText(name): PathText,
    JsonBody(limit): JsonBody<Limit>,
) -> Result<Json<LimitStatus>, ApiError> {
    check_name("limit", &name, LIMIT_LEN_MAX)?;
    let key = Name::from(name.as_str());
    let kept = limit.clone();
    change(&app, move |settings| {
        settings.limits.insert(key, limit);
        Ok(())
    })
    .await?;
    let (_, mut views) = look(&app).await?;
    views.retain(|view| view.name == name);
    Ok(Json(status(name.into(), kept, views)))
}

/// Removes a limit: tasks that name it are not limited by it any more.
pub(crate) async fn remove(
    State(app): State<App>,
    PathText(name): PathText,
) -> Result<Json<Removed>, ApiError> {
    check_name("limit", &name, LIMIT_LEN_MAX)?;
    let name = Name::from(name);
    let key = name.clone();
    change(&app, move |settings| match settings.limits.remove(&key) {
        Some(_) => Ok(()),
        None => Err(Error::NoSuchSetting { what: "limit", name: key.into() }),
    })
    .await?;
    Ok(Json(Removed { name, removed: true }))
}

async fn look(app: &App) -> Result<(Settings, Vec<LimitView>), Error> {
    app.handle
        .look(|core| {
            let scheduler = core.scheduler();
            (scheduler.settings().clone(), scheduler.limit_views(core.now()))
        })
        .await
}

fn statuses(settings: &Settings, views: Vec<LimitView>) -> Vec<LimitStatus> {
    let mut by_name: BTreeMap<Name, Vec<LimitView>> = BTreeMap::new();
    for view in views {
        by_name.entry(view.name.clone()).or_default().push(view);
    }
    let limits = settings.limits.iter();
    limits
        .map(|(name, limit)| {
            status(name.clone(), limit.clone(), by_name.remove(name).unwrap_or_default())
        })
        .collect()
}

/// The key under which a limit's total over all keys is shown.
const TOTAL: &str = "*";

fn status(name: Name, limit: Limit, mut levels: Vec<LimitView>) -> LimitStatus {
    levels.sort_by(|a, b| (b.waiting, b.running, &a.key).cmp(&(a.waiting, a.running, &b.key)));
    // A task counts at its key and at the total, but waits at one of them.
    let by_key = || levels.iter().filter(|level| level.key.as_deref() != Some(TOTAL));
    let total = levels.iter().find(|level| level.key.as_deref() == Some(TOTAL));
    let (running, waiting, keys) = (
        total.map_or_else(|| by_key().map(|level| level.running).sum(), |total| total.running),
        levels.iter().map(|level| level.waiting).sum(),
        by_key().count() as u64,
    );
    levels.truncate(LEVELS_MAX);
    LimitStatus { name, limit, running, waiting, keys, levels }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_summed_over_all_keys_and_the_fullest_are_listed() {
        let views = (0..150u64)
            .map(|number| LimitView {
                name: "api".into(),
                key: Some(format!("k{number}").into()),
                running: 1,
                waiting: number,
                ..LimitView::default()
            })
            .collect();
        let limit = Limit { concurrency: Some(1), ..Limit::default() };
        let status = status("api".into(), limit, views);
        assert_eq!((status.running, status.waiting, status.keys), (150, 11_175, 150));
        assert_eq!(status.levels.len(), LEVELS_MAX);
        assert_eq!(status.levels[0].key.as_deref(), Some("k149"));
    }
}
