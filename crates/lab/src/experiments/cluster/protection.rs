//! Priority protection: tasks of high priority are never moved.

use super::contest::{Runs, Situation};
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::number::{brief, counted};
use crate::report::{Report, Table};
use crate::sim::cluster::{Life, Outcome, scenario};

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "protection",
    summary: "a hot spot where one task in four is protected",
    timing: Timing::Simulated,
    run,
};

const SITUATION: Situation = Situation {
    experiment: EXPERIMENT,
    title: "Priority protection",
    shows: "Like the hot spot, but one task in four is of priority 5. Tasks of high priority are never taken away \
            from their worker, so they cannot be delayed by being moved; what is moved are the others, which makes \
            room.",
    tasks: (2_000, 400),
    cluster: scenario::protection,
};

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let (mut report, runs) = SITUATION.play(settings, progress)?;
    report.tables.push(by_priority(&runs));
    let moved = |outcome: &Outcome| moved(outcome, is_protected);
    let worst = runs.all().into_iter().map(|(_, outcome)| moved(outcome)).max().unwrap_or(0);
    report.verdict("protected tasks that were moved", "0", worst.to_string(), worst == 0);
    let p99 = |outcome: &Outcome| outcome.waits(is_protected).p99.as_secs_f64();
    let (without, with) = (p99(&runs.none), p99(&runs.hybrid));
    report.finding(format!(
        "Protected tasks: 99 % waited less than {} s without stealing and {} s with hybrid stealing, which moved {} \
         that were not protected.",
        brief(without),
        brief(with),
        counted(self::moved(&runs.hybrid, |_| true) as u64, "task")
    ));
    report.verdict(
        "wait p99 of protected tasks with hybrid stealing",
        format!("≤ {} s (without)", brief(without)),
        format!("{} s", brief(with)),
        with <= without * 1.01,
    );
    runs.judge_makespan(&mut report, 0.8);
    report.lesson(
        "A worker runs its highest priority first. What is protected is thus next anyway; moving it could only add \
         a journey.",
    );
    Ok(report)
}

fn by_priority(runs: &Runs) -> Table {
    let mut table = Table::new("By priority")
        .text("stealing")
        .text("priority")
        .number("tasks", "", 0)
        .number("moved", "", 0)
        .number("wait p50", "s", 2)
        .number("wait p99", "s", 2);
    for (name, outcome) in runs.all() {
        for (words, picks) in
            [("5, protected", is_protected as fn(&Life) -> bool), ("2", |life| !is_protected(life))]
        {
            let waits = outcome.waits(picks);
            table.row([
                name.into(),
                words.into(),
                outcome.lives.iter().filter(|life| picks(life)).count().into(),
                moved(outcome, picks).into(),
                waits.p50.as_secs_f64().into(),
                waits.p99.as_secs_f64().into(),
            ]);
        }
    }
    table
}

fn is_protected(life: &Life) -> bool {
    life.priority == scenario::PROTECTED
}

fn moved(outcome: &Outcome, picks: impl Fn(&Life) -> bool) -> usize {
    outcome.lives.iter().filter(|life| life.given_back > 0 && picks(life)).count()
}
