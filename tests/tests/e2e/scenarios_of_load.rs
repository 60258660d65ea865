//! Load scenarios with real servers and workers: hot spot, uniform load, cascading failure, bursts, protection of high
//! priorities, no workers, a single worker, no capabilities, a slow and a flapping worker, unequal speeds.
//!
//! The same scenarios run against the pure scheduler in the lab. What is claimed here does not depend on how fast the
//! machine is: who ran what, what was moved, and that every task ended exactly once.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::api::{Api, Method};
use divvy_e2e::process::{Process, divvy, free_port, serve_with};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server with its own folder, and a way to start workers for it.
struct Cluster {
    api: Api,
    folder: TempDir,
    _server: Process,
}

impl Cluster {
    fn with_strategy(strategy: &str) -> Result<Self> {
        Self::with(json!({ "strategy": strategy }), json!({}))
    }

    fn hybrid() -> Result<Self> {
        Self::with_strategy("hybrid")
    }

    /// A server with low thresholds, so that small loads count, and with these sections of `load_balancing` and fields
    /// beside it.
    fn with(load_balancing: Value, mut file: Value) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let thresholds = json!({
            "busy_threshold": 2, "idle_threshold": 1, "rebalance_interval_sec": 0.2, "severe_imbalance_ratio": 1.5,
        });
        file["load_balancing"] = load_balancing;
        file["load_balancing"]["thresholds"] = thresholds;
        // JSON is YAML.
        std::fs::write(folder.path().join("divvy.yaml"), file.to_string())?;
        let port = free_port()?;
        let mut command = divvy()?;
        command
            .arg("--config")
            .arg(folder.path().join("divvy.yaml"))
            .arg("serve")
            .arg("--data")
            .arg(folder.path().join("data"))
            .args(["--listen", &format!("127.0.0.1:{port}"), "--json"])
            .args(["--lease", "3s", "--grace", "500ms"]);
        let server = serve_with(&mut command)?;
        Ok(Self { api: Api::on(port), folder, _server: server })
    }

    /// A worker that runs one task at a time and takes so many more.
    async fn worker(&self, name: &str, prefetch: u32, more: &[&str]) -> Result<Process> {
        let mut command = divvy()?;
        command
            .current_dir(self.folder.path())
            .args(["--server", self.api.url(), "work", "--name", name, "--slots"])
            .args([
                "async=1,blocking=0,cpu=0,process=1",
                "--no-video",
                "--prefetch",
                &prefetch.to_string(),
            ])
            .args(more)
            .stdout(Stdio::null());
        let process = Process::start(&mut command)?;
        let is_there = |workers: &Value| {
            workers["items"]
                .as_array()
                .is_some_and(|list| list.iter().any(|worker| worker["name"] == name))
        };
        self.api.wait_until("workers", "the worker to connect", is_there).await?;
        Ok(process)
    }

    async fn submit(&self, tasks: &[Value]) -> Result<()> {
        let (status, answer) = self.api.submit(tasks).await?;
        ensure!(status == 201, "{status} {answer}");
        Ok(())
    }

    /// Waits until so many tasks stand in the queue of a worker.
    async fn given(&self, name: &str, count: u64) -> Result<()> {
        let given = |load: &Value| {
            let mut workers = load["workers"].as_array().into_iter().flatten();
            workers.any(|worker| {
                worker["name"] == name && worker["queue_length"].as_u64() >= Some(count)
            })
        };
        self.api.wait_until("load", "the worker to be given the tasks", given).await?;
        Ok(())
    }

    /// Waits until so many tasks are done, and says who did how many.
    async fn done(&self, count: usize) -> Result<BTreeMap<String, usize>> {
        let all_done = |stats: &Value| {
            stats["final"]["done"].as_u64().is_some_and(|done| done >= count as u64)
        };
        self.api.wait_until("stats", "all tasks to be done", all_done).await?;
        let tasks = self.api.all_tasks("state=done").await?;
        ensure!(tasks.len() == count, "{} tasks are done, not {count}", tasks.len());
        let mut by_worker = BTreeMap::new();
        for task in &tasks {
            let worker = task["worker"].as_str().context("a done task without a worker")?;
            *by_worker.entry(worker.to_owned()).or_default() += 1;
        }
        Ok(by_worker)
    }

    async fn load(&self) -> Result<Value> {
        self.api.get("load").await
    }
}

fn sleeps(count: usize, ms: u64) -> Vec<Value> {
    (0..count).map(|_| json!({ "kind": "sleep", "payload": { "ms": ms } })).collect()
}

fn program(folder: &Path, name: &str, seconds: &str) -> Result<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\nsleep {seconds}\necho null\n"))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(format!("step={}", path.display()))
}

/// One worker was given everything before the others came.
async fn hot_spot(strategy: &str) -> Result<(BTreeMap<String, usize>, Value)> {
    let cluster = Cluster::with_strategy(strategy)?;
    let _hot = cluster.worker("hot", 40, &[]).await?;
    cluster.submit(&sleeps(30, 100)).await?;
    cluster.given("hot", 25).await?;
    let _cold = [cluster.worker("cold-1", 1, &[]).await?, cluster.worker("cold-2", 1, &[]).await?];
    let by_worker = cluster.done(30).await?;
    Ok((by_worker, cluster.load().await?))
}

#[tokio::test]
async fn a_hot_spot_is_relieved_by_each_strategy_and_stays_without_one() -> Result<()> {
    let (by_worker, load) = hot_spot("none").await?;
    assert_eq!(by_worker.get("hot"), Some(&30), "{by_worker:?}");
    assert_eq!(load["total_steals"], 0, "{load}");
    for strategy in ["pull", "push", "hybrid"] {
        let (by_worker, load) = hot_spot(strategy).await?;
        let moved = 30 - by_worker.get("hot").copied().unwrap_or_default();
        assert!(moved >= 3, "{strategy}: {by_worker:?} {load}");
        assert!(load["successful_steals"].as_u64() >= Some(moved as u64), "{strategy}: {load}");
        assert!(load["tasks_migrated"].as_u64() >= Some(1), "{strategy}: {load}");
        if strategy == "push" {
            assert!(load["rebalance_cycles"].as_u64() >= Some(1), "{load}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_uniform_load_is_spread_over_all_workers() -> Result<()> {
    let cluster = Cluster::hybrid()?;
    let mut workers = Vec::new();
    for number in 0..4 {
        workers.push(cluster.worker(&format!("worker-{number}"), 1, &[]).await?);
    }
    cluster.submit(&sleeps(40, 30)).await?;
    let by_worker = cluster.done(40).await?;
    assert_eq!(by_worker.len(), 4, "{by_worker:?}");
    assert!(by_worker.values().all(|count| *count >= 3), "{by_worker:?}");
    Ok(())
}

#[tokio::test]
async fn what_a_dying_worker_had_queued_is_done_by_others_and_not_held_against_the_tasks()
-> Result<()> {
    let cluster = Cluster::with_strategy("none")?;
    let mut full = cluster.worker("full", 40, &[]).await?;
    let mut tasks = sleeps(20, 200);
    for task in &mut tasks {
        task["retry"] = json!({ "limit": 1, "base_ms": 10 });
    }
    cluster.submit(&tasks).await?;
    cluster.given("full", 15).await?;
    let _heir = cluster.worker("heir", 1, &[]).await?;
    full.kill_nine()?;
    cluster.done(20).await?;
    let counted = cluster
        .api
        .all_tasks("state=done")
        .await?
        .iter()
        .filter(|task| task["attempts"].as_u64() > Some(1))
        .count();
    assert!(
        counted <= 1,
        "{counted} tasks were charged an attempt, although one at most had begun"
    );
    Ok(())
}

#[tokio::test]
async fn bursts_are_worked_off_by_all() -> Result<()> {
    let cluster = Cluster::hybrid()?;
    let _workers = [
        cluster.worker("one", 4, &[]).await?,
        cluster.worker("two", 4, &[]).await?,
        cluster.worker("three", 4, &[]).await?,
    ];
    for burst in 1..=3 {
        cluster.submit(&sleeps(15, 20)).await?;
        cluster.done(15 * burst).await?;
    }
    let by_worker = cluster.done(45).await?;
    assert_eq!(by_worker.len(), 3, "{by_worker:?}");
    Ok(())
}

/// How many tasks of high and of low priority the second worker did, which was idle while the first had a queue.
async fn moved_by_priority(preserve: bool) -> Result<(usize, usize)> {
    // The oldest first: those are the ones of high priority, so that only their protection keeps them.
    let settings = json!({
        "work_stealing": { "prefer_recent_tasks": false },
        "priority": { "preserve_high_priority": preserve },
    });
    let cluster = Cluster::with(settings, json!({}))?;
    let _hot = cluster.worker("hot", 60, &[]).await?;
    let mut tasks = sleeps(40, 60);
    for task in tasks.iter_mut().skip(20) {
        task["priority"] = json!(5);
    }
    cluster.submit(&tasks).await?;
    cluster.given("hot", 30).await?;
    let _cold = cluster.worker("cold", 1, &[]).await?;
    cluster.done(40).await?;
    let tasks = cluster.api.all_tasks("state=done").await?;
    let of = |priority: u8| {
        let moved = tasks.iter().filter(|task| task["worker"] == "cold");
        moved.filter(|task| task["priority"] == priority).count()
    };
    Ok((of(5), of(3)))
}

#[tokio::test]
async fn tasks_of_high_priority_are_moved_only_if_that_is_allowed() -> Result<()> {
    let (high, low) = moved_by_priority(true).await?;
    assert!(high == 0 && low >= 3, "moved: {high} high, {low} low");
    let (high, low) = moved_by_priority(false).await?;
    assert!(high >= 1, "moved: {high} high, {low} low");
    Ok(())
}

#[tokio::test]
async fn a_rebalance_that_is_asked_for_moves_what_its_dry_run_named() -> Result<()> {
    let cluster = Cluster::with_strategy("none")?;
    let _hot = cluster.worker("hot", 40, &[]).await?;
    cluster.submit(&sleeps(20, 100)).await?;
    cluster.given("hot", 15).await?;
    let _cold = cluster.worker("cold", 4, &[]).await?;
    let nothing = json!({});
    let ask = |path| cluster.api.set(Method::POST, path, &nothing);
    let planned = ask("rebalance?dry_run=true").await?;
    let moves = planned["moves"].as_array().context("no moves")?;
    assert!(!moves.is_empty(), "{planned}");
    assert!(moves.iter().all(|one| one["from"] == "hot" && one["to"] == "cold"), "{planned}");
    assert_eq!(cluster.load().await?["total_steals"], 0, "a dry run asks nobody");
    let moved = ask("rebalance").await?;
    assert_eq!(moved["moves"].as_array().map(Vec::len), Some(moves.len()), "{planned} {moved}");
    let by_worker = cluster.done(20).await?;
    assert_eq!(by_worker.get("cold"), Some(&moves.len()), "{by_worker:?}");
    assert_eq!(cluster.load().await?["tasks_migrated"].as_u64(), Some(moves.len() as u64));
    Ok(())
}

#[tokio::test]
async fn without_workers_tasks_wait_and_say_why_and_one_worker_does_them_all() -> Result<()> {
    let cluster = Cluster::hybrid()?;
    cluster.submit(&sleeps(10, 1)).await?;
    let waiting = cluster.api.all_tasks("state=ready").await?;
    assert_eq!(waiting.len(), 10);
    assert!(waiting.iter().all(|task| task["wait"]["reason"] == "no_worker"), "{waiting:?}");
    let _single = cluster.worker("single", 3, &[]).await?;
    assert_eq!(cluster.done(10).await?, BTreeMap::from([("single".to_owned(), 10)]));
    assert_eq!(cluster.load().await?["total_steals"], 0);
    Ok(())
}

#[tokio::test]
async fn a_worker_without_capabilities_runs_what_needs_none() -> Result<()> {
    let cluster = Cluster::hybrid()?;
    let _plain = cluster.worker("plain", 1, &[]).await?;
    let mut picky = sleeps(1, 1);
    picky[0]["needs"] = json!(["gpu>=2", "region=eu"]);
    cluster.submit(&picky).await?;
    cluster.submit(&sleeps(5, 1)).await?;
    cluster.done(5).await?;
    let waiting = cluster.api.all_tasks("state=ready").await?;
    assert_eq!(waiting[0]["wait"]["reason"], "missing_capability", "{waiting:?}");
    let _able = cluster.worker("able", 1, &["--caps", "gpu=4,region=eu"]).await?;
    let by_worker = cluster.done(6).await?;
    assert_eq!(by_worker.get("able"), Some(&1), "{by_worker:?}");
    Ok(())
}

#[tokio::test]
async fn a_slow_worker_does_less_and_faster_ones_do_more() -> Result<()> {
    let cluster = Cluster::hybrid()?;
    let mut workers = Vec::new();
    for (name, seconds) in [("slow", "0.8"), ("steady", "0.1"), ("fast", "0.02")] {
        let exec = program(cluster.folder.path(), name, seconds)?;
        workers.push(cluster.worker(name, 3, &["--exec", &exec]).await?);
    }
    let tasks: Vec<Value> = (0..60).map(|_| json!({ "kind": "step" })).collect();
    cluster.submit(&tasks).await?;
    let by_worker = cluster.done(60).await?;
    let of = |name: &str| by_worker.get(name).copied().unwrap_or_default();
    assert!(of("slow") < of("steady") && of("steady") < of("fast"), "{by_worker:?}");
    Ok(())
}

#[tokio::test]
async fn a_flapping_worker_loses_nothing() -> Result<()> {
    // One task may be lost with the worker each time, which is no reason to call it poison here.
    let cluster = Cluster::with(json!({}), json!({ "poison_after": 20 }))?;
    let _steady = cluster.worker("steady", 2, &[]).await?;
    let mut tasks = sleeps(80, 40);
    for task in &mut tasks {
        task["retry"] = json!({ "limit": 20, "base_ms": 1 });
    }
    cluster.submit(&tasks).await?;
    for _ in 0..3 {
        let mut flapping = cluster.worker("flapping", 8, &[]).await?;
        cluster.given("flapping", 1).await?;
        flapping.kill_nine()?;
        let gone =
            |workers: &Value| workers["items"].as_array().is_some_and(|list| list.len() == 1);
        cluster.api.wait_until("workers", "the end to be noticed", gone).await?;
    }
    cluster.done(80).await?;
    let stats = cluster.api.get("stats").await?;
    assert_eq!(stats["final"]["dead"].as_u64().unwrap_or_default(), 0, "{stats}");
    Ok(())
}
