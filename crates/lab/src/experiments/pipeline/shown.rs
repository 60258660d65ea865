//! The tables and charts of the pipeline's report.

use super::stages::Timed;
use super::{Pair, Scene};
use crate::chart::{Axis, Bars, Chart, Lines, Timeline};
use crate::experiments::paused::ms;
use crate::report::Table;

pub(super) fn speed(pairs: &[Pair], workers: usize) -> Table {
    let mut table = Table::new("All in place against each stage on its tier")
        .number("sensors", "", 0)
        .number("in place", "ms", 1)
        .number("on tiers", "ms", 1)
        .number("speedup", "×", 2)
        .number("expected", "×", 2)
        .number("mean", "", 4)
        .number("deviation", "", 4);
    for pair in pairs {
        table.row([
            pair.sensors.into(),
            ms(pair.naive.total).into(),
            ms(pair.correct.total).into(),
            pair.speedup().into(),
            pair.expected(workers).into(),
            pair.correct.aggregate.mean.into(),
            pair.correct.aggregate.deviation.into(),
        ]);
    }
    table
}

pub(super) fn stage_times(pairs: &[Pair]) -> Table {
    let mut table =
        Table::new("Where the time goes: added up in place, by the wall clock on tiers")
            .number("sensors", "", 0)
            .text("way")
            .number("fetch", "ms", 1)
            .number("normalise", "ms", 1)
            .number("store", "ms", 1)
            .number("total", "ms", 1);
    for pair in pairs {
        for (way, times) in [("in place", &pair.naive), ("on tiers", &pair.correct)] {
            let [fetch, normalise, store, total] =
                [times.fetch, times.normalise, times.store, times.total]
                    .map(|time| ms(time).into());
            table.row([pair.sensors.into(), way.into(), fetch, normalise, store, total]);
        }
    }
    table
}

pub(super) fn batches(scenes: &[Scene]) -> Table {
    let mut table = Table::new("Batches of 12, stored through a breaker")
        .text("the store")
        .number("batch", "", 0)
        .number("stored", "", 0)
        .number("failed", "", 0)
        .number("refused at once", "", 0);
    for scene in scenes {
        for (batch, stored) in scene.batches.iter().enumerate() {
            table.row([
                scene.name.into(),
                (batch + 1).into(),
                stored.successes.into(),
                stored.failures.into(),
                stored.fast_fails.into(),
            ]);
        }
    }
    table
}

pub(super) fn speed_chart(pairs: &[Pair]) -> Chart {
    let total = |times: &Timed| Some(ms(times.total));
    let sizes = pairs.iter().map(|pair| format!("{} sensors", pair.sensors));
    let bars = Bars::new(Axis::new("time", "ms").precision(0), sizes)
        .series("in place", pairs.iter().map(|pair| total(&pair.naive)))
        .series("on tiers", pairs.iter().map(|pair| total(&pair.correct)));
    Chart::new("Time for one reading of every sensor", bars)
}

pub(super) fn speedup_chart(pairs: &[Pair], workers: usize) -> Chart {
    let x = Axis::new("sensors", "").precision(0);
    let y = Axis::new("speedup", "×").to(1.0);
    let points = |value: &dyn Fn(&Pair) -> f64| {
        pairs.iter().map(|pair| (pair.sensors as f64, value(pair))).collect::<Vec<_>>()
    };
    let lines = Lines::new(x, y)
        .line("measured", points(&Pair::speedup))
        .line("from stage times", points(&|pair| pair.expected(workers)));
    Chart::new("The speedup, by the number of sensors", lines)
}

/// The three counts of a batch one after the other: a timeline over readings.
pub(super) fn batch_chart(scenes: &[Scene]) -> Chart {
    let kinds = ["stored", "failed", "refused at once"];
    let mut timeline = Timeline::new(Axis::new("readings", "").precision(0), kinds);
    for scene in scenes {
        for (batch, stored) in scene.batches.iter().enumerate() {
            let counts = [stored.successes, stored.failures, stored.fast_fails];
            let spans = counts.into_iter().enumerate().scan(0, |from, (kind, count)| {
                let span = (*from as f64, (*from + count) as f64, kind, count.to_string());
                *from += count;
                Some(span)
            });
            let spans: Vec<_> = spans.filter(|span| span.1 > span.0).collect();
            timeline = timeline.row(format!("{}: {}", scene.name, batch + 1), spans);
        }
    }
    Chart::new("What became of each batch of twelve readings", timeline)
}
