//! Limits: a key that has run into its limit, against the same run without that key.
//!
//! The limited key comes first and has far more tasks than its limit lets through, so thousands of tasks wait that may
//! not start. The others must not feel them.

use std::time::Duration;

use divvy_types::Settings as Told;
use divvy_types::settings::Limit;

use crate::chart::{Axis, Bars, Chart};
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::number::{brief, count, percent};
use crate::report::{Report, Table};
use crate::sim::cluster::{Cluster, Load, Member, Outcome, RunTime};

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "limits",
    summary: "a key far over its limit: do the others feel it?",
    timing: Timing::Simulated,
    run,
};

const WORKERS: u32 = 25;
const SLOTS: u32 = 4;
/// Keys besides the limited one.
const OTHERS: usize = 10;
/// Throughput that the others may lose.
const ALLOWED: f64 = 0.05;
/// The load of the limited key.
const GREEDY: usize = 0;

/// A kind of limit, and how long the tasks of the limited key run: what the limit lets through is at most one slot.
struct Way {
    name: &'static str,
    limit: Option<Limit>,
    run: Duration,
    /// Whether the others run under the same limit, each under a key of its own.
    shared: bool,
}

/// One way, with the limited key and without it.
struct Pair {
    name: &'static str,
    /// Tasks of the others per second.
    with: f64,
    without: f64,
    /// Tasks of the limited key that were done before the last of the others was.
    greedy: usize,
    /// Whether every task of the others was done, once.
    complete: bool,
}

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let tasks = settings.size(1_200, 200);
    let greedy = settings.size(50_000, 5_000);
    let ways = ways();
    let mut pairs = Vec::new();
    for (place, way) in ways.iter().enumerate() {
        let mut play = |greedy: usize, step: usize| {
            progress.step(way.name, (place * 2 + step) as u64, ways.len() as u64 * 2)?;
            cluster(way, tasks, greedy, settings.seed).run()
        };
        pairs.push(compare(way.name, &play(greedy, 0)?, &play(0, 1)?));
    }
    let mut report = Report::new(
        EXPERIMENT.name,
        "Limits",
        "One key has thousands of tasks and a limit that lets few of them start. They were there first. The tasks of \
         ten other keys come behind them. A queue that looks at the first tasks only would find nothing to start; \
         divvy passes over what may not start without looking at it again and again.",
    );
    report.parameter("seed", settings.seed);
    report.parameter("workers", WORKERS);
    report.parameter("slots", WORKERS * SLOTS);
    report.parameter("tasks of the limited key", greedy);
    report.parameter("tasks of the others", tasks * OTHERS);
    report.tables.push(table(&pairs));
    report.charts.push(chart(&pairs));
    find(&mut report, &pairs);
    report.lesson(
        "A limit belongs to the tasks that name it, not to the queue that they wait in: what may not start must not \
         stand in the way.",
    );
    Ok(report)
}

fn ways() -> [Way; 4] {
    let long = Duration::from_millis(200);
    let second = |count| divvy_types::settings::Rate { count, per_ms: 1_000 };
    [
        Way { name: "no limit", limit: None, run: long, shared: false },
        Way {
            name: "rate 2/s",
            limit: Some(Limit { rate: Some(second(2)), ..Limit::default() }),
            run: long,
            shared: false,
        },
        Way {
            name: "concurrency 1",
            limit: Some(Limit { concurrency: Some(1), ..Limit::default() }),
            run: long,
            shared: false,
        },
        Way {
            name: "rate 50/s per key",
            limit: Some(Limit { rate: Some(second(50)), ..Limit::default() }),
            run: long / 10,
            shared: true,
        },
    ]
}

fn cluster(way: &Way, tasks: usize, greedy: usize, seed: u64) -> Cluster {
    let mut told = Told::default();
    let mut limited = Load::new("call", greedy).run_for(RunTime::Fixed(way.run));
    if let Some(limit) = &way.limit {
        told.limits.insert("api".into(), limit.clone());
        limited = limited.limit("api/greedy");
    }
    let run_time = RunTime::Between(Duration::from_millis(200), Duration::from_millis(400));
    let ideal =
        run_time.mean().as_secs_f64() * (tasks * OTHERS) as f64 / f64::from(WORKERS * SLOTS);
    let mut cluster = Cluster::new(seed)
        .settings(told)
        .members(WORKERS, |number| Member::new(format!("worker-{number}"), SLOTS))
        // Without a limit the others wait for all of the limited key's tasks.
        .until(Duration::from_secs_f64(ideal * 20.0 + 60.0))
        .load(limited);
    for number in 0..OTHERS {
        let load = Load::new("call", tasks).run_for(run_time);
        let key = format!("api/other-{number}");
        cluster = cluster.load(if way.shared { load.limit(key) } else { load });
    }
    cluster
}

fn compare(name: &'static str, with: &Outcome, without: &Outcome) -> Pair {
    let complete = |outcome: &Outcome| {
        outcome.lives.iter().filter(|life| life.load != GREEDY).all(|life| life.ends == 1)
    };
    let end = Some(last(with));
    Pair {
        name,
        with: throughput(with),
        without: throughput(without),
        greedy: with.done(|life| life.load == GREEDY && life.ended <= end),
        complete: complete(with) && complete(without),
    }
}

/// Tasks of the others per second, until the last of them was done.
fn throughput(outcome: &Outcome) -> f64 {
    outcome.done(|life| life.load != GREEDY) as f64 / last(outcome).as_secs_f64()
}

/// When the last of the others was done.
fn last(outcome: &Outcome) -> Duration {
    let others = outcome.lives.iter().filter(|life| life.load != GREEDY);
    others.filter_map(|life| life.ended).max().unwrap_or_default()
}

impl Pair {
    fn kept(&self) -> f64 {
        self.with / self.without
    }
}

fn table(pairs: &[Pair]) -> Table {
    let mut table = Table::new("The other keys, with the limited key and without it")
        .text("limit")
        .number("without it", "tasks/s", 1)
        .number("with it", "tasks/s", 1)
        .number("kept", "%", 1)
        .number("limited tasks done", "", 0);
    for pair in pairs {
        table.row([
            pair.name.into(),
            pair.without.into(),
            pair.with.into(),
            (pair.kept() * 100.0).into(),
            pair.greedy.into(),
        ]);
    }
    table
}

fn chart(pairs: &[Pair]) -> Chart {
    let axis = Axis::new("throughput of the other keys", "tasks/s");
    let bars = Bars::new(axis, pairs.iter().map(|pair| pair.name))
        .series("without the limited key", pairs.iter().map(|pair| Some(pair.without)))
        .series("with it", pairs.iter().map(|pair| Some(pair.with)));
    Chart::new("What a key over its limit costs the others", bars)
}

fn find(report: &mut Report, pairs: &[Pair]) {
    let Some((unlimited, limited)) = pairs.split_first() else { return };
    report.finding(format!(
        "Without a limit the greedy key takes what it can get: the others keep {} of their {} tasks/s.",
        percent(unlimited.kept()),
        brief(unlimited.without)
    ));
    for pair in limited {
        report.finding(format!(
            "With {} the others keep {}; {} tasks of the limited key are done in that time, and the rest waits.",
            pair.name,
            percent(pair.kept()),
            count(pair.greedy as u64)
        ));
        report.verdict(
            format!("throughput of the others kept, {}", pair.name),
            format!("≥ {}", percent(1.0 - ALLOWED)),
            percent(pair.kept()),
            pair.kept() >= 1.0 - ALLOWED,
        );
    }
    let complete = pairs.iter().all(|pair| pair.complete);
    let found = if complete { "all" } else { "not all" };
    report.verdict("tasks of the others done, once each", "all", found, complete);
}
