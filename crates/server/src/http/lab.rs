//! Experiments and plans: which there are, one run at a time, and what it found.

use axum::Json;
use axum::extract::State;
use divvy_http::{ApiError, JsonBody, PathText};
use divvy_types::view::Page;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::App;
use crate::http::whole;
use crate::lab::{Asked, Experiment, Lab, LabRun, Refused};

/// Codes of refusals.
pub(crate) const NO_LAB: &str = "no_lab";
pub(crate) const NO_SUCH_EXPERIMENT: &str = "no_such_experiment";
pub(crate) const NO_SUCH_RUN: &str = "no_such_run";
pub(crate) const RUN_GOES_ON: &str = "run_goes_on";

/// How an experiment is run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "RunExperiment")]
pub(crate) struct RunBody {
    /// Where all chance comes from.
    seed: u64,
    /// Whether a rough answer in seconds is wanted rather than a firm one.
    quick: bool,
}

impl Default for RunBody {
    fn default() -> Self {
        Self { seed: 1, quick: true }
    }
}

/// What is planned.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RunPlan")]
pub(crate) struct PlanBody {
    /// The plan, as it stands in a file: YAML or JSON. It cannot name other files.
    plan: String,
    /// Days to simulate, instead of those of the plan.
    days: Option<f64>,
    /// Seeds to try, instead of those of the plan.
    seeds: Option<u32>,
}

/// All experiments.
pub(crate) async fn list(State(app): State<App>) -> Result<Json<Page<Experiment>>, ApiError> {
    Ok(whole(lab(&app)?.0.experiments()))
}

/// Runs that are remembered, newest first.
pub(crate) async fn runs(State(app): State<App>) -> Result<Json<Page<LabRun>>, ApiError> {
    lab(&app)?;
    Ok(whole(app.lab_runs.list()))
}

/// Begins a run of an experiment.
pub(crate) async fn run(
    State(app): State<App>,
    PathText(name): PathText,
    JsonBody(RunBody { seed, quick }): JsonBody<RunBody>,
) -> Result<(StatusCode, Json<LabRun>), ApiError> {
    begin(&app, &name.clone(), Asked::Experiment { name, seed, quick })
}

/// Begins to look for the fleet of a plan.
pub(crate) async fn plan(
    State(app): State<App>,
    JsonBody(PlanBody { plan, days, seeds }): JsonBody<PlanBody>,
) -> Result<(StatusCode, Json<LabRun>), ApiError> {
    begin(&app, "plan", Asked::Plan { text: plan, days, seeds })
}

/// One run, with what it found.
pub(crate) async fn show(
    State(app): State<App>,
    PathText(id): PathText,
) -> Result<Json<LabRun>, ApiError> {
    app.lab_runs.show(&id).map(Json).ok_or_else(no_such_run)
}

/// Ends a run before its time.
pub(crate) async fn stop(
    State(app): State<App>,
    PathText(id): PathText,
) -> Result<Json<LabRun>, ApiError> {
    app.lab_runs.stop(&id).map(Json).ok_or_else(no_such_run)
}

fn begin(app: &App, name: &str, asked: Asked) -> Result<(StatusCode, Json<LabRun>), ApiError> {
    let prepared = lab(app)?.0.prepare(asked).map_err(|refused| match refused {
        Refused::NoSuchExperiment(message) => {
            ApiError::new(StatusCode::NOT_FOUND, NO_SUCH_EXPERIMENT, message)
        }
        Refused::BadPlan(problem) => ApiError::field("plan", problem),
    })?;
    match app.lab_runs.begin(name, prepared, app.shutdown.clone()) {
        Ok(run) => Ok((StatusCode::ACCEPTED, Json(run))),
        Err((name, id)) => {
            let message = format!("`{name}` runs already, as run {id}; wait for it or stop it");
            Err(ApiError::new(StatusCode::CONFLICT, RUN_GOES_ON, message))
        }
    }
}

fn lab(app: &App) -> Result<&Lab, ApiError> {
    app.lab.as_ref().ok_or_else(|| {
        let message = "this server has no lab; `divvy up` and `divvy serve` have one";
        ApiError::new(StatusCode::NOT_FOUND, NO_LAB, message)
    })
}

fn no_such_run() -> ApiError {
    let message = "no such run: it was long ago, or the server was started since; run it again";
    ApiError::new(StatusCode::NOT_FOUND, NO_SUCH_RUN, message)
}
