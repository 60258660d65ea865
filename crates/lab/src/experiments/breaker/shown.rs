//! The tables and charts of the breaker's report.

use std::time::Duration;

use divvy_guard::breaker::{State, Transition};

use super::service::{Call, Outcome};
use super::{Row, Trio, WAYS, hundred};
use crate::chart::{Axis, Bars, Chart, Timeline};
use crate::experiments::paused::ms;
use crate::report::Table;

/// The states of a breaker that runs by its rules, in the order of the legend.
const STATES: [State; 3] = [State::Closed, State::Open, State::HalfOpen];

type Span = (f64, f64, usize, String);

pub(super) fn calls(paced: &Trio) -> Table {
    let mut table = Table::new("Thirty calls, with a breaker and with the timeout alone")
        .number("call", "", 0)
        .number("at", "s", 2)
        .text("outcome")
        .number("took", "ms", 0)
        .text("state after")
        .text("with timeout")
        .number("took", "ms", 0);
    for (number, (with, without)) in
        paced.breaker.calls.iter().zip(&paced.timeout.calls).enumerate()
    {
        table.row([
            (number + 1).into(),
            with.began.as_secs_f64().into(),
            with.outcome.name().into(),
            ms(with.took).into(),
            with.state.name().into(),
            without.outcome.name().into(),
            ms(without.took).into(),
        ]);
    }
    table
}

pub(super) fn outcomes(paced: &Trio, rushed: &Trio) -> Table {
    let mut table = Table::new("What came of the thirty calls")
        .text("pause")
        .text("guards")
        .number("success", "", 0)
        .number("service error", "", 0)
        .number("timeout", "", 0)
        .number("circuit open", "", 0)
        .number("lost", "s", 2)
        .number("in all", "s", 2)
        .text("final state");
    for (pause, trio) in [("0.25 s", paced), ("none", rushed)] {
        for (run, (_, way)) in [&trio.bare, &trio.timeout, &trio.breaker].into_iter().zip(WAYS) {
            let last = run.calls.last().map_or("", |call| call.state.name());
            let state = if way == WAYS[2].1 { last } else { "–" };
            let [success, error, timeout, refused] = Outcome::ALL.map(|one| run.count(one).into());
            table.row([
                pause.into(),
                way.into(),
                success,
                error,
                timeout,
                refused,
                run.lost().as_secs_f64().into(),
                run.ended.as_secs_f64().into(),
                state.into(),
            ]);
        }
    }
    table
}

pub(super) fn many(rows: &[Row]) -> Table {
    let mut table = Table::new("Means per run: thirty calls by chance, or 30 s with an outage")
        .text("the service")
        .text("guards")
        .number("runs", "", 0)
        .number("calls", "", 1)
        .number("success", "", 1)
        .number("circuit open", "", 1)
        .number("these in error", "", 1)
        .number("time lost", "s", 2);
    for Row { service, way, sums } in rows {
        table.row([
            (*service).into(),
            (*way).into(),
            sums.runs.into(),
            sums.each(sums.calls).into(),
            sums.each(sums.outcomes[0]).into(),
            sums.each(sums.outcomes[3]).into(),
            sums.each(sums.refused_in_error).into(),
            sums.lost_s().into(),
        ]);
    }
    table
}

pub(super) fn metrics(hundred: &hundred::Run) -> Table {
    let mut table = Table::new(
        "A hundred calls at 30% failures, one per second: opens at half of the calls or 3 in a row, for 30 s",
    )
    .number("calls", "", 0)
    .text("state")
    .number("success", "", 0)
    .number("failed", "", 0)
    .number("refused", "", 0)
    .number("failure rate", "%", 0)
    .number("in a row", "", 0)
    .number("opened", "", 0)
    .number("open for", "s", 1);
    for (index, metrics) in hundred.metrics.iter().enumerate() {
        table.row([
            ((index + 1) * hundred::EVERY).into(),
            metrics.state.name().into(),
            metrics.successes.into(),
            metrics.failures.into(),
            metrics.rejected.into(),
            (metrics.failure_rate * 100.0).into(),
            metrics.consecutive_failures.into(),
            metrics.opened.into(),
            metrics.spent_in(State::Open).as_secs_f64().into(),
        ]);
    }
    table
}

pub(super) fn timeline(paced: &Trio, rushed: &Trio) -> Chart {
    let kinds = STATES.map(State::name).into_iter().chain(Outcome::ALL.map(Outcome::name));
    let mut timeline = Timeline::new(Axis::new("time", "s"), kinds);
    for (pause, trio) in [("0.25 s apart", paced), ("no pause", rushed)] {
        let run = &trio.breaker;
        timeline = timeline
            .row(format!("{pause}: state"), states(&run.changes, run.ended))
            .row("calls with a breaker", run.calls.iter().map(span))
            .row("calls with a timeout", trio.timeout.calls.iter().map(span));
    }
    Chart::new("The state of the breaker, and the calls", timeline)
        .note("A call that is refused takes no time; it is drawn as a thin line.")
}

pub(super) fn hundred_timeline(run: &hundred::Run) -> Chart {
    let timeline = Timeline::new(Axis::new("time", "s"), STATES.map(State::name))
        .row("state", states(&run.changes, run.ended));
    Chart::new("The state of the breaker over a hundred calls at 30% failures", timeline)
}

pub(super) fn lost(rows: &[Row]) -> Chart {
    let services = [rows[0].service, rows[WAYS.len()].service];
    let mut bars = Bars::new(Axis::new("time lost per run", "s").precision(2), services);
    for (index, (_, way)) in WAYS.into_iter().enumerate() {
        let values = [index, index + WAYS.len()].map(|row| Some(rows[row].sums.lost_s()));
        bars = bars.series(way, values);
    }
    Chart::new("Time lost in calls that brought nothing, per run", bars)
}

/// Which state it was in from when to when, from closed at the start.
fn states(changes: &[Transition], ended: Duration) -> Vec<Span> {
    let ends = changes.iter().map(|change| change.at).chain([ended]);
    let states = [State::Closed].into_iter().chain(changes.iter().map(|change| change.to));
    let starts = [Duration::ZERO].into_iter().chain(changes.iter().map(|change| change.at));
    let spans = starts.zip(ends).zip(states).map(|((from, to), state)| {
        let kind = STATES.iter().position(|known| *known == state);
        let kind = kind.expect("nobody forces this breaker");
        (from.as_secs_f64(), to.as_secs_f64(), kind, state.name().to_owned())
    });
    spans.collect()
}

fn span(call: &Call) -> Span {
    let kind = Outcome::ALL.iter().position(|outcome| *outcome == call.outcome);
    let kind = STATES.len() + kind.expect("the list has every outcome");
    let end = call.began + call.took;
    (call.began.as_secs_f64(), end.as_secs_f64(), kind, String::new())
}
