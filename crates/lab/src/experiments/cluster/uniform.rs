//! Even load: equal workers and random arrivals at 80 %.

use super::contest::Situation;
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::Report;
use crate::sim::cluster::scenario;

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "uniform",
    summary: "equal workers at 80 % load: what does stealing cost?",
    timing: Timing::Simulated,
    run,
};

const SITUATION: Situation = Situation {
    experiment: EXPERIMENT,
    title: "Even load",
    shows: "Ten equal workers get random tasks at 80 % of what they can do. The scheduler gives each task to the \
            least loaded worker, so there is little to correct; stealing must not make it worse.",
    // Of fewer, the slowest hundredth says more about chance than about stealing.
    tasks: (20_000, 6_000),
    cluster: scenario::uniform,
};

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let (mut report, runs) = SITUATION.play(settings, progress)?;
    runs.judge_makespan(&mut report, 1.02);
    runs.judge_wait(&mut report, 1.05);
    report.lesson(
        "Stealing that only begins at a difference worth moving for costs nothing where the load is even.",
    );
    Ok(report)
}
