//! A restart with many open tasks: how long until the server works again, and how much memory it takes.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use divvy_engine::{Engine, Options as EngineOptions};
use divvy_store::Store as _;
use divvy_store::sqlite::{Options, SqliteStore};
use divvy_types::{Fact, Seq};
use serde::Serialize;

use super::store_only::now;
use super::{Place, process, rounded, submitter};
use crate::output::Output;

/// Facts per commit while the backlog is written.
const GROUP: u64 = 10_000;

/// How many open tasks.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Open tasks
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    tasks: u64,
    /// Ready tasks kept in memory; more wait in the store [default: the server's]
    #[arg(long)]
    window: Option<usize>,
    #[command(flatten)]
    place: Place,
}

/// The figures.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    tasks: u64,
    recovery_s: f64,
    tasks_per_s: f64,
    rss_before_mb: u64,
    rss_after_mb: u64,
    bytes_per_task: u64,
}

/// Measures in this process: the backlog is written by a process of its own, so that its memory does not count.
pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Figures> {
    let folder = args.place.folder()?;
    output.note(format_args!("writing {} open tasks …", args.tasks));
    fill(folder.path(), args.tasks)?;
    let (rss_before_mb, _) = process::rss_mb("self")?;
    output.note("recovering …");
    let window_tasks = args.window.unwrap_or(args.tasks as usize);
    let options =
        EngineOptions { window_tasks, window_bytes: usize::MAX, ..EngineOptions::default() };
    let started = Instant::now();
    let store = SqliteStore::open(folder.path(), Options::default())?;
    let (_handle, engine) = Engine::start(Box::new(store), options)?;
    let took = started.elapsed().as_secs_f64();
    let (rss_after_mb, _) = process::rss_mb("self")?;
    engine.stopper().stop();
    Ok(Figures {
        tasks: args.tasks,
        recovery_s: rounded(took),
        tasks_per_s: rounded(args.tasks as f64 / took),
        rss_before_mb,
        rss_after_mb,
        bytes_per_task: (rss_after_mb.saturating_sub(rss_before_mb) << 20) / args.tasks,
    })
}

fn fill(dir: &Path, tasks: u64) -> anyhow::Result<()> {
    let mut store = SqliteStore::open(dir, Options::default())?;
    store.recover(&mut |_| {})?;
    let mut verdicts = Vec::new();
    let mut seq = 0;
    while seq < tasks {
        let count = GROUP.min(tasks - seq);
        let facts: Vec<Fact> = submitter::specs(count, "noop")
            .into_iter()
            .map(|spec| {
                seq += 1;
                Fact::Submitted {
                    seq: Seq(seq),
                    at: now(),
                    spec: Arc::new(spec),
                    spawned_by: None,
                    spilled: None,
                }
            })
            .collect();
        store.commit(&facts, &mut verdicts)?;
    }
    Ok(())
}
