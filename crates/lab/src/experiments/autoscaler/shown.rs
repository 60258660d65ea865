//! The tables and charts of the autoscaler's report.

use super::{CLAIRVOYANT, HPA, OURS, Played, Row};
use crate::chart::{Axis, Bars, Chart, Lines, Mark};
use crate::report::Table;

/// Hours of a timeline: the first scored day.
const HOURS: f64 = 24.0;

pub(super) fn table(played: &Played) -> Table {
    let (name, about) = (played.scenario.name(), played.scenario.about());
    let mut table = Table::new(format!("{name}: {about}"))
        .text("who decides")
        .number("cost ÷ work alone", "", 3)
        .number("violations", "%", 3)
        .number("changes per day", "", 1);
    for row in &played.rows {
        table.row([
            row.name.into(),
            row.cost().into(),
            row.violations().into(),
            row.actions().into(),
        ]);
    }
    table
}

pub(super) fn costs(played: &[Played]) -> Chart {
    let axis = Axis::new("cost over work alone", "×").precision(2);
    Chart::new(
        "What it costs",
        compared(played, axis, Row::cost).mark(Mark::new(1.0, "no idle time")),
    )
}

pub(super) fn violations(played: &[Played]) -> Chart {
    let axis = Axis::new("tasks that start late", "%").precision(3);
    Chart::new("What is late", compared(played, axis, Row::violations))
}

fn compared(played: &[Played], axis: Axis, value: fn(&Row) -> f64) -> Bars {
    let mut bars = Bars::new(axis, played.iter().map(|one| one.scenario.name()));
    for place in [OURS, HPA, CLAIRVOYANT] {
        let name = played[0].rows[place].name;
        bars = bars.series(name, played.iter().map(|one| Some(value(&one.rows[place]))));
    }
    bars
}

/// What was needed, wanted and there on the first scored day of the first seed.
pub(super) fn timeline(played: &Played) -> Chart {
    let x = Axis::new("hour of the day", "h").precision(0).to(HOURS);
    let mut lines = Lines::new(x, Axis::new("workers", "").precision(0));
    let day = |row: &Row, value: fn(&crate::sim::fleet::Point) -> f64| -> Vec<(f64, f64)> {
        let points = row.runs.first().into_iter().flat_map(|run| &run.points);
        points.filter(|point| point.hour < HOURS).map(|point| (point.hour, value(point))).collect()
    };
    let (ours, hpa) = (&played.rows[OURS], &played.rows[HPA]);
    lines = lines
        .steps("HPA-70 runs", day(hpa, |point| point.running))
        .steps("ours wants", day(ours, |point| point.wanted))
        .steps("ours runs", day(ours, |point| point.running))
        .steps("needed", day(ours, |point| point.needed));
    Chart::new(format!("Workers over a day: {}", played.scenario.name()), lines)
        .note("Needed is the rate of arrival over what a worker does; the first scored day of the first seed.")
}
