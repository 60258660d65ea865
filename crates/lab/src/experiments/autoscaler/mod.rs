//! How many workers: every policy of the autoscaler, the rule of the exercise, the rules of Kubernetes and somebody who knows
//! the future, under the same tasks.
//!
//! The load, the workers and their start are those of the exercise; seven situations make it harder. The constants of the
//! policies were chosen with other seeds ([`scenarios::TUNING`]) than those that are scored here.

mod scenarios;
mod shown;

use scenarios::{BOOT_SEC, MAX, MIN, PER_WORKER, RULES, Scenario, TUNING, WITHIN_SEC, scored};

use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::Report;
use crate::report::number::{brief, decimal};
use crate::sim::fleet::Outcome;

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "autoscaler",
    summary: "how many workers: cost and lateness of each policy",
    timing: Timing::Simulated,
    run,
};

/// Where ours, and what it is compared with, stand in [`RULES`].
const OURS: usize = 0;
const HPA: usize = 5;
const CLAIRVOYANT: usize = 7;
/// What ours may cost on the day of the exercise, of the work alone.
const COST_MAX: f64 = 1.10;

/// One rule in one situation, over all seeds.
struct Row {
    name: &'static str,
    runs: Vec<Outcome>,
}

/// One situation.
struct Played {
    scenario: Scenario,
    rows: Vec<Row>,
}

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let seeds: Vec<u64> = scored(settings.seed, settings.size(5, 1)).collect();
    let quick = [Scenario::Steps, Scenario::Bursts];
    let scenarios = settings.size(&Scenario::ALL[..], &quick[..]);
    let mut played = Vec::new();
    for (place, scenario) in scenarios.iter().enumerate() {
        let mut rows: Vec<Row> =
            RULES.iter().map(|(name, _)| Row { name, runs: Vec::new() }).collect();
        for (number, seed) in seeds.iter().enumerate() {
            let traffic = scenario.traffic(*seed);
            let done = (place * seeds.len() + number) as u64;
            let total = (scenarios.len() * seeds.len()) as u64;
            progress.step(scenario.name(), done, total)?;
            // Nobody shares anything with another, so they can be played at once.
            std::thread::scope(|scope| {
                for (row, (_, decides)) in rows.iter_mut().zip(RULES) {
                    let traffic = &traffic;
                    scope.spawn(move || row.runs.push(scenario.play(decides, *seed, traffic)));
                }
            });
        }
        played.push(Played { scenario: *scenario, rows });
    }
    Ok(report(settings, &seeds, &played))
}

fn report(settings: &Settings, seeds: &[u64], played: &[Played]) -> Report {
    let mut report = Report::new(
        EXPERIMENT.name,
        "How many workers",
        "The load of a day changes, workers take time to start and cost money. A rule decides every fifteen seconds how \
         many there should be. Too few, and tasks start late; too many, and somebody pays for idle workers. Every \
         policy of the autoscaler faces the same tasks, beside the rule of the exercise, the rules of Kubernetes with a \
         target of 70 %, and somebody who knows the rate of every second to come.",
    );
    report.parameter("seed", settings.seed);
    let list = |seeds: &[u64]| seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    report.parameter("seeds that are scored", list(seeds));
    report.parameter("seeds of the tuning, never scored", list(&TUNING));
    report.parameter("tasks per worker and second", PER_WORKER);
    report.parameter("tasks must start within", format!("{WITHIN_SEC} s"));
    report.parameter("a worker starts in", format!("{BOOT_SEC} s, paid"));
    report.parameter("workers", format!("{MIN} to {MAX}, 180 in the flash crowd"));
    report.parameter("days", "7 to learn and 3 scored; 21 and 7 of the week");
    for one in played {
        report.tables.push(shown::table(one));
    }
    report.charts.push(shown::costs(played));
    report.charts.push(shown::violations(played));
    for one in played {
        report.charts.push(shown::timeline(one));
    }
    find(&mut report, played);
    judge(&mut report, played);
    report.lesson(
        "The signal is worth most: what arrives times how long it runs, and what waits, says how many workers are needed; \
         how busy they are only says that there are too few when it is too late, so it is kept low, and paid for.",
    );
    report.lesson(
        "A forecast is worth the time that workers take to start: little at a minute and a half, most of it at ten \
         minutes. Nobody forecasts a burst; what helps there is to see it in the first sample and to catch up.",
    );
    report
}

impl Row {
    fn mean(&self, value: impl Fn(&Outcome) -> f64) -> f64 {
        self.runs.iter().map(value).sum::<f64>() / self.runs.len().max(1) as f64
    }

    fn cost(&self) -> f64 {
        self.mean(Outcome::cost)
    }

    /// In percent.
    fn violations(&self) -> f64 {
        self.mean(Outcome::violations) * 100.0
    }

    fn actions(&self) -> f64 {
        self.mean(Outcome::actions_per_day)
    }
}

fn find(report: &mut Report, played: &[Played]) {
    for one in played {
        let [ours, hpa, knows] = [OURS, HPA, CLAIRVOYANT].map(|place| &one.rows[place]);
        report.finding(format!(
            "{} ({}): ours costs {} times the work alone with {} % late, HPA-70 {} with {} %, the clairvoyant {}; \
             ours acts {} times a day, HPA-70 {} times.",
            one.scenario.name(),
            one.scenario.about(),
            decimal(ours.cost(), 2),
            brief(ours.violations()),
            decimal(hpa.cost(), 2),
            brief(hpa.violations()),
            decimal(knows.cost(), 2),
            decimal(ours.actions(), 0),
            decimal(hpa.actions(), 0),
        ));
    }
}

fn judge(report: &mut Report, played: &[Played]) {
    for one in played {
        let (ours, hpa, name) = (&one.rows[OURS], &one.rows[HPA], one.scenario.name());
        if one.scenario == Scenario::Steps {
            let most = ours.runs.iter().map(Outcome::cost).fold(0.0, f64::max);
            let late: u64 = ours.runs.iter().map(|run| run.late).sum();
            report.verdict(
                format!("{name}: cost over work alone, and tasks that start late, for every seed"),
                format!("≤ {}, none", decimal(COST_MAX, 2)),
                format!("{}, {late}", decimal(most, 3)),
                most <= COST_MAX && late == 0,
            );
            continue;
        }
        let (late, theirs) = (ours.violations(), hpa.violations());
        report.verdict(
            format!("{name}: late tasks, against HPA-70"),
            format!("fewer than {} %, or none", brief(theirs)),
            format!("{} %", brief(late)),
            late < theirs || late == 0.0,
        );
        report.verdict(
            format!("{name}: cost, against HPA-70"),
            format!("under {}", decimal(hpa.cost(), 3)),
            decimal(ours.cost(), 3),
            ours.cost() < hpa.cost(),
        );
        report.verdict(
            format!("{name}: changes per day, against HPA-70"),
            format!("≤ 2 × {}", decimal(hpa.actions(), 1)),
            decimal(ours.actions(), 1),
            ours.actions() <= 2.0 * hpa.actions(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::scenarios::Decides;
    use super::*;
    use crate::experiments::tried;

    #[test]
    fn ours_meets_its_targets_on_seeds_that_nobody_tuned_with() {
        assert!(scored(1, 100).chain(scored(0, 100)).all(|seed| !TUNING.contains(&seed)));
        let report = tried(EXPERIMENT, 1);
        let (met, all) = report.met();
        assert_eq!((met, all), (4, 4), "{:#?}\n{:#?}", report.verdicts, report.findings);
    }

    #[test]
    fn the_same_tasks_and_rule_give_the_same_outcome() {
        let scenario = Scenario::Spot;
        let traffic = scenario.traffic(7);
        assert_eq!(traffic, scenario.traffic(7));
        let hpa = Decides::Policy(divvy_types::pools::Policy::Hpa);
        assert_eq!(scenario.play(hpa, 7, &traffic), scenario.play(hpa, 7, &traffic));
        let knows = scenario.play(Decides::Clairvoyant, 7, &traffic);
        assert!(knows.late == 0 && knows.cost() < 1.06, "{}", knows.cost());
    }
}
