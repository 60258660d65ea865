//! Lives of no-op tasks: submitted over gRPC, granted, run on a worker process, reported, recorded. All durable.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use divvy_console::output::Output;
use divvy_workload::private::{Place, Process, rounded};
use serde::Serialize;

use crate::{disk, latency, store_only, submitter};

/// How many lives.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Tasks to run
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    tasks: u64,
    /// Tasks per submitted batch
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    batch: u64,
    /// Slots of the worker process
    #[arg(long, default_value_t = 1_024)]
    slots: u32,
    /// Lone tasks for the latency at low load
    #[arg(long, default_value_t = 300)]
    lone: u32,
    #[command(flatten)]
    place: Place,
}

/// The figures. `ratio` is `lifecycles_per_s / store_only_per_s`.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    tasks: u64,
    lifecycles_per_s: f64,
    store_only_per_s: f64,
    ratio: f64,
    facts_per_commit: u64,
    fdatasync_p50_us: u64,
    fdatasync_back_to_back_p50_us: u64,
    lone_commit_mean_us: u64,
    submit_to_start_p50_us: u64,
    submit_to_start_p99_us: u64,
    latency_ratio: f64,
    server_rss_mb: u64,
    server_cpu_us_per_life: f64,
    worker_cpu_us_per_life: f64,
}

/// Measures.
pub(crate) async fn run(args: &Args, output: &Output) -> anyhow::Result<Figures> {
    let folder = args.place.folder()?;
    let (server, url) = Process::server(&folder.path().join("server"))?;
    output.note("measuring the latency of lone tasks …");
    let probe = disk::Probe::new(folder.path())?;
    let (waits, probe) = latency::submit_to_start(&url, args.lone, probe).await?;
    let fdatasync_p50_us = probe.p50_us().max(1);
    let mut probe = disk::Probe::new(folder.path())?;
    (0..args.lone).try_for_each(|_| probe.measure())?;
    let fdatasync_back_to_back_p50_us = probe.p50_us();

    output.note(format_args!("running {} tasks …", args.tasks));
    let worker = Process::worker(&url, args.slots)?;
    wait_for_worker(&url).await?;
    let before = stats(&url).await?;
    // Until now only lone tasks were committed.
    let lone_commit_mean_us = figure(&before, "commit_us_total") / figure(&before, "groups").max(1);
    let (server_cpu, worker_cpu) = (server.cpu_s()?, worker.cpu_s()?);
    let mut client = submitter::connect(&url)?;
    let requests: Vec<_> = submitter::requests(args.tasks, args.batch).collect();
    let started = Instant::now();
    let acknowledged = submitter::submit_all(&mut client, requests).await?;
    ensure!(acknowledged == args.tasks, "{acknowledged} of {} tasks were acknowledged", args.tasks);
    let after = wait_for_finish(&url, figure(&before, "finished") + args.tasks).await?;
    let took = started.elapsed();
    let lives = args.tasks as f64;
    let lifecycles_per_s = lives / took.as_secs_f64();
    let cpu_us = |now: f64, then: f64| rounded((now - then) * 1e6 / lives);
    let server_cpu_us_per_life = cpu_us(server.cpu_s()?, server_cpu);
    let worker_cpu_us_per_life = cpu_us(worker.cpu_s()?, worker_cpu);
    let server_rss_mb = server.rss_mb()?.1;
    drop((worker, server));

    let facts = figure(&after, "facts") - figure(&before, "facts");
    let groups = (figure(&after, "groups") - figure(&before, "groups")).max(1);
    let facts_per_commit = (facts / groups).max(2);
    output.note("running the bare store on the same facts …");
    let bare = folder.path().join("store-only");
    let tasks = args.tasks;
    let store_only_per_s = tokio::task::spawn_blocking(move || {
        store_only::lives_per_s(&bare, tasks, facts_per_commit as usize)
    })
    .await??;
    let p50 = waits.value_at_quantile(0.5);
    Ok(Figures {
        tasks,
        lifecycles_per_s: rounded(lifecycles_per_s),
        store_only_per_s: rounded(store_only_per_s),
        ratio: rounded(lifecycles_per_s / store_only_per_s),
        facts_per_commit,
        fdatasync_p50_us,
        fdatasync_back_to_back_p50_us,
        lone_commit_mean_us,
        submit_to_start_p50_us: p50,
        submit_to_start_p99_us: waits.value_at_quantile(0.99),
        latency_ratio: rounded(p50 as f64 / fdatasync_p50_us as f64),
        server_rss_mb,
        server_cpu_us_per_life,
        worker_cpu_us_per_life,
    })
}

async fn wait_for_finish(url: &str, finished: u64) -> anyhow::Result<serde_json::Value> {
    loop {
        let now = stats(url).await?;
        if figure(&now, "finished") >= finished {
            return Ok(now);
        }
        if figure(&now, "dead") > 0 {
            bail!("a no-op task failed: see `divvy dead list`");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn wait_for_worker(url: &str) -> anyhow::Result<()> {
    for _ in 0..1_000 {
        if figure(&stats(url).await?, "workers") > 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bail!("the worker process did not connect within 10 s")
}

pub(crate) async fn stats(url: &str) -> anyhow::Result<serde_json::Value> {
    let answer: serde_json::Value =
        divvy::api::Api::new(url)?.get(&["stats"], &[]).await?.value()?;
    Ok(answer["engine"].clone())
}

pub(crate) fn figure(stats: &serde_json::Value, name: &str) -> u64 {
    stats[name].as_u64().unwrap_or(0)
}
