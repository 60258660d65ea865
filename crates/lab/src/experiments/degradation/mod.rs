//! Graceful degradation: five services in a row, A to E, and D becomes slow without dying.
//!
//! All guards are those of the guard crate, on a paused clock; services are threads and queues with a time of work.
//! The same users come under five sets of guards, from none to all.

mod chain;
mod day;
mod shown;

use std::time::Duration;

use chain::{DEADLINE, Guards, SERVICES};
use day::{DEEP, Day, Plan, RATE, Seen, Visit, play};

use super::paused::{self, ms};
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::Report;
use crate::report::number::{brief, count, counted, percent};

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "degradation",
    summary: "A→B→C→D→E and D is slow: what users see",
    timing: Timing::Simulated,
    run,
};

const NONE: Guards = Guards {
    timeouts: false,
    breaker: false,
    deadline: false,
    bulkhead: false,
    ladder: false,
    shedding: false,
};
const TIMEOUTS: Guards = Guards { timeouts: true, ..NONE };
const BREAKER: Guards = Guards { breaker: true, ..TIMEOUTS };
const BOUNDS: Guards = Guards { deadline: true, bulkhead: true, shedding: true, ..NONE };
const EVERY: Guards =
    Guards { deadline: true, bulkhead: true, ladder: true, shedding: true, ..BREAKER };
const STRATEGIES: [(&str, Guards); 5] = [
    ("no guards", NONE),
    ("timeouts", TIMEOUTS),
    ("breaker", BREAKER),
    ("bounds only", BOUNDS),
    ("all guards", EVERY),
];

/// A set of guards and what came of it.
struct Tried {
    name: &'static str,
    day: Day,
}

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let seconds = Duration::from_secs;
    let plan = settings.size(
        Plan { slow: [seconds(10), seconds(40)], ends: seconds(70) },
        Plan { slow: [seconds(5), seconds(20)], ends: seconds(35) },
    );
    let mut tried = Vec::new();
    for (index, (name, guards)) in STRATEGIES.into_iter().enumerate() {
        progress.step(name, index as u64, STRATEGIES.len() as u64)?;
        let day = paused::run(play(guards, plan, settings.seed_of(0)))?;
        tried.push(Tried { name, day });
    }
    let mut report = Report::new(
        EXPERIMENT.name,
        "One slow service in a chain of five",
        "A calls B, B calls C, C calls D, D calls E. D becomes a hundred times slower, but it still answers. Whoever \
         waits for it holds a thread, in every service before it, until there are none left: then A looks dead, also \
         to users who need nothing of D. Guards bound the wait, stop the calls, and serve something smaller instead.",
    );
    report.parameter("seed", settings.seed);
    report.parameter("users per second", RATE);
    report.parameter("need D", percent(DEEP));
    report.parameter("threads of A to E", "256, 192, 128, 64, 64");
    report.parameter("D takes", "20 ms, slow 2 s");
    report.parameter("D is slow from", format!("{} s", plan.slow[0].as_secs()));
    report.parameter("to", format!("{} s", plan.slow[1].as_secs()));
    report.parameter("in time is", "1 s");
    report.parameter("users leave after", "5 s");
    report.parameter("bounds only are", "deadline, bulkhead and shedding");
    report.tables.push(shown::users(&tried));
    report.tables.push(shown::kinds(&tried));
    report.tables.push(shown::saturation(&tried));
    report.tables.push(shown::acts(&tried));
    report.charts.push(shown::seen(&tried));
    report.charts.push(shown::goodput(&tried));
    report.charts.push(shown::waits(&tried));
    report.charts.push(shown::saturated(&tried));
    report.charts.push(shown::threads(&tried[0]));
    find(&mut report, &tried);
    report.lesson(
        "A slow part is worse than a dead one: nobody is told, everybody waits. Bound every wait, and let the deadline \
         travel with the call, so that nobody works for an answer that nobody waits for.",
    );
    report.lesson(
        "Decide before the trouble what a smaller answer is. A breaker without a fallback turns slow answers into \
         quick errors, which saves the services and not the users.",
    );
    judge(&mut report, &tried);
    Ok(report)
}

fn wait_ms(day: &Day, quantile: f64) -> f64 {
    let mut waits: Vec<Duration> = day.in_trouble().map(|visit| visit.waited).collect();
    ms(paused::quantile(&mut waits, quantile).unwrap_or_default())
}

fn helped_per_s(day: &Day) -> f64 {
    let span = day.plan.slow[1] - day.plan.slow[0];
    day.in_trouble().filter(|visit| visit.seen.is_good()).count() as f64 / span.as_secs_f64()
}

fn is_light(visit: &&Visit) -> bool {
    !visit.is_deep
}

fn find(report: &mut Report, tried: &[Tried]) {
    let [none, timeouts, breaker, bounds, every] = tried else {
        unreachable!("five sets of guards")
    };
    let slow = none.day.plan.slow[0];
    let mut order: Vec<(Duration, &str)> = (0..SERVICES.len())
        .filter_map(|service| Some((none.day.saturation(service).0?, SERVICES[service])))
        .collect();
    order.sort_by_key(|(at, service)| (*at, std::cmp::Reverse(*service)));
    let steps: Vec<String> = order
        .iter()
        .map(|(at, service)| format!("{service} after {} s", brief((*at - slow).as_secs_f64())))
        .collect();
    report.finding(match steps.is_empty() {
        true => "Without guards no service ran out of threads in this run.".into(),
        false => format!("Without guards threads run out backwards: {}.", steps.join(", ")),
    });
    report.finding(format!(
        "Without guards {} of the users who came while D was slow were helped in time, {} of them a second; half \
         waited {} s or longer.",
        percent(Day::share(none.day.in_trouble(), Seen::is_good)),
        brief(helped_per_s(&none.day)),
        brief(wait_ms(&none.day, 0.5) / 1e3),
    ));
    let light =
        |tried: &Tried| percent(Day::share(tried.day.in_trouble().filter(is_light), Seen::is_good));
    report.finding(format!(
        "Users who need nothing of D: {} were helped without guards, {} with timeouts, {} with all guards.",
        light(none),
        light(timeouts),
        light(every),
    ));
    let good = |tried: &Tried| percent(Day::share(tried.day.in_trouble(), Seen::is_good));
    report.finding(format!(
        "Timeouts help {} of all users and leave D with {} calls to work on; the breaker brings D down to {} calls and \
         p50 from {} ms to {} ms, and still only {} are helped: the others get their error sooner.",
        good(timeouts),
        count(timeouts.day.acts.worked_by_d),
        count(breaker.day.acts.worked_by_d),
        brief(wait_ms(&timeouts.day, 0.5)),
        brief(wait_ms(&breaker.day, 0.5)),
        good(breaker),
    ));
    report.finding(format!(
        "Bounds only (deadline, bulkhead and shedding) keep all users within {} ms and {} of them are helped: the \
         bulkhead refuses {} and the deadline ends {}.",
        brief(wait_ms(&bounds.day, 1.0)),
        good(bounds),
        counted(bounds.day.acts.bulkhead_refused, "call"),
        counted(bounds.day.acts.expired, "request"),
    ));
    let seen = |wanted: Seen| percent(Day::share(every.day.in_trouble(), |seen| seen == wanted));
    report.finding(format!(
        "With all guards {} get a full answer, {} a degraded one, {} an error, and {} wait too long; p99 is {} ms.",
        seen(Seen::Full),
        seen(Seen::Degraded),
        seen(Seen::Error),
        seen(Seen::TooLate),
        brief(wait_ms(&every.day, 0.99)),
    ));
    report.finding(format!(
        "When all stand, the ladder moved {}, the breaker opened {}, the bulkhead refused {}, the deadline ended {}, \
         and shedding turned {} away.",
        counted(every.day.acts.ladder_moves, "time"),
        counted(every.day.acts.breaker_opened, "time"),
        counted(every.day.acts.bulkhead_refused, "call"),
        counted(every.day.acts.expired, "request"),
        counted(every.day.acts.shed, "user"),
    ));
}

fn judge(report: &mut Report, tried: &[Tried]) {
    let every = &tried[STRATEGIES.len() - 1].day;
    let longest = every.visits.iter().map(|visit| visit.waited).max().unwrap_or_default();
    report.verdict(
        "the longest wait with all guards",
        format!("at most the deadline of {} ms", brief(ms(DEADLINE))),
        format!("{} ms", brief(ms(longest))),
        longest <= DEADLINE + Duration::from_millis(1),
    );
    let good = Day::share(every.in_trouble(), Seen::is_good);
    report.verdict(
        "users helped in time while D is slow, with all guards",
        "at least 99%",
        percent(good),
        good >= 0.99,
    );
    let light = Day::share(every.in_trouble().filter(is_light), |seen| seen == Seen::Full);
    report.verdict(
        "users who need nothing of D and get a full answer, with all guards",
        "at least 99%",
        percent(light),
        light >= 0.99,
    );
    let front = every.saturation(0).1 + every.saturation(1).1 + every.saturation(2).1;
    report.verdict(
        "time in which A, B or C has no free thread, with all guards",
        "0 s",
        format!("{} s", brief(front.as_secs_f64())),
        front.is_zero(),
    );
    let back = every.recovery();
    report.verdict(
        "only full answers again after D is well, with all guards",
        "within 10 s",
        back.map_or_else(
            || "not in this run".into(),
            |after| format!("{} s", brief(after.as_secs_f64())),
        ),
        back.is_some_and(|after| after <= Duration::from_secs(10)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::tried;

    #[test]
    fn claims_hold_for_any_seed_and_a_run_repeats() {
        for seed in 1..=3 {
            let report = tried(EXPERIMENT, seed);
            assert_eq!(report.met(), (5, 5), "{:?}", report.verdicts);
        }
        let [first, again] = [2, 2].map(|seed| serde_json::to_string(&tried(EXPERIMENT, seed)));
        assert_eq!(first.unwrap(), again.unwrap());
        assert_ne!(tried(EXPERIMENT, 2).tables, tried(EXPERIMENT, 3).tables);
    }

    fn played(guards: Guards) -> Day {
        let plan = Plan { slow: [5, 20].map(Duration::from_secs), ends: Duration::from_secs(30) };
        paused::run(play(guards, plan, 11)).unwrap()
    }

    #[test]
    fn without_guards_threads_run_out_from_d_backwards() {
        let day = played(NONE);
        let first = |service| day.saturation(service).0.unwrap();
        assert!(first(3) < first(2) && first(2) < first(1) && first(1) < first(0));
        assert_eq!(day.saturation(4).0, None, "E has nothing to do with it");
        let light = day.in_trouble().filter(is_light);
        assert!(Day::share(light, |seen| seen == Seen::TooLate) > 0.2, "they need no D");
        assert_eq!(day.acts, chain::Acts { worked_by_d: day.acts.worked_by_d, ..<_>::default() });
    }

    #[test]
    fn each_guard_does_its_part_and_users_add_up() {
        let [timeouts, breaker, bounds, every] = [TIMEOUTS, BREAKER, BOUNDS, EVERY].map(played);
        assert!(bounds.acts.bulkhead_refused > 0 && bounds.acts.expired > 0);
        assert!(timeouts.acts.timeouts > 0 && timeouts.acts.breaker_opened == 0);
        assert!(breaker.acts.breaker_refused > 0);
        assert!(breaker.acts.worked_by_d < timeouts.acts.worked_by_d);
        assert!(every.acts.from_cache > 0 && every.acts.ladder_moves > 0);
        for day in [&timeouts, &breaker, &bounds, &every] {
            assert_eq!(day.visits.len(), timeouts.visits.len());
            let shares = Seen::ALL.map(|one| Day::share(day.visits.iter(), |seen| seen == one));
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        }
        let full = Day::share(every.visits.iter().take(300), |seen| seen == Seen::Full);
        assert_eq!(full, 1.0, "before the trouble nobody notices the guards");
    }
}
