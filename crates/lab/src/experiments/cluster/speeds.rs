//! Workers of different speeds: from a quarter of the usual speed to four times that.

use super::contest::Situation;
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::Report;
use crate::sim::cluster::scenario;

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "speeds",
    summary: "workers from a quarter of the speed to four times",
    timing: Timing::Simulated,
    run,
};

const SITUATION: Situation = Situation {
    experiment: EXPERIMENT,
    title: "Workers of different speeds",
    shows: "Ten workers, two each at a quarter, a half, the usual, twice and four times the usual speed. All are \
            given as many tasks as they take. The fast ones are done first; what waits at the slow ones then decides \
            when all is done.",
    tasks: (2_000, 600),
    cluster: scenario::speeds,
};

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let (mut report, runs) = SITUATION.play(settings, progress)?;
    runs.judge_makespan(&mut report, 0.8);
    report.lesson(
        "With stealing, speeds need not be known: a fast worker comes back for more before a slow one has begun.",
    );
    Ok(report)
}
