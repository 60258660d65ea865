//! A hot spot: one worker has all tasks, then nine others join.

use super::contest::Situation;
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::Report;
use crate::sim::cluster::scenario;

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "hot-spot",
    summary: "one worker has all tasks, then nine others join",
    timing: Timing::Simulated,
    run,
};

const SITUATION: Situation = Situation {
    experiment: EXPERIMENT,
    title: "A hot spot",
    shows: "All tasks come when there is one worker, and it takes them all. A second later nine others join and find \
            nothing to do. Without stealing they stay idle until the end; with it they take over what has not begun.",
    tasks: (2_000, 400),
    cluster: scenario::hot_spot,
};

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let (mut report, runs) = SITUATION.play(settings, progress)?;
    runs.judge_makespan(&mut report, 0.6);
    report.lesson(
        "Tasks that a worker was given and has not begun are the only ones that can be in the wrong place cheaply: \
         moving one costs two messages.",
    );
    Ok(report)
}
