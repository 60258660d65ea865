//! Dataflow jobs of every kind while their workers and their server are killed at random moments: the result is the same,
//! byte for byte, as that of an undisturbed run, and no part that was done is done again.
//!
//! Usually all jobs run at once through a few kills in all. `DIVVY_E2E_KILLS=20` is the long run: each job by itself, again
//! and again until so many kills have met it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::api::Api;
use divvy_e2e::duckdb;
use divvy_e2e::process::{Process, divvy, free_port, serve};
use divvy_e2e::random::{Random, from_environment};
use serde_json::Value;

/// Kills in all, unless the environment names those of each job.
const KILLS: u64 = 20;
const WORKERS: usize = 2;
/// How long a round may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the jobs read, small but for several parts.
const INPUTS: &[&[&str]] = &[
    &["text", "--size", "1MB", "--words", "20000", "--to", "words.txt"],
    &["rows", "--rows", "30000", "--to", "rows.csv"],
    &["edges", "--rows", "60000", "--vertices", "10000", "--to", "edges.tsv"],
    &["edges", "--rows", "60000", "--vertices", "300000", "--to", "wide.tsv"],
    &["events", "--rows", "30000", "--late", "20s", "--to", "events.jsonl"],
];

/// The rows once more, in several row groups.
const PARQUET: &str = "import duckdb; duckdb.sql(\"COPY (FROM 'rows.csv') TO 'rows.parquet' (FORMAT parquet, ROW_GROUP_SIZE 4096)\")";

/// What is done in each round.
const JOBS: &[&[&str]] = &[
    &["mapreduce", "wordcount", "--input", "words.txt", "--split", "200kB", "--partitions", "3"],
    &[
        "mapreduce",
        "--input",
        "words.txt",
        "--map",
        "cat",
        "--reduce",
        "uniq -c",
        "--split",
        "400kB",
    ],
    &[
        "aggregate",
        "--input",
        "rows.csv",
        "--group-by",
        "k",
        "--agg",
        "count, sum(x), p50(x), distinct(u)",
        "--split",
        "200kB",
        // Partitions with more than their fair share are divided over several reducers.
        "--skew",
        "1",
        "--skew-min",
        "1kB",
    ],
    &[
        "aggregate",
        "--input",
        "rows.parquet",
        "--group-by",
        "k",
        "--agg",
        "count, avg(x), p99(x), distinct(u)",
        "--approx",
        "--split",
        "50kB",
    ],
    &["sort", "--input", "words.txt", "--split", "200kB", "--memory", "1MB"],
    &["sort", "--input", "words.txt", "--split", "200kB", "--reverse", "--single"],
    &["graph", "pagerank", "--edges", "edges.tsv", "--iterations", "30", "--tolerance", "0"],
    // More vertices than this memory has room for: they come and go in ranges.
    &["graph", "components", "--edges", "wide.tsv", "--memory", "1MB"],
    &[
        "stream",
        "--source",
        "events.jsonl",
        "--window",
        "10s",
        "--lateness",
        "20s",
        "--group-by",
        "k",
        "--agg",
        "count, sum(x)",
    ],
    &[
        "stream",
        "--source",
        "events.jsonl",
        "--session",
        "2s",
        "--lateness",
        "20s",
        "--group-by",
        "k",
    ],
];

/// The files of a result, with their bytes.
type Files = BTreeMap<String, Vec<u8>>;

/// A server with workers, all of which can be killed.
struct Cluster {
    folder: PathBuf,
    port: u16,
    api: Api,
    server: Process,
    workers: Vec<Process>,
}

impl Cluster {
    fn start(folder: &Path) -> Result<Self> {
        let port = free_port()?;
        let api = Api::on(port);
        let server = serve(&folder.join("data"), port)?;
        let folder = folder.to_owned();
        let mut cluster = Self { folder, port, api, server, workers: Vec::new() };
        for at in 0..WORKERS {
            let worker = cluster.worker(at)?;
            cluster.workers.push(worker);
        }
        Ok(cluster)
    }

    fn worker(&self, at: usize) -> Result<Process> {
        let mut command = divvy()?;
        command.args(["work", "--server", self.api.url(), "--name", &format!("w{at}")]);
        command.args(["--no-video", "--no-crawl", "--slots", "cpu=2", "--flow-commands"]);
        command.arg("--flows").arg(self.folder.join("data/flows"));
        command.arg("--flow-read").arg(&self.folder);
        Process::start(command.stdout(Stdio::null()).stderr(Stdio::null()))
    }

    /// Kills somebody, who comes back: the server first, then a worker, then whoever chance names.
    fn kill(&mut self, kills_before: u64, random: &mut Random) -> Result<()> {
        let victim = match kills_before {
            0 => WORKERS,
            1 => random.below(WORKERS as u64) as usize,
            _ => random.below(WORKERS as u64 + 1) as usize,
        };
        if victim == WORKERS {
            self.server.kill_nine()?;
            self.server = serve(&self.folder.join("data"), self.port)?;
        } else {
            self.workers[victim].kill_nine()?;
            self.workers[victim] = self.worker(victim)?;
        }
        Ok(())
    }

    /// Starts these jobs, as a person would.
    fn start_jobs(&self, jobs: &[&[&str]]) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        for job in jobs {
            let mut command = divvy()?;
            command.args(["--server", self.api.url(), "--quiet", "flow"]).args(*job);
            let output = command.current_dir(&self.folder).output()?;
            let told = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{job:?}: {told}");
            ids.push(String::from_utf8(output.stdout)?.trim().to_owned());
        }
        Ok(ids)
    }

    /// When each task of these jobs that is done was done.
    async fn done(&self, ids: &[String]) -> Result<BTreeMap<String, Value>> {
        let mut done = BTreeMap::new();
        for id in ids {
            let tasks = self.api.get(&format!("tasks?tag=flow:{id}&state=done&limit=1000")).await?;
            for task in tasks["items"].as_array().context("no list")? {
                let name = task["id"].as_str().context("no id")?.to_owned();
                done.insert(name, task["ended_at"].clone());
            }
        }
        Ok(done)
    }

    /// Runs these jobs until so many kills have met them, and compares; says in how many rounds.
    async fn torment(
        &mut self,
        jobs: &[&[&str]],
        expected: &[Files],
        wanted_kills: u64,
        random: &mut Random,
    ) -> Result<u64> {
        let (mut kills, mut rounds) = (0, 0);
        while kills < wanted_kills {
            rounds += 1;
            let ids = self.start_jobs(jobs)?;
            let mut seen = BTreeMap::new();
            let began = Instant::now();
            while !self.are_over(&ids).await? {
                ensure!(began.elapsed() < PATIENCE, "round {rounds} of {jobs:?} does not end");
                tokio::time::sleep(Duration::from_millis(random.below(400))).await;
                if kills < wanted_kills && !self.are_over(&ids).await? {
                    seen.extend(self.done(&ids).await?);
                    self.kill(kills, random)?;
                    kills += 1;
                }
            }
            for (job, (found, expected)) in
                jobs.iter().zip(self.results(&ids)?.iter().zip(expected))
            {
                ensure!(found == expected, "round {rounds}: {job:?} has another result");
            }
            let done = self.done(&ids).await?;
            for (task, at) in &seen {
                ensure!(done.get(task) == Some(at), "round {rounds}: {task} was done again");
            }
        }
        Ok(rounds)
    }

    async fn are_over(&self, ids: &[String]) -> Result<bool> {
        for id in ids {
            let job = self.api.get(&format!("flows/{id}")).await?;
            let state = job["state"].as_str().unwrap_or_default();
            ensure!(!["failed", "cancelled"].contains(&state), "{job}");
            if state != "done" {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The result of each job: every file with its bytes.
    fn results(&self, ids: &[String]) -> Result<Vec<Files>> {
        let mut results = Vec::new();
        for id in ids {
            let flow = self.folder.join("data/flows").join(id);
            let mut files = BTreeMap::new();
            for entry in std::fs::read_dir(flow.join("out"))? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                if name != "manifest.json" {
                    files.insert(name, std::fs::read(entry.path())?);
                }
            }
            ensure!(!flow.join("shuffle").exists(), "the shuffle of {id} was not swept");
            ensure!(!flow.join("scratch").exists(), "the spills of {id} were not swept");
            ensure!(files.values().any(|bytes| !bytes.is_empty()), "{id} has no result");
            results.push(files);
        }
        Ok(results)
    }
}

fn write_inputs(folder: &Path) -> Result<()> {
    for input in INPUTS {
        let status =
            divvy()?.args(["--quiet", "flow", "gen"]).args(*input).current_dir(folder).status()?;
        ensure!(status.success(), "{input:?}");
    }
    let mut python = std::process::Command::new(duckdb::python()?);
    let made = python.args(["-c", PARQUET]).current_dir(folder).status()?;
    ensure!(made.success(), "rows.parquet was not made");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_are_identical_and_nothing_is_done_twice_while_everything_is_killed() -> Result<()>
{
    let folder = tempfile::tempdir()?;
    write_inputs(folder.path())?;
    let mut cluster = Cluster::start(folder.path())?;
    let mut random = Random::announced();
    let quiet = cluster.start_jobs(JOBS)?;
    let began = Instant::now();
    while !cluster.are_over(&quiet).await? {
        ensure!(began.elapsed() < PATIENCE, "the undisturbed run does not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let expected = cluster.results(&quiet)?;
    let kills_of_each = from_environment("DIVVY_E2E_KILLS", 0);
    if kills_of_each == 0 {
        cluster.torment(JOBS, &expected, KILLS, &mut random).await?;
        return Ok(());
    }
    for (job, expected) in JOBS.iter().zip(expected) {
        let began = Instant::now();
        let rounds = cluster.torment(&[job], &[expected], kills_of_each, &mut random).await?;
        let took = began.elapsed().as_secs();
        eprintln!("{}: {kills_of_each} kills in {rounds} runs, {took} s", job[..2].join(" "));
    }
    Ok(())
}
