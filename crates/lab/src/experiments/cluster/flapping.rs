//! A flapping worker: one dies every four seconds and is back a second later.

use super::contest::Situation;
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::Report;
use crate::report::number::{count, percent};
use crate::sim::cluster::scenario;

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "flapping",
    summary: "one worker dies every 4 s and is back 1 s later",
    timing: Timing::Simulated,
    run,
};

const SITUATION: Situation = Situation {
    experiment: EXPERIMENT,
    title: "A flapping worker",
    shows: "One of ten workers dies every four seconds with a full queue and is back a second later, with empty \
            hands. Each time it is given tasks, and each time it loses them. None may be lost for good, and little \
            may run twice.",
    tasks: (4_000, 1_200),
    cluster: scenario::flapping,
};

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let (mut report, runs) = SITUATION.play(settings, progress)?;
    let begun: u64 = runs.hybrid.members.iter().map(|member| member.began).sum();
    let done = runs.hybrid.done(|_| true) as u64;
    report.finding(format!(
        "With hybrid stealing {} attempts were begun for {} tasks: {} of the work was done twice.",
        count(begun),
        count(done),
        percent((begun - done.min(begun)) as f64 / done as f64)
    ));
    runs.judge_makespan(&mut report, 1.02);
    let all = runs.all().iter().all(|(_, outcome)| outcome.done(|_| true) == outcome.lives.len());
    let found = if all { "all" } else { "not all" };
    report.verdict("tasks done in the end", "all", found, all);
    report.lesson(
        "A worker that comes back is given work like any other. What it costs is what was running when it died, not \
         what waited there.",
    );
    Ok(report)
}
