//! A worker that turns slow: after three seconds one runs at a tenth of its speed.

use super::contest::Situation;
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::Report;
use crate::sim::cluster::scenario;

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "slow-worker",
    summary: "after 3 s one worker runs at a tenth of its speed",
    timing: Timing::Simulated,
    run,
};

const SITUATION: Situation = Situation {
    experiment: EXPERIMENT,
    title: "A worker that turns slow",
    shows: "Ten equal workers have full queues. After three seconds one of them runs at a tenth of its speed, and \
            says nothing. What waits there waits ten times as long, unless somebody takes it away.",
    tasks: (1_000, 400),
    cluster: scenario::slow_worker,
};

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let (mut report, runs) = SITUATION.play(settings, progress)?;
    runs.judge_makespan(&mut report, 0.6);
    report.lesson(
        "A slow worker is worse than a dead one as long as what waits there cannot leave: death at least is noticed.",
    );
    Ok(report)
}
