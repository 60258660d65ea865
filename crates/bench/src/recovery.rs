//! A restart with many open tasks: how long until the server works again, and how much memory it takes.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use divvy_console::output::Output;
use divvy_store::Store as _;
use divvy_store::sqlite::{Options, SqliteStore};
use divvy_types::{Fact, Seq};
use divvy_workload::private::{Place, Process, rounded};
use serde::Serialize;

use crate::store_only::now;
use crate::submitter;

/// Facts per commit while the backlog is written.
const GROUP: u64 = 10_000;

/// How many open tasks.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Open tasks
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    tasks: u64,
    #[command(flatten)]
    place: Place,
}

/// The figures. The time is from the start of the server process until it says its address.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    tasks: u64,
    recovery_s: f64,
    tasks_per_s: f64,
    server_rss_mb: u64,
    server_rss_peak_mb: u64,
    bytes_per_task: u64,
}

/// Measures.
pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Figures> {
    let folder = args.place.folder()?;
    let (data, empty) = (folder.path().join("data"), folder.path().join("empty"));
    output.note(format_args!("writing {} open tasks …", args.tasks));
    fill(&data, args.tasks)?;
    let (idle, _) = Process::server(&empty)?;
    let idle_rss_mb = idle.rss_mb()?.0;
    output.note("recovering …");
    let started = Instant::now();
    let (server, _) = Process::server(&data)?;
    let took = started.elapsed().as_secs_f64();
    let (server_rss_mb, server_rss_peak_mb) = server.rss_mb()?;
    Ok(Figures {
        tasks: args.tasks,
        recovery_s: rounded(took),
        tasks_per_s: rounded(args.tasks as f64 / took),
        server_rss_mb,
        server_rss_peak_mb,
        bytes_per_task: (server_rss_mb.saturating_sub(idle_rss_mb) << 20) / args.tasks,
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
