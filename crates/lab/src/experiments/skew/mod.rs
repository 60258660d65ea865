//! Skew: a few keys have most of the records, so one reducer has most of the work.
//!
//! Compares what `divvy flow` can do about it, with its own hash, sketch and rule: nothing, divide the partitions that hold
//! hot keys over several reducers, or combine records where they are mapped. Knows nothing of what records mean.

mod trial;

#[cfg(test)]
mod tests;

use trial::{KEYS, Mapped, PARTITIONS, PARTS, Trial, WORKERS, Way};

use crate::chart::{Axis, Chart, Lines, Mark};
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::report::number::{count, decimal, percent};
use crate::report::{Report, Table};

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "skew",
    summary: "a hottest key with up to a third of all records",
    timing: Timing::Simulated,
    run,
};

/// How uneven keys are: the k-th is as frequent as 1 / k to this power.
const EXPONENTS: [f64; 6] = [0.0, 0.6, 0.8, 1.0, 1.2, 1.4];
/// How much sooner the strongest skew must be done when hot partitions are divided.
const GAIN_WANTED: f64 = 2.0;

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let records = settings.size(40_000, 8_000);
    let mut trials = Vec::new();
    for (number, exponent) in EXPONENTS.into_iter().enumerate() {
        progress.step("keys", number as u64, EXPONENTS.len() as u64)?;
        let mapped = Mapped::draw(exponent, records, settings.seed_of(number as u64));
        trials.extend(Way::ALL.map(|way| mapped.play(way)));
    }
    let mut report = Report::new(
        EXPERIMENT.name,
        "Skewed keys",
        "A reduce is done when its last reducer is, and the reducer of a hot key is the last. Where records can be \
         merged, the partition of a hot key can be divided over several reducers, or there is less to reduce from the beginning.",
    );
    report.parameter("seed", settings.seed);
    report.parameter("parts that map", PARTS);
    report.parameter("records of each", records);
    report.parameter("keys", KEYS);
    report.parameter("partitions", PARTITIONS);
    report.parameter("workers", WORKERS);
    report.tables.push(table(&trials));
    report.charts.push(chart(&trials));
    find(&mut report, &trials);
    judge(&mut report, &trials);
    Ok(report)
}

fn table(trials: &[Trial]) -> Table {
    let mut table = Table::new("Time of the reduce, 1 being all workers busy to the end")
        .number("exponent", "", 1)
        .number("hottest key", "%", 1)
        .text("way")
        .number("records that travel", "", 0)
        .number("reducers", "", 0)
        .number("largest reducer/fair share", "", 2)
        .number("time", "", 2)
        .text("hot keys named");
    for trial in trials {
        table.row([
            trial.exponent.into(),
            (trial.hottest * 100.0).into(),
            trial.way.name().into(),
            trial.travel.into(),
            trial.reducers.into(),
            trial.largest.into(),
            trial.time.into(),
            format!("{} of {}", trial.named, trial.hot).into(),
        ]);
    }
    table
}

fn chart(trials: &[Trial]) -> Chart {
    let (x, y) =
        (Axis::new("exponent", ""), Axis::new("time of the reduce", "ideal times").precision(1));
    let mut lines = Lines::new(x, y).mark(Mark::new(1.0, "ideal"));
    for way in Way::ALL {
        let mine = trials.iter().filter(|trial| trial.way == way);
        lines = lines.line(way.name(), mine.map(|trial| (trial.exponent, trial.time)));
    }
    Chart::new("What skew costs, and what helps", lines)
}

fn of(trials: &[Trial], exponent: f64, way: Way) -> &Trial {
    let found = trials.iter().find(|trial| trial.exponent == exponent && trial.way == way);
    found.expect("every way was tried with every exponent")
}

fn find(report: &mut Report, trials: &[Trial]) {
    let strongest = EXPONENTS[EXPONENTS.len() - 1];
    let [plain, divided, combined] = Way::ALL.map(|way| of(trials, strongest, way));
    report.finding(format!(
        "When the hottest key has {} of all records, its reducer has {} times its fair share, and the reduce takes {} times the ideal.",
        percent(plain.hottest),
        decimal(plain.largest, 1),
        decimal(plain.time, 1)
    ));
    report.finding(format!(
        "Divided, the largest of {} reducers has {} times a fair share, and reduce and merge together take {} times the ideal.",
        divided.reducers,
        decimal(divided.largest, 1),
        decimal(divided.time, 1)
    ));
    report.finding(format!(
        "Combined where they are mapped, {} of {} records travel, and no key has more than one of each part: a time of {} of a much smaller ideal.",
        count(combined.travel),
        count(plain.travel),
        decimal(combined.time, 1)
    ));
    let even = of(trials, EXPONENTS[0], Way::Divided);
    report.finding(format!(
        "Without skew nothing is divided: {} reducers for {PARTITIONS} partitions.",
        even.reducers
    ));
    report.lesson(
        "Combine first: it makes skew of small values harmless, and everything else cheaper.",
    );
    report.lesson(
        "Where combining does not make values smaller, such as lists or exact distinct values, declare the reduce \
         mergeable: then hot partitions are divided by themselves. A reduce that needs all values at once can only wait.",
    );
}

fn judge(report: &mut Report, trials: &[Trial]) {
    let strongest = EXPONENTS[EXPONENTS.len() - 1];
    let [plain, divided, _] = Way::ALL.map(|way| of(trials, strongest, way));
    let gain = plain.time / divided.time;
    report.verdict(
        "the strongest skew, divided",
        format!("at least {} times sooner", decimal(GAIN_WANTED, 0)),
        format!("{} times", decimal(gain, 1)),
        gain >= GAIN_WANTED,
    );
    let even = of(trials, EXPONENTS[0], Way::Divided);
    report.verdict(
        "no skew",
        "nothing is divided",
        format!("{} reducers", even.reducers),
        even.reducers == PARTITIONS as usize,
    );
    let (hot, named) = (plain.hot, plain.named);
    report.verdict(
        "hot keys",
        "all are named by the sketch of every part",
        format!("{named} of {hot}"),
        named == hot,
    );
}
