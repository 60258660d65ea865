//! The scheduler alone, on one core: no wire, no store, no handlers. How many task lives a second it decides, whether a
//! decision costs the same whatever waits, and how much memory a waiting task takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use divvy_console::output::Output;
use divvy_console::output::table::Table;
use divvy_workload::private::rounded;
use serde::Serialize;

use crate::lives::{Mix, World};

/// The backlog that the chief figure is taken at.
const BACKLOG: u64 = 1_000_000;
/// The backlogs that are compared.
const SIZES: [u64; 5] = [1_000, 10_000, 100_000, BACKLOG, 10_000_000];
/// The backlog of the dearest mix.
const SHARED_BACKLOG: u64 = 100_000;
/// Rounds of each figure, of which the fastest counts: whatever else the machine does can only make one slower.
const ROUNDS: u64 = 5;
/// Memory of a waiting task before it is measured, in bytes, on the safe side.
const BYTES_GUESSED: u64 = 700;
/// What is left to others when memory is given to waiting tasks, in bytes.
const SPARE_BYTES: u64 = 1 << 30;
/// Below this backlog, memory is too little to be measured in pages.
const MEASURABLE: u64 = 10_000;

/// How much is measured.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Waiting tasks up to which the cost of a decision is compared
    #[arg(long, default_value_t = 10_000_000, value_name = "TASKS", value_parser = clap::value_parser!(u64).range(1_000..=1_000_000_000))]
    max_waiting: u64,
    /// Task lives per figure
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(5_000..=1_000_000_000))]
    lives: u64,
    /// A rough answer in seconds: fewer lives, and no more than 100,000 waiting tasks
    #[arg(long)]
    quick: bool,
}

/// The figures. A life is one task submitted, granted, reported and ended.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    lives_per_s: f64,
    classes: u64,
    workers: u64,
    /// The backlog that `lives_per_s` was taken at.
    backlog: u64,
    flatness: Vec<Size>,
    /// The dearest size over the cheapest.
    flatness_ratio: f64,
    /// Resident memory, without payloads.
    bytes_per_waiting_task: u64,
    single_class_lives_per_s: f64,
    single_class_bytes_per_waiting_task: u64,
    /// The same classes, with 100 fair keys in each queue and priorities that all compete, at a backlog of 100,000.
    shared_lives_per_s: f64,
    /// A look for pools of workers at that backlog, in microseconds.
    pool_look_us: f64,
    /// Sizes that did not fit into memory.
    skipped: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct Size {
    waiting: u64,
    ns_per_life: f64,
    lives_per_s: f64,
}

/// Measures off the async threads; stops when nobody waits for it any more.
pub(crate) async fn run(args: &Args, output: &Output) -> anyhow::Result<Figures> {
    let mut args = args.clone();
    if args.quick {
        args.lives = args.lives.min(20_000);
        args.max_waiting = args.max_waiting.min(100_000);
    }
    let stop = StopOnDrop(Arc::new(AtomicBool::new(false)));
    let (stopped, output) = (Arc::clone(&stop.0), *output);
    let measured = tokio::task::spawn_blocking(move || measure(&args, &stopped, &output)).await;
    drop(stop);
    measured.context("the measurement broke off")?
}

fn measure(args: &Args, stop: &AtomicBool, output: &Output) -> anyhow::Result<Figures> {
    let mut skipped = Vec::new();
    let sizes: Vec<u64> = SIZES.into_iter().filter(|size| *size <= args.max_waiting).collect();
    let backlog = BACKLOG.min(args.max_waiting);

    output.note(format_args!("one class, {backlog} waiting …"));
    // It stays until the end: memory that it gave back would not be counted for the other.
    let mut single = World::new(Mix::Single, stop);
    let single_bytes = fill(&mut single, backlog)?;
    let single_ns = ns_per_life(&mut single, args.lives)?;

    let shared_backlog = SHARED_BACKLOG.min(args.max_waiting);
    output.note(format_args!("fair keys and competing priorities, {shared_backlog} waiting …"));
    let mut shared = World::new(Mix::Shared, stop);
    shared.fill(shared_backlog)?;
    let shared_ns = ns_per_life(&mut shared, args.lives)?;
    let pool_look_us = rounded(shared.look_us());

    let mut world = World::new(Mix::Many, stop);
    let (mut flatness, mut bytes, mut grown) = (Vec::new(), BYTES_GUESSED, 0);
    for waiting in sizes {
        if !fits(waiting - world.waiting(), bytes.max(single_bytes)) {
            output.note(format_args!("skipped {waiting} waiting tasks: too little memory is free"));
            skipped.push(waiting);
            continue;
        }
        output.note(format_args!("{} classes, {waiting} waiting …", world.classes()));
        grown += fill_bytes(&mut world, waiting)?;
        if waiting >= MEASURABLE && waiting <= backlog {
            bytes = grown / waiting;
        }
        let ns = ns_per_life(&mut world, args.lives)?;
        flatness.push(Size { waiting, ns_per_life: rounded(ns), lives_per_s: (1e9 / ns).round() });
    }
    let cheapest = flatness.iter().map(|size| size.ns_per_life).fold(f64::INFINITY, f64::min);
    let dearest = flatness.iter().map(|size| size.ns_per_life).fold(0.0, f64::max);
    let chief = flatness.iter().rev().find(|size| size.waiting <= backlog);
    let chief = chief.context("too little memory is free for the smallest backlog")?;
    Ok(Figures {
        lives_per_s: chief.lives_per_s,
        classes: world.classes(),
        workers: world.workers(),
        backlog: chief.waiting,
        flatness_ratio: rounded(dearest / cheapest),
        flatness,
        bytes_per_waiting_task: bytes,
        single_class_lives_per_s: (1e9 / single_ns).round(),
        single_class_bytes_per_waiting_task: single_bytes,
        shared_lives_per_s: (1e9 / shared_ns).round(),
        pool_look_us,
        skipped,
    })
}

/// Lets tasks wait; says how much memory each of them takes.
fn fill(world: &mut World<'_>, waiting: u64) -> anyhow::Result<u64> {
    Ok(fill_bytes(world, waiting)? / waiting)
}

fn fill_bytes(world: &mut World<'_>, waiting: u64) -> anyhow::Result<u64> {
    let before = resident_bytes();
    world.fill(waiting)?;
    Ok(resident_bytes().saturating_sub(before))
}

/// The fastest of several rounds, after one to warm up.
fn ns_per_life(world: &mut World<'_>, lives: u64) -> anyhow::Result<f64> {
    let lives = lives / ROUNDS;
    world.live(lives)?;
    (0..ROUNDS).try_fold(f64::INFINITY, |fastest, _| Ok(fastest.min(world.live(lives)?)))
}

impl Figures {
    /// Prints them for people.
    pub(crate) fn print(&self, output: &Output) -> anyhow::Result<()> {
        let mut table = Table::new(&[">WAITING", ">NS PER LIFE", ">LIVES/S"]);
        for size in &self.flatness {
            table.row([
                size.waiting.to_string().into(),
                size.ns_per_life.to_string().into(),
                size.lives_per_s.to_string().into(),
            ]);
        }
        table.print(output)?;
        let figures = [
            ("lives_per_s", self.lives_per_s),
            ("backlog", self.backlog as f64),
            ("classes", self.classes as f64),
            ("workers", self.workers as f64),
            ("flatness_ratio", self.flatness_ratio),
            ("bytes_per_waiting_task", self.bytes_per_waiting_task as f64),
            ("single_class_lives_per_s", self.single_class_lives_per_s),
            (
                "single_class_bytes_per_waiting_task",
                self.single_class_bytes_per_waiting_task as f64,
            ),
            ("shared_lives_per_s", self.shared_lives_per_s),
            ("pool_look_us", self.pool_look_us),
        ];
        output.data("")?;
        for (name, value) in figures {
            output.data(format_args!("{name:<36} {value:>12}"))?;
        }
        Ok(())
    }
}

/// Tells the measurement to stop when the command is left.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether so many more waiting tasks fit into memory. Where the system does not tell, they do.
fn fits(tasks: u64, bytes_each: u64) -> bool {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.is_none_or(|kilobytes| tasks * bytes_each + SPARE_BYTES <= kilobytes << 10)
}

/// What this process keeps in memory, where the system tells.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
}
