//! Cascading failure: three workers die with full queues.

use super::contest::Situation;
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::Report;
use crate::report::number::{count, counted};
use crate::sim::cluster::scenario;

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "cascade",
    summary: "three workers die with full queues, one by one",
    timing: Timing::Simulated,
    run,
};

const SITUATION: Situation = Situation {
    experiment: EXPERIMENT,
    title: "Cascading failure",
    shows: "Ten workers have full queues. After five, ten and fifteen seconds one of them dies with all that it \
            holds. The server puts that back, the others take it over, and no task is lost or recorded twice.",
    tasks: (1_500, 500),
    cluster: scenario::cascade,
};

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let (mut report, runs) = SITUATION.play(settings, progress)?;
    let lost: u64 = runs.hybrid.members.iter().map(|member| member.lost).sum();
    let done = runs.hybrid.done(|_| true);
    report.finding(format!(
        "The workers died with {} in the middle of their run; {} of {} tasks were done in the end.",
        counted(lost, "task"),
        count(done as u64),
        count(runs.hybrid.lives.len() as u64)
    ));
    runs.judge_makespan(&mut report, 1.02);
    let all = runs.all().iter().all(|(_, outcome)| outcome.done(|_| true) == outcome.lives.len());
    let found = if all { "all" } else { "not all" };
    report.verdict("tasks done, although their workers died", "all", found, all);
    report.lesson(
        "What a dead worker held goes to the front again: it has waited its turn once. Only attempts that had begun \
         are paid for twice.",
    );
    Ok(report)
}
