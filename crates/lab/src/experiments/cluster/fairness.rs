//! Fair shares: keys of very unequal demand in one queue, each with a weight.
//!
//! Everything is there from the start, the keys with most tasks first, and the run is measured while every key still
//! has tasks. What each key got is then compared with what its weight promises.

use std::time::Duration;

use divvy_types::Settings as Told;
use divvy_types::settings::QueueSettings;
use divvy_types::spec::DEFAULT_QUEUE;

use crate::chart::{Axis, Chart, Lines, Mark};
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::number::{brief, count, percent};
use crate::report::{Report, Table};
use crate::sim::cluster::{Cluster, Load, Member, Outcome, RunTime, jain};

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "fairness",
    summary: "1,000 fair keys of very unequal demand in one queue",
    timing: Timing::Simulated,
    run,
};

/// Tasks that a key of weight 1 gets while it is measured.
const EACH: f64 = 40.0;
/// How many times that a key has at least, so that none runs out.
const SPARE: f64 = 1.2;
/// How many times the least demand the greediest key has on top.
const GREED: f64 = 100.0;
/// Deviations from the promised share that are allowed.
const ALLOWED: f64 = 0.05;

/// A key: what it wants and what it is promised.
#[derive(Clone, Copy, Debug)]
struct Key {
    weight: u32,
    demand: usize,
}

/// What the keys got, as deviations from their promised share: 0 is exact, −1 is nothing.
struct Shares {
    name: &'static str,
    got: Vec<f64>,
    jain: f64,
    starved: usize,
    /// The least number of tasks that a key had left.
    left: usize,
}

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let keys = keys(settings.size(1_000, 200));
    let ways = [("first in, first out", false), ("fair keys", true)];
    let mut shares = Vec::new();
    for (place, (name, fair)) in ways.into_iter().enumerate() {
        progress.step(name, place as u64, ways.len() as u64)?;
        let cluster = cluster(&keys, fair, settings.seed);
        shares.push(measure(name, &keys, &cluster.run()?));
    }
    let tasks: usize = keys.iter().map(|key| key.demand).sum();
    let mut report = Report::new(
        EXPERIMENT.name,
        "Fair shares",
        "Many keys, tenants for example, share one queue. Some have a hundred times as many tasks as others, and \
         theirs came first. In the order of arrival the others wait until those are done. With fair keys each gets \
         what its weight promises, whatever the others want.",
    );
    report.parameter("seed", settings.seed);
    report.parameter("keys", keys.len());
    report.parameter("tasks", tasks);
    report.parameter("weights", "1 to 4");
    let most = keys.iter().map(|key| key.demand).max().unwrap_or(0);
    let least = keys.iter().map(|key| key.demand).min().unwrap_or(0);
    report
        .parameter("tasks of a key", format!("{} to {}", count(least as u64), count(most as u64)));
    report.tables.push(table(&shares));
    report.charts.push(chart(&shares));
    find(&mut report, &shares);
    report.lesson(
        "A queue in the order of arrival belongs to whoever fills it first. Shares by key cost the greedy ones only \
         the time that was promised to others.",
    );
    Ok(report)
}

/// By falling demand.
fn keys(count: usize) -> Vec<Key> {
    let key = |rank: usize| {
        let weight = match rank {
            _ if rank % 100 == 50 => 4,
            _ if rank % 10 == 5 => 2,
            _ => 1,
        };
        let least = EACH * SPARE * f64::from(weight);
        Key { weight, demand: (least * (1.0 + GREED / (rank + 1) as f64)).ceil() as usize }
    };
    (0..count).map(key).collect()
}

fn cluster(keys: &[Key], fair: bool, seed: u64) -> Cluster {
    let workers = (keys.len() / 50) as u32;
    let slots = 10;
    let weights: u32 = keys.iter().map(|key| key.weight).sum();
    let starts = EACH * f64::from(weights);
    let mut queue = QueueSettings::default();
    for (rank, key) in keys.iter().enumerate() {
        queue.fair_weights.insert(name(rank).into(), key.weight);
    }
    let mut told = Told::default();
    told.queues.insert(DEFAULT_QUEUE.into(), queue);
    let mut cluster = Cluster::new(seed)
        .settings(told)
        .members(workers, |number| Member::new(format!("worker-{number}"), slots))
        // Every slot starts a task a second, on average.
        .until(Duration::from_secs_f64(starts / f64::from(workers * slots)));
    for (rank, key) in keys.iter().enumerate() {
        let run_time = RunTime::Between(Duration::from_millis(500), Duration::from_millis(1_500));
        let load = Load::new("work", key.demand).run_for(run_time);
        cluster = cluster.load(if fair { load.fair_key(name(rank)) } else { load });
    }
    cluster
}

fn name(rank: usize) -> String {
    format!("key-{rank:04}")
}

fn measure(name: &'static str, keys: &[Key], outcome: &Outcome) -> Shares {
    let mut begun = vec![0_usize; keys.len()];
    for life in outcome.lives.iter().filter(|life| life.began.is_some()) {
        begun[life.load] += 1;
    }
    let all: usize = begun.iter().sum();
    let weights: u32 = keys.iter().map(|key| key.weight).sum();
    let per_weight = all as f64 / f64::from(weights);
    let got = begun.iter().zip(keys).map(|(begun, key)| *begun as f64 / f64::from(key.weight));
    Shares {
        name,
        jain: jain(got.clone()),
        got: got.map(|got| got / per_weight - 1.0).collect(),
        starved: begun.iter().filter(|begun| **begun == 0).count(),
        left: begun.iter().zip(keys).map(|(begun, key)| key.demand - begun).min().unwrap_or(0),
    }
}

impl Shares {
    fn worst(&self) -> f64 {
        self.got.iter().map(|got| got.abs()).fold(0.0, f64::max)
    }
}

fn table(shares: &[Shares]) -> Table {
    let mut table = Table::new("What keys got, against what their weights promise")
        .text("order")
        .number("worst deviation", "%", 1)
        .number("keys within 5 %", "", 0)
        .number("keys with nothing", "", 0)
        .number("Jain", "", 4);
    for way in shares {
        let within = way.got.iter().filter(|got| got.abs() <= ALLOWED).count();
        table.row([
            way.name.into(),
            (way.worst() * 100.0).into(),
            within.into(),
            way.starved.into(),
            way.jain.into(),
        ]);
    }
    table
}

fn chart(shares: &[Shares]) -> Chart {
    let x = Axis::new("keys, the greediest first", "").log().precision(0);
    let y = Axis::new("what a key got, of what it was promised", "×").precision(2);
    let mut lines = Lines::new(x, y).mark(Mark::new(1.0, "promised"));
    for way in shares {
        let points = way.got.iter().enumerate();
        lines = lines.line(way.name, points.map(|(rank, got)| (rank as f64 + 1.0, got + 1.0)));
    }
    Chart::new("Who gets how much", lines)
}

fn find(report: &mut Report, shares: &[Shares]) {
    let [fifo, fair] = shares else { unreachable!("there are two ways") };
    report.finding(format!(
        "In the order of arrival {} of {} keys got nothing while all had tasks, and the best served one got {} times \
         its share.",
        count(fifo.starved as u64),
        count(fifo.got.len() as u64),
        brief(fifo.got.iter().copied().fold(0.0, f64::max) + 1.0)
    ));
    report.finding(format!(
        "With fair keys the worst deviation from a promised share was {}; Jain's index rose from {} to {}.",
        percent(fair.worst()),
        brief(fifo.jain),
        brief(fair.jain)
    ));
    report.verdict(
        "worst deviation of a key from its share",
        format!("≤ {}", percent(ALLOWED)),
        percent(fair.worst()),
        fair.worst() <= ALLOWED,
    );
    report.verdict(
        "tasks that every key still had at the end",
        "≥ 1",
        count(fair.left as u64),
        fair.left > 0,
    );
}
