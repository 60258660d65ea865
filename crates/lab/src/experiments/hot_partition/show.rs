//! Decides how the ways are shown: tables and charts.

use super::traffic::{self, Times};
use super::trial::Trial;
use super::ways::Way;
use super::{Data, READS, whole_percent};
use crate::chart::{Axis, Bars, Chart, Lines, Mark};
use crate::report::{Cell, Table};

const DROWNS: &str = "drowns";

/// How long answers take.
pub(super) fn answers(data: &Data) -> Table {
    let mut table = Table::new("Answers in mean operation times, and the load of the busiest node")
        .text("reads")
        .text("way")
        .number("p50 in the heat", "", 1)
        .number("p99 in the heat", "", 1)
        .number("p99 once known", "", 1)
        .number("busiest node/mean", "", 2)
        .text("queues");
    for (reads, trials) in &data.mixes {
        for (way, trial) in trials {
            table.row([
                whole_percent(*reads).into(),
                way.name().into(),
                trial.p50.into(),
                trial.p99.into(),
                trial.p99_settled.into(),
                trial.peak.into(),
                if trial.is_overloaded { "one drowns" } else { "bounded" }.into(),
            ]);
        }
    }
    table
}

/// What is paid.
pub(super) fn costs(data: &Data) -> Table {
    let mut table = Table::new("What is paid for it, in the heat")
        .text("reads")
        .text("way")
        .number("operations per request", "", 2)
        .number("read away from the owner", "%", 1)
        .number("copies made", "", 0)
        .number("copies renewed", "", 0)
        .number("keys folded after", "", 0);
    for (reads, trials) in &data.mixes {
        for (way, trial) in trials {
            table.row([
                whole_percent(*reads).into(),
                way.name().into(),
                trial.operations.into(),
                (trial.away * 100.0).into(),
                trial.copies.into(),
                trial.refills.into(),
                trial.folds.into(),
            ]);
        }
    }
    table
}

/// How well hot keys are found: the same for all ways that look for them, since all see the same requests.
pub(super) fn detection(data: &Data) -> Table {
    let mut table = Table::new("How the keys above the limit are found")
        .text("key")
        .number("share of all requests", "%", 1)
        .number("found after", "s", 1)
        .number("spread over at most", "nodes", 0);
    for (at, key) in data.trial(0, Way::Replicated).found.iter().enumerate() {
        table.row([
            traffic::name(at).into(),
            (key.share * 100.0).into(),
            key.after_s.map_or_else(|| "never".into(), Cell::from),
            key.spread.into(),
        ]);
    }
    table
}

/// Heat that no single key is to blame for.
pub(super) fn even(data: &Data) -> Table {
    let mut table = Table::new("The same heat spread evenly over the hot keys, 99% reads")
        .text("way")
        .number("p99 in the heat", "", 1)
        .number("p99 once known", "", 1)
        .number("busiest node/mean", "", 2)
        .number("read away from the owner", "%", 1)
        .text("queues");
    for (way, trial) in &data.even {
        table.row([
            way.name().into(),
            trial.p99.into(),
            trial.p99_settled.into(),
            trial.peak.into(),
            (trial.away * 100.0).into(),
            if trial.is_overloaded { "one drowns" } else { "bounded" }.into(),
        ]);
    }
    table
}

/// Which way for which mix, computed: the p99 in the settled heat, and the price.
pub(super) fn choices(data: &Data) -> Table {
    let mut table =
        Table::new("Trade-offs: p99 once the heat is known, and work in operations per request")
            .text("way");
    for reads in READS {
        table = table.number(format!("p99, {} reads", whole_percent(reads)), "", 1);
    }
    for reads in READS {
        table = table.number(format!("work, {} reads", whole_percent(reads)), "", 2);
    }
    table = table.text("best at");
    for way in Way::ALL {
        let mut cells = vec![Cell::from(way.name())];
        let trials = || (0..READS.len()).map(|mix| data.trial(mix, way));
        cells
            .extend(trials().map(|trial| settled(trial).map_or_else(|| DROWNS.into(), Cell::from)));
        cells.extend(trials().map(|trial| Cell::from(trial.operations)));
        let best = (0..READS.len()).filter(|mix| data.best(*mix).is_some_and(|best| best.0 == way));
        let best: Vec<String> = best.map(|mix| whole_percent(READS[mix])).collect();
        cells.push(if best.is_empty() { "–".into() } else { best.join(", ").into() });
        table.row(cells);
    }
    table
}

fn settled(trial: &Trial) -> Option<f64> {
    (!trial.is_overloaded).then_some(trial.p99_settled)
}

/// The p99 over time, of one mix.
pub(super) fn over_time(mix: &(f64, Vec<(Way, Trial)>), times: Times) -> Chart {
    let y = Axis::new("p99", "mean operation times").log();
    let mut lines = Lines::new(Axis::new("time", "s").precision(0), y)
        .moment(times.heat_from.as_secs_f64(), "the heat comes")
        .moment(times.heat_to.as_secs_f64(), "it goes");
    for (way, trial) in &mix.1 {
        lines = lines.line(way.name(), trial.slices.iter().copied());
    }
    Chart::new(format!("p99 over time, {} reads", whole_percent(mix.0)), lines)
        .note("By the moment of arrival, in one run. The axis grows by ratio.")
}

/// The p99 in the settled heat.
pub(super) fn p99_bars(data: &Data) -> Chart {
    let axis = Axis::new("p99", "mean operation times").log();
    let bars = series(data, axis, settled).missing(DROWNS);
    let calm = data.trial(0, Way::Plain).p99_calm;
    Chart::new("p99 once hot keys are known", bars.mark(Mark::new(calm, "in the calm")))
        .note("Drowns means that a node's queue grew for as long as the heat lasted.")
}

/// The work of the busiest node.
pub(super) fn peak_bars(data: &Data) -> Chart {
    let axis = Axis::new("busiest node per mean", "×");
    let bars = series(data, axis, |trial| Some(trial.peak)).mark(Mark::new(1.0, "even"));
    Chart::new("Load of the busiest node in the heat", bars)
}

/// Operations per request.
pub(super) fn work_bars(data: &Data) -> Chart {
    let axis = Axis::new("operations per request", "").precision(2);
    let bars = series(data, axis, |trial| Some(trial.operations));
    Chart::new("The price: operations per request in the heat", bars)
        .note("Copies are paid by writes, parts by reads.")
}

fn series(data: &Data, axis: Axis, value: fn(&Trial) -> Option<f64>) -> Bars {
    let mut bars = Bars::new(axis, Way::ALL.map(Way::name));
    for (mix, reads) in READS.into_iter().enumerate() {
        let values = Way::ALL.map(|way| value(data.trial(mix, way)));
        bars = bars.series(format!("{} reads", whole_percent(reads)), values);
    }
    bars
}
