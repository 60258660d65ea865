//! Scalability: the five patterns of spreading work over threads, with more and more workers, against their targets.
//!
//! Measured on this machine by [`crate::patterns`]. More workers than processors cannot add throughput; the report
//! says how many processors there are and judges with as many workers as the targets' own example, four.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::chart::{Axis, Bars, Chart, Lines, Mark};
use crate::experiment::{Error, Experiment, Progress, Settings, Timing};
use crate::experiments::measured::broken;
use crate::patterns::{Amount, Figures, Pattern, measure};
use crate::report::number::{brief, counted, decimal};
use crate::report::{Report, Table};

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "scalability",
    summary: "five ways to spread tasks over threads, measured",
    timing: Timing::Measured,
    run,
};

/// Workers of the runs; the targets are judged with the third.
const WORKERS: [usize; 4] = [1, 2, 4, 8];
const JUDGED: usize = 2;

fn run(settings: &Settings, progress: &mut Progress<'_>) -> Result<Report, Error> {
    let full = Amount { tasks: 500_000, rounds: 3, ..Amount::default() };
    let span = Duration::from_millis(50);
    let quick = Amount { tasks: 20_000, rate: 100_000, span, rounds: 1 };
    let amount = settings.size(full, quick);
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let total = (Pattern::ALL.len() * WORKERS.len()) as u64;
    let mut rows: Vec<[Figures; WORKERS.len()]> = Vec::new();
    for (index, pattern) in Pattern::ALL.into_iter().enumerate() {
        let mut row = Vec::new();
        for (step, workers) in WORKERS.into_iter().enumerate() {
            let done = (index * WORKERS.len() + step) as u64;
            let what = format!("{}, {}", pattern.name(), counted(workers as u64, "worker"));
            progress.step(&what, done, total)?;
            let seed = settings.seed_of(done);
            row.push(measure(pattern, workers, &amount, seed).map_err(broken)?);
        }
        rows.push(row.try_into().expect("one figure per number of workers"));
    }
    let mut report = Report::new(
        EXPERIMENT.name,
        "Scalability of the five patterns",
        "One thread submits tiny tasks to a pool, which spreads them in turn, by load, by stealing, by groups or by \
         key. The work in a task is next to nothing, so what is measured is the spreading itself.",
    );
    report.parameter("seed", settings.seed);
    report.parameter("processors of this machine", cores as u64);
    report.parameter("tasks per round", amount.tasks as u64);
    report.parameter("rounds", amount.rounds as u64);
    report.parameter("rate while times to start are taken", format!("{} per s", amount.rate));
    report.tables.push(against_targets(&rows));
    report.tables.push(by_workers(&rows));
    report.charts.push(rate_chart(&rows));
    report.charts.push(workers_chart(&rows));
    find(&mut report, &rows, cores);
    for row in &rows {
        judge(&mut report, &row[JUDGED]);
    }
    report.lesson(
        "The cost of spreading is in waking threads and in shared cache lines, not in the rule that picks a worker: \
         batches help every pattern more than a cleverer rule helps any.",
    );
    Ok(report)
}

fn against_targets(rows: &[[Figures; WORKERS.len()]]) -> Table {
    let caption = format!("With {} workers, against the targets", WORKERS[JUDGED]);
    let mut table = Table::new(caption)
        .text("pattern")
        .number("rate", "M/s", 2)
        .number("in batches", "M/s", 2)
        .number("target", "M/s", 2)
        .number("times target", "×", 1)
        .number("p50", "ms", 3)
        .number("p99", "ms", 3)
        .number("target", "ms", 1);
    for row in rows {
        let (figures, target) = (row[JUDGED], row[JUDGED].pattern.target());
        table.row([
            figures.pattern.name().into(),
            (figures.ops_per_s / 1e6).into(),
            (figures.batched_ops_per_s / 1e6).into(),
            (target.ops_per_s / 1e6).into(),
            (figures.ops_per_s / target.ops_per_s).into(),
            figures.p50_ms.into(),
            figures.p99_ms.into(),
            target.p99_ms.into(),
        ]);
    }
    table
}

fn by_workers(rows: &[[Figures; WORKERS.len()]]) -> Table {
    let mut table = Table::new("Rate by workers, one submit per task").text("pattern");
    for workers in WORKERS {
        table = table.number(counted(workers as u64, "worker"), "M/s", 2);
    }
    for row in rows {
        let rates = row.iter().map(|figures| (figures.ops_per_s / 1e6).into());
        table.row([row[0].pattern.name().into()].into_iter().chain(rates));
    }
    table
}

fn rate_chart(rows: &[[Figures; WORKERS.len()]]) -> Chart {
    let judged = || rows.iter().map(|row| row[JUDGED]);
    let bars = Bars::new(
        Axis::new("tasks per second", "M/s").log().precision(2),
        judged().map(|figures| figures.pattern.name()),
    )
    .series("one by one", judged().map(|figures| Some(figures.ops_per_s / 1e6)))
    .series("in batches of 64", judged().map(|figures| Some(figures.batched_ops_per_s / 1e6)))
    .series("target", judged().map(|figures| Some(figures.pattern.target().ops_per_s / 1e6)));
    Chart::new("Throughput against the targets", bars)
        .note("Logarithmic: each step to the right is a multiple.")
}

fn workers_chart(rows: &[[Figures; WORKERS.len()]]) -> Chart {
    let mut lines = Lines::new(
        Axis::new("workers", "").precision(0),
        Axis::new("99 in 100 tasks start within", "ms").precision(3),
    );
    for row in rows {
        let points = row.iter().map(|figures| (figures.workers as f64, figures.p99_ms));
        lines = lines.line(row[0].pattern.name(), points);
    }
    let strictest = rows.iter().map(|row| row[0].pattern.target().p99_ms).fold(f64::MAX, f64::min);
    lines = lines.mark(Mark::new(strictest, "strictest target"));
    Chart::new("Time to start by workers", lines)
        .note("The median of the rounds; below the line is good.")
}

fn find(report: &mut Report, rows: &[[Figures; WORKERS.len()]], cores: usize) {
    let judged = || rows.iter().map(|row| row[JUDGED]);
    let by_rate = |a: &Figures, b: &Figures| a.ops_per_s.total_cmp(&b.ops_per_s);
    if let (Some(best), Some(worst)) = (judged().max_by(by_rate), judged().min_by(by_rate)) {
        report.finding(format!(
            "{} is the quickest at {} million tasks per second, {} the slowest at {} million.",
            best.pattern.name(),
            brief(best.ops_per_s / 1e6),
            worst.pattern.name(),
            brief(worst.ops_per_s / 1e6),
        ));
    }
    let gain = judged().map(|figures| figures.batched_ops_per_s / figures.ops_per_s);
    let (least, most) = gain.fold((f64::MAX, 0_f64), |(l, m), gain| (l.min(gain), m.max(gain)));
    report.finding(format!(
        "Batches of 64 give {} to {} times the rate of single submits.",
        brief(least),
        brief(most)
    ));
    for row in rows {
        let (one, peak) = (row[0], row.iter().max_by(|a, b| by_rate(a, b)).unwrap_or(&row[0]));
        report.finding(format!(
            "{}: {} times the rate of one worker at its best, with {} on {}.",
            one.pattern.name(),
            decimal(peak.ops_per_s / one.ops_per_s, 2),
            counted(peak.workers as u64, "worker"),
            counted(cores as u64, "processor"),
        ));
    }
}

fn judge(report: &mut Report, figures: &Figures) {
    let (name, target) = (figures.pattern.name(), figures.pattern.target());
    report.verdict(
        format!("{name}: tasks per second"),
        format!("above {}", brief(target.ops_per_s)),
        brief(figures.ops_per_s),
        figures.ops_per_s > target.ops_per_s,
    );
    report.verdict(
        format!("{name}: 99 in 100 start within"),
        format!("below {} ms", target.p99_ms),
        format!("{} ms", brief(figures.p99_ms)),
        figures.p99_ms < target.p99_ms,
    );
}
