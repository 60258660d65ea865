//! A backlog that nobody works off: how fast it is taken, and that the server's memory stays bounded.

use std::time::Instant;

use anyhow::ensure;
use divvy_console::output::Output;
use divvy_workload::private::{Place, Process, rounded};
use serde::Serialize;

use crate::{life, submitter};

/// How many tasks.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Tasks to submit
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    tasks: u64,
    /// Tasks per submitted batch
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    batch: u64,
    #[command(flatten)]
    place: Place,
}

/// The figures.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    tasks: u64,
    submitted_per_s: f64,
    spilled: u64,
    server_rss_mb: u64,
    server_rss_peak_mb: u64,
    disk_mb: u64,
}

/// Measures.
pub(crate) async fn run(args: &Args, output: &Output) -> anyhow::Result<Figures> {
    let folder = args.place.folder()?;
    let (server, url) = Process::server(folder.path())?;
    output.note(format_args!("submitting {} tasks …", args.tasks));
    let mut client = submitter::connect(&url)?;
    let started = Instant::now();
    let acknowledged =
        submitter::submit_all(&mut client, submitter::requests(args.tasks, args.batch)).await?;
    ensure!(acknowledged == args.tasks, "{acknowledged} of {} tasks were acknowledged", args.tasks);
    let took = started.elapsed().as_secs_f64();
    let spilled = life::figure(&life::stats(&url).await?, "spilled");
    let (server_rss_mb, server_rss_peak_mb) = server.rss_mb()?;
    let files = std::fs::read_dir(folder.path())?.filter_map(|file| file.ok()?.metadata().ok());
    let disk_mb = files.map(|file| file.len()).sum::<u64>() >> 20;
    Ok(Figures {
        tasks: args.tasks,
        submitted_per_s: rounded(args.tasks as f64 / took),
        spilled,
        server_rss_mb,
        server_rss_peak_mb,
        disk_mb,
    })
}
