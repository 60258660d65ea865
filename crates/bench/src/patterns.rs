//! The five patterns of spreading tasks over threads: throughput and time to start, beside what is asked of each.

use std::num::NonZeroUsize;
use std::time::Duration;

use divvy_console::output::Output;
use divvy_console::output::table::Table;
use divvy_lab::patterns::{Amount, Pattern, measure};
use divvy_workload::private::rounded;
use serde::Serialize;

/// How much is measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Threads of the pool
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    /// Tasks of each round of throughput
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    tasks: u32,
    /// Tasks per second while times to start are taken
    #[arg(long, default_value_t = 300_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    rate: u32,
    /// Rounds of each figure, of which the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=99))]
    rounds: u8,
}

/// The figures.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    processors: usize,
    workers: u16,
    tasks: u32,
    rate: u32,
    patterns: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    pattern: &'static str,
    ops_per_s: f64,
    target_ops_per_s: f64,
    times_target: f64,
    batched_ops_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    p99_ms_best_round: f64,
    p99_ms_worst_round: f64,
    target_p99_ms: f64,
    met: bool,
}

/// Measures.
pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Figures> {
    let amount = Amount {
        tasks: args.tasks as usize,
        rate: args.rate as usize,
        span: Duration::from_millis(500),
        rounds: usize::from(args.rounds),
    };
    let mut patterns = Vec::new();
    for pattern in Pattern::ALL {
        output.note(format_args!("measuring {} …", pattern.name()));
        let figures = measure(pattern, usize::from(args.workers), &amount, 1)?;
        let target = pattern.target();
        patterns.push(Row {
            pattern: pattern.name(),
            ops_per_s: figures.ops_per_s.round(),
            target_ops_per_s: target.ops_per_s,
            times_target: rounded(figures.ops_per_s / target.ops_per_s),
            batched_ops_per_s: figures.batched_ops_per_s.round(),
            p50_ms: thousandths(figures.p50_ms),
            p99_ms: thousandths(figures.p99_ms),
            p99_ms_best_round: thousandths(figures.p99_ms_range.0),
            p99_ms_worst_round: thousandths(figures.p99_ms_range.1),
            target_p99_ms: target.p99_ms,
            met: figures.ops_per_s > target.ops_per_s && figures.p99_ms < target.p99_ms,
        });
    }
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let Args { workers, tasks, rate, .. } = *args;
    Ok(Figures { processors, workers, tasks, rate, patterns })
}

impl Figures {
    /// As a table for people.
    pub(crate) fn table(&self) -> Table {
        let headings =
            ["=PATTERN", "TASKS/S", "TARGET", "TIMES", "BATCHED/S", "P99 MS", "TARGET", "MET"];
        let mut table = Table::new(&headings);
        for row in &self.patterns {
            table.row([
                row.pattern.into(),
                format!("{}", row.ops_per_s).into(),
                format!("{}", row.target_ops_per_s).into(),
                format!("{:.1}", row.times_target).into(),
                format!("{}", row.batched_ops_per_s).into(),
                format!("{:.3}", row.p99_ms).into(),
                format!("{}", row.target_p99_ms).into(),
                if row.met { "yes" } else { "no" }.into(),
            ]);
        }
        table
    }
}

fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
