//! Decides how the contest and the backends are shown: tables and charts.

use super::adaptive::{BACKENDS, Trial};
use super::contest::{Scenario, Score, Standing};
use super::ranking::Ranking;
use crate::chart::{Axis, Bars, Chart, Heat, Lines, Mark};
use crate::report::number::{counted, decimal};
use crate::report::{Cell, Table};

const UNSTABLE: &str = "unstable";

/// The p99 of every contender in every scenario, with one number of balancers.
pub(super) fn summary(standings: &[Standing], ranking: &Ranking, which: usize, who: &str) -> Table {
    let mut table = Table::new(format!("p99 in mean service times, {who}")).text("policy");
    for scenario in Scenario::ALL {
        table = table.number(scenario.name(), "", 1);
    }
    table = table.number("errors when one fails", "%", 1).number("worst against best", "×", 2);
    for (standing, rank) in standings.iter().zip(&ranking.ranks) {
        let scores = &standing.scores[which];
        let mut cells = vec![Cell::from(standing.contender.name())];
        cells.extend(scores.iter().map(|score| time(score, score.p99)));
        cells.push((scores[Scenario::ALL.len() - 1].errors * 100.0).into());
        cells.push(rank.worst.map_or_else(|| "–".into(), |(ratio, _)| ratio.into()));
        table.row(cells);
    }
    table
}

/// One scenario in full.
pub(super) fn scenario(standings: &[Standing], at: usize, balancers: [usize; 2]) -> Table {
    let fails = Scenario::ALL[at] == Scenario::Fails;
    let caption = format!(
        "Targets: {}. Response in mean service times with {} and with {}",
        Scenario::ALL[at].name(),
        counted(balancers[0] as u64, "balancer"),
        counted(balancers[1] as u64, "balancer")
    );
    let mut table = Table::new(caption).text("policy");
    for count in balancers {
        for figure in ["p50", "mean", "p99"] {
            table = table.number(format!("{figure} with {count}"), "", 1);
        }
        if fails {
            table = table.number(format!("errors with {count}"), "%", 1);
        }
    }
    for standing in standings {
        let mut cells = vec![Cell::from(standing.contender.name())];
        for scores in &standing.scores {
            let score = &scores[at];
            let known = score.is_stable;
            cells.extend([score.p50, score.mean].map(|time| Cell::from(known.then_some(time))));
            cells.push(time(score, score.p99));
            if fails {
                cells.push((score.errors * 100.0).into());
            }
        }
        table.row(cells);
    }
    table
}

fn time(score: &Score, value: f64) -> Cell {
    if score.is_stable { value.into() } else { UNSTABLE.into() }
}

/// The p99 of every contender in one scenario.
pub(super) fn bars(standings: &[Standing], at: usize, names: &[String; 2]) -> Chart {
    let axis = Axis::new("p99", "mean service times").log();
    let mut bars = Bars::new(axis, standings.iter().map(|standing| standing.contender.name()));
    for (which, name) in names.iter().enumerate() {
        let values = standings.iter().map(|standing| {
            let score = standing.scores[which][at];
            score.is_stable.then_some(score.p99)
        });
        bars = bars.series(name.clone(), values);
    }
    Chart::new(format!("p99 response: {}", Scenario::ALL[at].name()), bars.missing(UNSTABLE))
        .note("The axis grows by ratio; unstable means that a queue grew without end.")
}

/// All scenarios at a glance, with one number of balancers.
pub(super) fn heat(standings: &[Standing], which: usize, name: &str) -> Chart {
    let axis = Axis::new("p99", "mean service times").log();
    let mut heat = Heat::new(axis, Scenario::ALL.map(Scenario::name)).missing(UNSTABLE);
    for standing in standings {
        let values = standing.scores[which].iter();
        let values = values.map(|score| score.is_stable.then_some(score.p99));
        heat = heat.row(standing.contender.name(), values);
    }
    Chart::new(format!("p99 response of all policies, {name}"), heat)
        .note("In brackets: what no balancer can know.")
}

/// What the balancer knew of each backend when the last request came, after one mishap.
pub(super) fn backends(trials: &[&Trial], mishap: &str) -> Table {
    let mut table =
        Table::new(format!("Three backends as the balancer saw them at the end: {mishap}"))
            .text("policy")
            .text("backend")
            .number("requests since", "%", 1)
            .number("recent errors", "%", 1)
            .number("recent p95", "ms", 0)
            .number("in flight", "", 0)
            .number("health", "", 2)
            .text("because of");
    for trial in trials {
        for (at, backend) in BACKENDS.into_iter().enumerate() {
            let load = &trial.last.targets[at];
            let health = &trial.last_health[at];
            let (worst, term) = health.worst();
            let p95 = load.statistics.p95.map(|time| time.as_secs_f64() * 1e3);
            table.row([
                trial.algorithm.name().into(),
                backend.into(),
                (share_since(trial, at) * 100.0).into(),
                (load.statistics.error_rate * 100.0).into(),
                p95.into(),
                load.in_flight.into(),
                health.score.into(),
                // A term that is perfect takes nothing away.
                if term.score < 1.0 { worst.into() } else { Cell::Empty },
            ]);
        }
    }
    table
}

/// The share of requests after the mishap that went to a backend.
fn share_since(trial: &Trial, backend: usize) -> f64 {
    let upset = trial.outcome.sent_to_upset;
    if backend == 0 {
        return upset;
    }
    // The others are alike, so what is left is split as the totals are.
    let others: u64 = trial.outcome.sent[1..].iter().sum();
    (1.0 - upset) * trial.outcome.sent[backend] as f64 / others.max(1) as f64
}

/// Health over time.
pub(super) fn health(trial: &Trial) -> Chart {
    let x = Axis::new("time", "s").precision(0);
    let mut lines =
        Lines::new(x, Axis::new("health", "").precision(2).to(1.0)).mark(Mark::new(0.0, "ill"));
    for (at, backend) in BACKENDS.into_iter().enumerate() {
        let points = trial.health.iter().map(|(when, scores)| (when.as_secs_f64(), scores[at]));
        lines = lines.line(backend, points);
    }
    if let Some(when) = trial.outcome.upset_at {
        lines = lines.moment(when.as_secs_f64(), trial.mishap.name);
    }
    let title = format!("Health under {}: {}", trial.algorithm.name(), trial.mishap.name);
    Chart::new(title, lines).note(format!(
        "1 is well, 0 is ill; {} at the end for {}.",
        decimal(trial.last_health[0].score, 2),
        BACKENDS[0]
    ))
}
