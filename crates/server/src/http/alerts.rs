//! `GET /alerts`: every rule about the health of the server, and whether it is broken now.

use axum::Json;
use axum::extract::State;
use divvy_engine::{Error, Snapshot};
use divvy_http::ApiError;
use divvy_types::Timestamp;
use divvy_types::overview::Alerts;

use crate::alerts::{DEAD_WITHIN_MS, Scene, judge};
use crate::app::App;

/// Sorts of tasks that nobody can run which are told.
const STRANDED_MAX: usize = 100;

/// All rules.
pub(crate) async fn show(State(app): State<App>) -> Result<Json<Alerts>, ApiError> {
    let stats = app.handle.stats().await?;
    let (time, scene) = scene(&app, stats).await?;
    Ok(Json(Alerts { time, alerts: judge(&scene) }))
}

/// What the rules look at.
pub(crate) async fn scene(app: &App, stats: Snapshot) -> Result<(Timestamp, Scene), Error> {
    let (now, mut scene) = app
        .handle
        .look(|core| {
            let (scheduler, now) = (core.scheduler(), core.now());
            let benched = core.workers().into_iter().flat_map(|worker| {
                let name = worker.name;
                worker.skills.into_iter().filter_map(move |skill| {
                    let until = skill.benched_until.filter(|until| *until > now)?;
                    Some((name.clone(), skill.kind, until))
                })
            });
            let scene = Scene {
                load: scheduler.load_metrics(),
                workers: scheduler.worker_loads(),
                benched: benched.collect(),
                limits: scheduler.limit_views(now),
                stranded: scheduler.stranded(STRANDED_MAX),
                late: scheduler.deadlines_at_risk(now),
                refused_ticks: core
                    .schedules()
                    .all_refused()
                    .map(|(name, problem)| (name.clone(), problem.to_owned()))
                    .collect(),
                ..Scene::default()
            };
            (now, scene)
        })
        .await?;
    let since = Timestamp(now.0.saturating_sub(DEAD_WITHIN_MS * 1_000));
    scene.newly_dead = stats.dead.saturating_sub(app.samples.dead_before(since));
    (scene.pools, scene.pool_list) = (app.scale.troubles(now), app.scale.list(now));
    scene.reload_error = app.settings_file.reload_error();
    scene.stats = stats;
    Ok((now, scene))
}
