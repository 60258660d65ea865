//! Bursts: two hundred tasks at once, one in ten of them long.

use super::contest::Situation;
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::Report;
use crate::sim::cluster::scenario;

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "bursty",
    summary: "bursts of 200 tasks, one in ten of them long",
    timing: Timing::Simulated,
    run,
};

const SITUATION: Situation = Situation {
    experiment: EXPERIMENT,
    title: "Bursty traffic",
    shows: "Every fifteen seconds two hundred tasks come at once, and one in ten takes twenty-five times as long as \
            the others. Nobody knows which. Short tasks end up behind long ones while other workers have nothing to \
            do.",
    tasks: (6_000, 1_200),
    cluster: scenario::bursty,
};

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let (mut report, runs) = SITUATION.play(settings, progress)?;
    runs.judge_makespan(&mut report, 1.02);
    runs.judge_wait(&mut report, 0.9);
    report.lesson(
        "Where nobody knows how long tasks take, even queues are not enough: what waits behind a long task has to be \
         able to leave.",
    );
    Ok(report)
}
