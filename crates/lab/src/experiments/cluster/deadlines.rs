//! Deadlines: a mixed load at 90 %, with deadlines given to the scheduler and without.
//!
//! Both runs face the same tasks and are judged by the same deadlines. In one the scheduler knows them and starts the
//! task with the least time to spare; in the other it knows nothing and starts the oldest.

use std::time::Duration;

use crate::chart::{Axis, Bars, Chart};
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::number::{brief, count, percent};
use crate::report::{Report, Table};
use crate::sim::cluster::{Arrivals, Cluster, Due, Load, Member, Outcome, RunTime};

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "deadlines",
    summary: "mixed tasks at 90 % load: least slack against age",
    timing: Timing::Simulated,
    run,
};

const WORKERS: u32 = 8;
const SLOTS: u32 = 2;
const UTILISATION: f64 = 0.9;
/// Of the misses without deadlines.
const ALLOWED: f64 = 1.0 / 3.0;

/// A sort of tasks; times in milliseconds.
struct Sort {
    kind: &'static str,
    /// How much of all tasks.
    share: f64,
    run: (u64, u64),
    due: (u64, u64),
}

const SORTS: [Sort; 3] = [
    Sort { kind: "page", share: 0.4, run: (100, 300), due: (1_000, 2_000) },
    Sort { kind: "mail", share: 0.4, run: (200, 600), due: (5_000, 10_000) },
    Sort { kind: "report", share: 0.2, run: (1_000, 5_000), due: (60_000, 120_000) },
];

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let tasks = settings.size(40_000, 6_000);
    progress.step("by age", 0, 2)?;
    let age = cluster(tasks, false, settings.seed).run()?;
    progress.step("by slack", 1, 2)?;
    let slack = cluster(tasks, true, settings.seed).run()?;
    let mut report = Report::new(
        EXPERIMENT.name,
        "Deadlines",
        "Pages that a person waits for, mails that may take seconds and reports that may take minutes share a fleet \
         that is busy for 90 % of the time. By age, a page waits behind reports that have all the time in the world. \
         By slack, the task with the least time to spare goes first.",
    );
    report.parameter("seed", settings.seed);
    report.parameter("tasks", tasks);
    report.parameter("slots", WORKERS * SLOTS);
    report.parameter("load", percent(UTILISATION));
    report.tables.push(sorts());
    report.tables.push(table(&age, &slack));
    report.charts.push(chart(&age, &slack));
    find(&mut report, &age, &slack);
    report.lesson(
        "Say when a task has to be done instead of how important it is: nothing has to be ranked, and what can wait \
         waits only as long as it can.",
    );
    Ok(report)
}

fn cluster(tasks: usize, told: bool, seed: u64) -> Cluster {
    let ms = Duration::from_millis;
    let run_time = |sort: &Sort| RunTime::Between(ms(sort.run.0), ms(sort.run.1));
    let mean: f64 = SORTS.iter().map(|sort| sort.share * run_time(sort).mean().as_secs_f64()).sum();
    let per_second = f64::from(WORKERS * SLOTS) * UTILISATION / mean;
    let mut cluster = Cluster::new(seed)
        .members(WORKERS, |number| Member::new(format!("worker-{number}"), SLOTS));
    cluster.travel = ms(1);
    for sort in &SORTS {
        let per_second = per_second * sort.share;
        cluster = cluster.load(
            Load::new(sort.kind, (tasks as f64 * sort.share) as usize)
                .arrive(Arrivals::Poisson { from: Duration::ZERO, per_second })
                .run_for(run_time(sort))
                .due(Due { least: ms(sort.due.0), most: ms(sort.due.1), told }),
        );
    }
    cluster
}

fn sorts() -> Table {
    let mut table = Table::new("The tasks")
        .text("tasks")
        .number("share", "%", 0)
        .number("shortest run", "ms", 0)
        .number("longest run", "ms", 0)
        .number("due after", "ms", 0)
        .number("at the latest", "ms", 0);
    for sort in &SORTS {
        table.row([
            sort.kind.into(),
            (sort.share * 100.0).into(),
            sort.run.0.into(),
            sort.run.1.into(),
            sort.due.0.into(),
            sort.due.1.into(),
        ]);
    }
    table
}

fn table(age: &Outcome, slack: &Outcome) -> Table {
    let mut table = Table::new("Deadlines missed, and waits")
        .text("tasks")
        .text("order")
        .number("judged", "", 0)
        .number("missed", "", 0)
        .number("missed", "%", 2)
        .number("wait p50", "s", 2)
        .number("wait p99", "s", 2);
    for (load, sort) in SORTS.iter().enumerate() {
        for (order, outcome) in [("age", age), ("least slack", slack)] {
            let (judged, missed) = outcome.missed(|life| life.load == load);
            let waits = outcome.waits(|life| life.load == load);
            table.row([
                sort.kind.into(),
                order.into(),
                judged.into(),
                missed.into(),
                (100.0 * missed as f64 / judged.max(1) as f64).into(),
                waits.p50.as_secs_f64().into(),
                waits.p99.as_secs_f64().into(),
            ]);
        }
    }
    table
}

fn chart(age: &Outcome, slack: &Outcome) -> Chart {
    let missed = |outcome: &Outcome| -> Vec<Option<f64>> {
        let share = |load: usize| {
            let (judged, missed) = outcome.missed(|life| life.load == load);
            Some(100.0 * missed as f64 / judged.max(1) as f64)
        };
        (0..SORTS.len()).map(share).collect()
    };
    let axis = Axis::new("deadlines missed", "%").precision(2);
    let bars = Bars::new(axis, SORTS.iter().map(|sort| sort.kind))
        .series("by age", missed(age))
        .series("least slack first", missed(slack));
    Chart::new("Who misses deadlines", bars)
}

fn find(report: &mut Report, age: &Outcome, slack: &Outcome) {
    let (judged, by_age) = age.missed(|_| true);
    let (_, by_slack) = slack.missed(|_| true);
    let busy: Duration = age.members.iter().map(|member| member.busy).sum();
    let slots = age.makespan().as_secs_f64() * f64::from(WORKERS * SLOTS);
    report.finding(format!(
        "The slots were busy for {} of the time. Of {} deadlines, {} were missed by age and {} by least slack.",
        percent(busy.as_secs_f64() / slots),
        count(judged as u64),
        count(by_age as u64),
        count(by_slack as u64)
    ));
    let p99 = |outcome: &Outcome| outcome.waits(|life| life.load == 2).p99.as_secs_f64();
    report.finding(format!(
        "Reports pay for it with their patience: 99 % waited less than {} s by age and less than {} s by slack.",
        brief(p99(age)),
        brief(p99(slack))
    ));
    let share = by_slack as f64 / by_age as f64;
    report.verdict(
        "deadlines missed by least slack, of those missed by age",
        "≤ a third",
        percent(share),
        share <= ALLOWED,
    );
    let sound = age.check_ended_once().and_then(|()| slack.check_ended_once());
    let found = sound.as_ref().map_or_else(String::as_str, |()| "all");
    report.verdict("tasks that end exactly once", "all", found, sound.is_ok());
}
