//! Prediction against reality: files come at random times to a private server with one worker, and what happens is
//! compared with what a plan says of the same arrivals.
//!
//! The costs are measured immediately before, with some of the files, one by one. The comparison is of one run on one
//! machine: what else the machine does meanwhile is in both, but not equally.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use divvy_lab::plan::fit;
use divvy_lab::plan::input::{Arrivals, Goal, PerHour, Plan, SizeClass, Worker};
use divvy_lab::plan::replay::{self, Predicted};
use serde::Serialize;
use tokio::time::Instant;

use super::samples::{Bench, measure};
use crate::commands::Context;
use crate::exit::Failure;

/// Fewer say nothing about one in twenty.
const FILES_MIN: usize = 2;
/// How near is near enough.
const WITHIN: f64 = 0.15;
/// Seeds of the prediction.
const SEEDS: u32 = 25;
/// A day is more than anyone waits.
const LONG_SEC: f64 = 86_400.0;

/// What came out.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    pub(crate) items: usize,
    pub(crate) slots: u32,
    pub(crate) predicted: Predicted,
    pub(crate) measured: Predicted,
    /// How far the prediction is off, as a share of what was measured.
    pub(crate) off_p50: f64,
    pub(crate) off_p95: f64,
    /// How near is near enough.
    pub(crate) within: f64,
    pub(crate) met: bool,
}

/// Measures, predicts and compares.
pub(crate) async fn run(
    files: &[PathBuf],
    slots: u32,
    busy: u32,
    context: &Context,
) -> Result<Compared> {
    if files.len() < FILES_MIN {
        return Err(Failure::usage("--check needs at least two files")
            .cure("name twenty or more: one in twenty is what p95 speaks of")
            .into());
    }
    let samples = measure(&files[..files.len().div_ceil(2)], slots, context).await?;
    let plan = plan(&samples, slots);
    let work: f64 =
        plan.stages.iter().map(|stage| stage.sec + stage.sec_per_gb * plan.mean_gb()).sum();
    let gap_sec = work / f64::from(slots) / (f64::from(busy) / 100.0);
    let (arrived, took) = reality(files, slots, gap_sec, context).await?;
    let predicted = replay::predict(&plan, &arrived, &plan.workers[0], SEEDS)?;
    let measured = replay::measured(took);
    let off = |predicted: f64, measured: f64| predicted / measured.max(1e-9) - 1.0;
    let (off_p50, off_p95) = (off(predicted.p50, measured.p50), off(predicted.p95, measured.p95));
    let met = off_p50.abs() <= WITHIN && off_p95.abs() <= WITHIN;
    let items = files.len();
    Ok(Compared { items, slots, predicted, measured, off_p50, off_p95, within: WITHIN, met })
}

/// Lets the files come at random; gives when each came with its size, and how long each took, in seconds.
async fn reality(
    files: &[PathBuf],
    slots: u32,
    gap_sec: f64,
    context: &Context,
) -> Result<(Vec<(f64, f64)>, Vec<f64>)> {
    let mut bench = Bench::start(slots, context).await?;
    let mut random = Gaps(0x9E37_79B9_7F4A_7C15);
    let (mut items, mut next) = (Vec::new(), Instant::now());
    for (number, file) in files.iter().enumerate() {
        tokio::time::sleep_until(next).await;
        let of = format!("{} of {}", number + 1, files.len());
        context.output.note(format_args!("{} comes, {of} …", file.display()));
        items.push(bench.add(file, context).await?);
        next += Duration::from_secs_f64(gap_sec * random.next());
    }
    let (mut arrived, mut took) = (Vec::new(), Vec::new());
    for item in &items {
        let view = bench.until_ended(item).await?;
        let began = view.started_at.0 as f64 / 1e6;
        let ended = view.ended_at.map_or(began, |at| at.0 as f64 / 1e6);
        arrived.push((began, item.size_gb));
        took.push(ended - began);
    }
    let first = arrived.iter().map(|(at, _)| *at).fold(f64::INFINITY, f64::min);
    arrived.iter_mut().for_each(|(at, _)| *at -= first);
    arrived.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok((arrived, took))
}

/// A plan for one worker with what the samples cost.
fn plan(samples: &[fit::Sample], slots: u32) -> Plan {
    let mean = samples.iter().map(|sample| sample.size_gb).sum::<f64>() / samples.len() as f64;
    let size = SizeClass { share: 100.0, from_gb: Some(mean), to_gb: Some(mean), mean_gb: None };
    Plan {
        title: String::new(),
        item: "item".into(),
        arrivals: Arrivals { per_hour: Some(PerHour::Same(1.0)), ..Arrivals::default() },
        sizes: vec![size],
        stages: fit::stages(samples),
        goal: Goal { percentile: 95.0, within_sec: LONG_SEC },
        priority: 0.0,
        workers: vec![Worker { name: "here".into(), slots, ..Worker::default() }],
        budget_month: None,
        fleet: Default::default(),
        days: 1.0,
        seeds: 1,
        assumptions: Vec::new(),
    }
}

/// Random gaps with mean 1, always the same ones.
struct Gaps(u64);

impl Gaps {
    fn next(&mut self) -> f64 {
        // Marsaglia's xorshift, 2003.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let share = (self.0 >> 11) as f64 / (1_u64 << 53) as f64;
        -(1.0 - share).ln()
    }
}
