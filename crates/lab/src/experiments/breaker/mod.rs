//! The circuit breaker: thirty calls of a service that works, fails or hangs, with and without a breaker.
//!
//! The breaker and its shell are those of the guard crate, on a paused clock. One run is told call by call; many runs
//! say what a breaker gains and what it costs, for a service that fails by chance and for one that is down for a while.

mod hundred;
mod service;
mod shown;

use std::time::Duration;

use divvy_guard::breaker::{Cause, Metrics, State, Transition};
use service::{Outcome, Run, Service, Until, Way};

use super::paused;
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::Report;
use crate::report::number::{brief, count, counted, percent};

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "breaker",
    summary: "30 calls of a flaky service: outcomes and states",
    timing: Timing::Simulated,
    run,
};

const CALLS: usize = 30;
/// After each call, where callers pause.
const PAUSE: Duration = Duration::from_millis(250);
/// How long the service that breaks down is called.
const WATCH: Duration = Duration::from_secs(30);
/// Draws among which the run is looked for that is told call by call.
const DRAWS_MAX: u64 = 50;
const WAYS: [(Way, &str); 3] =
    [(Way::Bare, "none"), (Way::Timeout, "timeout"), (Way::Breaker, "breaker")];

/// The same calls in every way.
struct Trio {
    bare: Run,
    timeout: Run,
    breaker: Run,
}

/// Sums over many runs of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sums {
    runs: usize,
    calls: usize,
    outcomes: [usize; 4],
    lost: Duration,
    opened: usize,
    refused_in_error: usize,
    refused_longest: Duration,
    /// Openings that were neither three failures in a row nor a probe that failed.
    opened_otherwise: usize,
    /// Runs whose outcomes do not add up to their calls.
    miscounted: usize,
    /// Calls that took as long as the service hangs.
    hung: usize,
}

/// One kind of service, pace and way, over many runs.
struct Row {
    service: &'static str,
    way: &'static str,
    sums: Sums,
}

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let trials = settings.size(200, 25);
    let seed = settings.seed_of(0);
    progress.step("thirty calls", 0, trials + 1)?;
    let (draw, service, paced) = told(seed)?;
    let rushed = paused::run(trio(&service, Duration::ZERO))?;
    let (mut rows, mut hundreds) = (rows(), Vec::new());
    for trial in 0..trials {
        progress.step("many runs", trial + 1, trials + 1)?;
        let flaky = Service::flaky(CALLS, settings.seed_of(100 + trial));
        paused::run(add_trial(&mut rows, &flaky))?;
        hundreds.push(paused::run(hundred::call(settings.seed_of(100 + trial)))?);
    }
    let hundred = &hundreds[0];

    let mut report = Report::new(
        EXPERIMENT.name,
        "A circuit breaker before a flaky service",
        "A service works six times in ten, fails three times and hangs once. A caller without a breaker waits for it \
         again and again. A breaker that has seen three failures in a row refuses calls at once, and lets one through \
         now and then to see whether the service is back.",
    );
    report.parameter("seed", settings.seed);
    report.parameter("calls", CALLS);
    report.parameter("pause after a call", "0.25 s");
    report.parameter("the service answers in", "20 ms");
    report.parameter("it hangs for", "3 s");
    report.parameter("outer timeout", "1 s");
    report.parameter("opens after failures in a row", 3u64);
    report.parameter("reset after", "2 s");
    report.parameter("probe timeout", "0.5 s");
    report.parameter(
        "run that is told",
        format!("draw {draw}, the first in which the breaker opens and closes again"),
    );
    report.parameter("runs", trials);
    report.tables.push(shown::calls(&paced));
    report.tables.push(shown::outcomes(&paced, &rushed));
    report.tables.push(shown::many(&rows));
    report.tables.push(shown::metrics(hundred));
    report.charts.push(shown::timeline(&paced, &rushed));
    report.charts.push(shown::lost(&rows));
    report.charts.push(shown::hundred_timeline(hundred));
    find_in_run(&mut report, &paced, &rushed);
    find_in_all(&mut report, &rows, &hundreds);
    report.lesson(
        "A breaker is for parts that are down or too slow, not for parts that fail now and then: it cannot know which \
         of the refused calls would have gone well. For single failures, retry.",
    );
    report.lesson(
        "Count the calls that the caller gave up as failures (cancelled_fails_after); else a service that hangs never \
         opens the breaker.",
    );
    judge(&mut report, &rows, [&paced.breaker, &rushed.breaker]);
    Ok(report)
}

/// The first draw in which the breaker opens and closes again: it goes through every state. If there is none, the last.
fn told(seed: u64) -> Result<(u64, Service, Trio), Error> {
    let mut draw = 1;
    loop {
        let service = Service::flaky(CALLS, seed.wrapping_add(draw));
        let paced = paused::run(trio(&service, PAUSE))?;
        let closes_again = |change: &Transition| change.cause == Cause::ProbesSucceeded;
        if paced.breaker.changes.iter().any(closes_again) || draw == DRAWS_MAX {
            return Ok((draw, service, paced));
        }
        draw += 1;
    }
}

async fn trio(service: &Service, pause: Duration) -> Trio {
    Trio {
        bare: service::call(service, Way::Bare, Until::Calls(CALLS), pause).await,
        timeout: service::call(service, Way::Timeout, Until::Calls(CALLS), pause).await,
        breaker: service::call(service, Way::Breaker, Until::Calls(CALLS), pause).await,
    }
}

fn rows() -> Vec<Row> {
    let services = ["fails by chance", "down for 10 s"];
    let rows = services.into_iter().flat_map(|service| WAYS.map(|(_, way)| (service, way)));
    rows.map(|(service, way)| Row { service, way, sums: Sums::default() }).collect()
}

/// One run of every row. The service that breaks down needs no chance, so it runs once only.
async fn add_trial(rows: &mut [Row], flaky: &Service) {
    let services = [(flaky, Until::Calls(CALLS)), (&Service::Down, Until::Time(WATCH))];
    for (index, row) in rows.iter_mut().enumerate() {
        let ((service, until), (way, _)) = (services[index / WAYS.len()], WAYS[index % WAYS.len()]);
        if index >= WAYS.len() && row.sums.runs > 0 {
            continue;
        }
        row.sums.add(&service::call(service, way, until, PAUSE).await);
    }
}

impl Sums {
    fn add(&mut self, run: &Run) {
        self.runs += 1;
        let counts = Outcome::ALL.map(|outcome| run.count(outcome));
        self.calls += run.calls.len();
        self.miscounted += usize::from(counts.iter().sum::<usize>() != run.calls.len());
        for (sum, count) in self.outcomes.iter_mut().zip(counts) {
            *sum += count;
        }
        self.lost += run.lost();
        self.opened += usize::from(!run.changes.is_empty());
        self.refused_in_error += run.refused_in_error();
        self.refused_longest = self.refused_longest.max(run.refused_longest().unwrap_or_default());
        let known = [
            Cause::ConsecutiveFailures,
            Cause::ProbeFailed,
            Cause::ProbeTimedOut,
            Cause::Recovery,
            Cause::ProbesSucceeded,
        ];
        let other = run.changes.iter().filter(|change| !known.contains(&change.cause));
        self.opened_otherwise += other.count();
        self.hung += run.calls.iter().filter(|call| call.took >= service::HANG).count();
    }

    fn each(&self, sum: usize) -> f64 {
        sum as f64 / self.runs.max(1) as f64
    }

    fn lost_s(&self) -> f64 {
        self.lost.as_secs_f64() / self.runs.max(1) as f64
    }
}

fn find_in_run(report: &mut Report, paced: &Trio, rushed: &Trio) {
    let run = &paced.breaker;
    let first_open = run.calls.iter().position(|call| call.state.keeps_away());
    report.finding(match first_open {
        None => "In this run no three calls in a row failed, so the breaker stayed closed.".into(),
        Some(call) => format!(
            "The breaker opened at call {}, after three failures in a row. Of the {} calls after it, {} were refused, \
             each in {} ms; no call took longer than {} s.",
            call + 1,
            CALLS - call - 1,
            run.count(Outcome::Refused),
            brief(paused::ms(run.refused_longest().unwrap_or_default())),
            brief(run.calls.iter().map(|call| call.took.as_secs_f64()).fold(0.0, f64::max)),
        ),
    });
    let lost = |run: &Run| brief(run.lost().as_secs_f64());
    report.finding(format!(
        "Calls that brought nothing cost {} s with neither guard, {} s with the timeout alone, and {} s with the \
         breaker.",
        lost(&paced.bare),
        lost(&paced.timeout),
        lost(run),
    ));
    let (fewer, refused) = (
        paced.timeout.count(Outcome::Success).saturating_sub(run.count(Outcome::Success)),
        run.count(Outcome::Refused),
    );
    if refused > 0 {
        report.finding(format!(
            "The price: {} successes instead of {}, because {} of the {} refused calls would have been answered.",
            run.count(Outcome::Success),
            run.count(Outcome::Success) + fewer,
            run.refused_in_error(),
            refused,
        ));
    }
    let rushed = &rushed.breaker;
    let refused = rushed.count(Outcome::Refused);
    if refused > 0 {
        report.finding(format!(
            "Without a pause between calls, {refused} of {CALLS} were refused and the run was over after {} s: refused \
             calls take no time, so a caller that does not wait spends its calls before the reset time has passed.",
            brief(rushed.ended.as_secs_f64()),
        ));
    }
}

fn find_in_all(report: &mut Report, rows: &[Row], hundreds: &[hundred::Run]) {
    let [_, timeout, breaker, _, down_timeout, down_breaker] = rows else {
        unreachable!("two services in three ways")
    };
    let refused = breaker.sums.outcomes[3];
    report.finding(format!(
        "Over {}, with failures by chance, the breaker opened in {} of them and {} of the refused calls would have \
         been answered: {} successes per run instead of {}, for {} s lost instead of {} s.",
        counted(breaker.sums.runs as u64, "run"),
        count(breaker.sums.opened as u64),
        percent(breaker.sums.refused_in_error as f64 / refused.max(1) as f64),
        brief(breaker.sums.each(breaker.sums.outcomes[0])),
        brief(timeout.sums.each(timeout.sums.outcomes[0])),
        brief(breaker.sums.lost_s()),
        brief(timeout.sums.lost_s()),
    ));
    let refused = down_breaker.sums.outcomes[3];
    report.finding(format!(
        "With a service that is down for 10 s of 30 s, {} of {} refused calls would have been answered: {} successes \
         instead of {}, and the time lost went from {} s to {} s.",
        down_breaker.sums.refused_in_error,
        refused,
        down_breaker.sums.outcomes[0],
        down_timeout.sums.outcomes[0],
        brief(down_timeout.sums.lost_s()),
        brief(down_breaker.sums.lost_s()),
    ));
    find_in_hundreds(report, hundreds);
}

fn find_in_hundreds(report: &mut Report, hundreds: &[hundred::Run]) {
    let hundred = &hundreds[0];
    let last = hundred.metrics.last().expect("a hundred calls give ten rows");
    report.finding(format!(
        "At 30% failures, of a hundred calls one second apart {} succeeded, {} failed and {} were refused ({} of which \
         would have been answered); the breaker opened {} and was open for {} s.",
        last.successes,
        last.failures,
        last.rejected,
        hundred.refused_in_error,
        counted(last.opened, "time"),
        brief(last.spent_in(State::Open).as_secs_f64()),
    ));
    let last = |run: &hundred::Run| *run.metrics.last().expect("a hundred calls give ten rows");
    let mean = |count: fn(&Metrics) -> u64| {
        paused::mean(hundreds.iter().map(|run| count(&last(run)) as f64))
    };
    report.finding(format!(
        "Over {} of a hundred such calls, on average {} succeeded, {} failed and {} were refused; the breaker opened \
         in {} of them, although the service is 70% well.",
        counted(hundreds.len() as u64, "run"),
        brief(mean(|metrics| metrics.successes)),
        brief(mean(|metrics| metrics.failures)),
        brief(mean(|metrics| metrics.rejected)),
        count(hundreds.iter().filter(|run| last(run).opened > 0).count() as u64),
    ));
}

fn judge(report: &mut Report, rows: &[Row], told: [&Run; 2]) {
    let guarded = || rows.iter().filter(|row| row.way == WAYS[2].1).map(|row| &row.sums);
    let refused: usize = guarded().map(|sums| sums.outcomes[3]).sum();
    let longest = guarded().map(|sums| sums.refused_longest);
    let longest = longest
        .chain(told.iter().filter_map(|run| run.refused_longest()))
        .max()
        .unwrap_or_default();
    report.verdict(
        "the longest of all refused calls",
        "0 ms",
        format!("{} ms, of {} refused", brief(paused::ms(longest)), count(refused as u64)),
        longest.is_zero() && refused > 0,
    );
    let hung: usize = guarded().map(|sums| sums.hung).sum();
    report.verdict("calls through the breaker that hang for 3 s", "0", hung.to_string(), hung == 0);
    let otherwise: usize = guarded().map(|sums| sums.opened_otherwise).sum();
    report.verdict(
        "changes of state for any other reason than the rule, the reset time or a probe",
        "0",
        otherwise.to_string(),
        otherwise == 0,
    );
    let miscounted: usize = rows.iter().map(|row| row.sums.miscounted).sum();
    report.verdict(
        "runs whose outcomes do not add up",
        "0",
        miscounted.to_string(),
        miscounted == 0,
    );
}

#[cfg(test)]
mod tests;
