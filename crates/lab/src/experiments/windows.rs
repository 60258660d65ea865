//! Windows over events that come out of order: what lateness costs and what it saves, and a source that stalls.
//!
//! The real watermarks and windows get a simulated stream: each event happens at its time and arrives after a delay, most of
//! them soon, some of them long after. The clock is that of arrivals.

use std::convert::Infallible;

use divvy_kernels::aggregate::{Damaged, put_number, take_number};
use divvy_kernels::window::{Aggregate, Spec, Taken, Trigger, Watermarks, Windows};

use crate::chart::{Axis, Chart, Lines};
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::number::{count, decimal, percent};
use crate::report::{Report, Table};

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "windows",
    summary: "late events lost by lateness, and a stalled source",
    timing: Timing::Simulated,
    run,
};

/// Events of a full and of a quick run.
const EVENTS: (u64, u64) = (2_000_000, 60_000);
const SOURCES: usize = 4;
const WINDOW_MS: i64 = 10_000;
const KEYS: u64 = 100;
/// Between two events.
const STEP_US: u64 = 1_000;
/// No event is later than this.
const DELAY_MS_MAX: i64 = 30_000;
const LATENESS_MS: [i64; 7] = [0, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000];
/// The lateness of the runs with a source that stalls.
const STALL_LATENESS_MS: i64 = 5_000;
/// The stall, as shares of the run.
const STALL: (f64, f64) = (0.3, 0.7);
const IDLE_MS: u64 = 5_000;

/// One event of the simulated stream.
#[derive(Clone, Copy, Debug)]
struct Event {
    arrives_ms: i64,
    happened_ms: i64,
    source: usize,
    key: u64,
}

/// What became of a stream.
#[derive(Clone, Debug, Default)]
struct Outcome {
    events: u64,
    late: u64,
    counted: u64,
    /// Results of windows that were closed by the watermark, not by the end of the stream.
    results: u64,
    /// How long after its end a window spoke, added up, and at most.
    waited_ms: i64,
    waited_most_ms: i64,
    states_most: usize,
}

impl Outcome {
    fn late_share(&self) -> f64 {
        self.late as f64 / self.events.max(1) as f64
    }

    fn waited_s(&self) -> f64 {
        self.waited_ms as f64 / self.results.max(1) as f64 / 1e3
    }
}

/// Counts.
struct Count;

impl Aggregate for Count {
    type State = u64;

    fn start(&self) -> u64 {
        0
    }

    fn merge(&self, into: &mut u64, from: u64) {
        *into += from;
    }

    fn save(&self, state: &u64, out: &mut Vec<u8>) {
        put_number(*state, out);
    }

    fn load(&self, from: &mut &[u8]) -> Result<u64, Damaged> {
        take_number(from)
    }
}

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let events = settings.size(EVENTS.0, EVENTS.1);
    let steps = LATENESS_MS.len() as u64 + 2;
    let stream = stream(events, settings.seed_of(0));
    let mut by_lateness = Vec::new();
    for (done, lateness_ms) in (0..).zip(LATENESS_MS) {
        progress.step("lateness", done, steps)?;
        by_lateness.push((lateness_ms, play(&stream, lateness_ms, None)));
    }
    let stalled = stall(&stream);
    progress.step("a source stalls", steps - 2, steps)?;
    let waiting = play(&stalled, STALL_LATENESS_MS, None);
    progress.step("a source stalls and is left out", steps - 1, steps)?;
    let left_out = play(&stalled, STALL_LATENESS_MS, Some(IDLE_MS));

    let mut report = Report::new(
        EXPERIMENT.name,
        "Windows and late events",
        "Events arrive some time after they happened, so a window has to stay open for a while after its end. How long \
         decides how many events come too late, and how late and how large everything else is. A source that falls \
         silent would hold all windows open, unless it is left out after a while.",
    );
    report.parameter("seed", settings.seed);
    report.parameter("events", events);
    report.parameter("sources", SOURCES as u64);
    report.parameter("windows", format!("{} s, one after the other", WINDOW_MS / 1_000));
    report.parameter("delays", "0.5 s on average; of a fifth of the events 5 s; at most 30 s");
    report.tables.push(lateness_table(&by_lateness));
    report.tables.push(stall_table(&waiting, &left_out));
    report.charts.push(chart(&by_lateness));
    find(&mut report, &by_lateness, &waiting, &left_out);
    judge(&mut report, &by_lateness, &waiting, &left_out);
    Ok(report)
}

/// Events in the order of their arrival.
fn stream(events: u64, seed: u64) -> Vec<Event> {
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut stream: Vec<Event> = (0..events)
        .map(|nth| {
            let happened_ms = (nth * STEP_US / 1_000) as i64;
            let mean_ms = if chance.u8(0..5) == 0 { 5_000.0 } else { 500.0 };
            let delay = -(1.0 - chance.f64()).ln() * mean_ms;
            let arrives_ms = happened_ms + (delay as i64).min(DELAY_MS_MAX);
            Event {
                arrives_ms,
                happened_ms,
                source: chance.usize(0..SOURCES),
                key: chance.u64(0..KEYS),
            }
        })
        .collect();
    stream.sort_by_key(|event| event.arrives_ms);
    stream
}

/// The same stream, with one source whose events all wait until the stall is over.
fn stall(stream: &[Event]) -> Vec<Event> {
    let end = stream.last().map_or(0, |event| event.arrives_ms) as f64;
    let (from, until) = ((end * STALL.0) as i64, (end * STALL.1) as i64);
    let mut stalled = stream.to_vec();
    for event in stalled.iter_mut().filter(|event| event.source == 0) {
        if (from..until).contains(&event.arrives_ms) {
            event.arrives_ms = until;
        }
    }
    stalled.sort_by_key(|event| event.arrives_ms);
    stalled
}

fn play(stream: &[Event], lateness_ms: i64, idle_ms: Option<u64>) -> Outcome {
    let mut marks = Watermarks::new(lateness_ms, idle_ms);
    (0..SOURCES).for_each(|_| {
        marks.join(0);
    });
    let mut windows = Windows::new(Spec::Tumbling { size_ms: WINDOW_MS }, Trigger::Close, Count);
    let mut outcome = Outcome { events: stream.len() as u64, ..Outcome::default() };
    let mut now = 0;
    for event in stream {
        now = event.arrives_ms;
        let add = |state: &mut u64| {
            *state += 1;
            Ok::<(), Infallible>(())
        };
        let Ok(taken) = windows.add(event.happened_ms, &event.key.to_le_bytes(), add, |_| {});
        outcome.late += u64::from(taken == Taken::Late);
        let clock = now.unsigned_abs();
        marks.observe(event.source, event.happened_ms, clock);
        advance(&mut windows, marks.current(clock), Some(now), &mut outcome);
    }
    (0..SOURCES).for_each(|source| marks.end(source));
    advance(&mut windows, marks.current(now.unsigned_abs()), None, &mut outcome);
    outcome
}

/// Closes windows. Those that the end of the stream closes speak at no time of their own.
fn advance(windows: &mut Windows<Count>, watermark: i64, now: Option<i64>, outcome: &mut Outcome) {
    if watermark <= windows.watermark() {
        return;
    }
    outcome.states_most = outcome.states_most.max(windows.states());
    windows.advance(watermark, |fired| {
        outcome.counted += fired.events;
        if let Some(now) = now {
            let waited = now - fired.end_ms;
            outcome.results += 1;
            outcome.waited_ms += waited;
            outcome.waited_most_ms = outcome.waited_most_ms.max(waited);
        }
    });
}

fn lateness_table(data: &[(i64, Outcome)]) -> Table {
    let mut table = Table::new("What lateness costs and saves")
        .number("lateness", "s", 0)
        .number("late events", "", 0)
        .number("of all", "%", 2)
        .number("results wait", "s", 1)
        .number("at most", "s", 1)
        .number("states kept, at most", "", 0);
    for (lateness_ms, outcome) in data {
        table.row([
            (*lateness_ms as f64 / 1e3).into(),
            outcome.late.into(),
            (outcome.late_share() * 100.0).into(),
            outcome.waited_s().into(),
            (outcome.waited_most_ms as f64 / 1e3).into(),
            (outcome.states_most as u64).into(),
        ]);
    }
    table
}

fn stall_table(waiting: &Outcome, left_out: &Outcome) -> Table {
    let mut table = Table::new("One of four sources stalls for two fifths of the time")
        .text("the silent source")
        .number("late events", "", 0)
        .number("of all", "%", 2)
        .number("results wait", "s", 1)
        .number("at most", "s", 1)
        .number("states kept, at most", "", 0);
    for (name, outcome) in [("is waited for", waiting), ("is left out after 5 s", left_out)] {
        table.row([
            name.into(),
            outcome.late.into(),
            (outcome.late_share() * 100.0).into(),
            outcome.waited_s().into(),
            (outcome.waited_most_ms as f64 / 1e3).into(),
            (outcome.states_most as u64).into(),
        ]);
    }
    table
}

fn chart(data: &[(i64, Outcome)]) -> Chart {
    let x = |lateness_ms: i64| lateness_ms as f64 / 1e3;
    let lines =
        Lines::new(Axis::new("lateness", "s").precision(0), Axis::new("", "% or s").precision(1))
            .line(
                "late events, %",
                data.iter().map(|(ms, outcome)| (x(*ms), outcome.late_share() * 100.0)),
            )
            .line("results wait, s", data.iter().map(|(ms, outcome)| (x(*ms), outcome.waited_s())));
    Chart::new("Late events against late results", lines)
        .note("Each second of lateness is a second that every result waits.")
}

fn find(report: &mut Report, data: &[(i64, Outcome)], waiting: &Outcome, left_out: &Outcome) {
    let (none, some) = (&data[0].1, &data[3].1);
    report.finding(format!(
        "Without lateness {} of all events come too late for their window; with 5 s {}, and results wait {} s instead of {} s.",
        percent(none.late_share()),
        percent(some.late_share()),
        decimal(some.waited_s(), 1),
        decimal(none.waited_s(), 1),
    ));
    report.finding(format!(
        "A source that stalls holds every result up for {} s at most and {} states in memory; left out after {} s, it costs {} \
         late events, and results wait {} s at most.",
        decimal(waiting.waited_most_ms as f64 / 1e3, 0),
        count(waiting.states_most as u64),
        IDLE_MS / 1_000,
        count(left_out.late.saturating_sub(waiting.late)),
        decimal(left_out.waited_most_ms as f64 / 1e3, 0),
    ));
    report.lesson(
        "Lateness buys completeness with delay and memory, second for second. Choose it from the delays that were measured, \
         keep what is late in an output of its own, and give every source an idle time.",
    );
}

fn judge(report: &mut Report, data: &[(i64, Outcome)], waiting: &Outcome, left_out: &Outcome) {
    let all = data.iter().map(|(_, outcome)| outcome).chain([waiting, left_out]);
    let lost: u64 = all.map(|outcome| outcome.events - outcome.counted - outcome.late).sum();
    report.verdict("events neither counted nor late", "none", count(lost), lost == 0);
    let last = &data[data.len() - 1].1;
    report.verdict(
        "late events with the longest delay as lateness",
        "none",
        count(last.late),
        last.late == 0,
    );
    let met = left_out.waited_most_ms * 2 <= waiting.waited_most_ms;
    report.verdict(
        "the longest wait with an idle time",
        "at most half of that without",
        format!("{} s", decimal(left_out.waited_most_ms as f64 / 1e3, 1)),
        met,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::tried;

    #[test]
    fn more_lateness_means_fewer_late_events_and_later_results() {
        let report = tried(EXPERIMENT, 3);
        assert_eq!(report.met(), (3, 3), "{:?}", report.verdicts);
        assert_eq!(report, tried(EXPERIMENT, 3), "the same seed gives the same report");
        let stream = stream(60_000, 5);
        let outcomes = LATENESS_MS.map(|lateness_ms| play(&stream, lateness_ms, None));
        for pair in outcomes.windows(2) {
            assert!(pair[0].late >= pair[1].late);
        }
        assert!(outcomes[0].late > 0 && outcomes[0].waited_s() < outcomes[3].waited_s());
    }
}
