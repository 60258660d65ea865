//! Dataflow jobs of every kind while their workers and their server are killed at random moments: the result is the same,
//! byte for byte, as that of an undisturbed run, and no part that was done is done again.
//!
//! The same holds where workers do not see the server's folder of jobs, and hand everything over HTTP.
//!
//! Usually all jobs run at once through a few kills in all. `DIVVY_E2E_KILLS=20` is the long run: each job by itself, again
//! and again until so many kills have met it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::api::Api;
use divvy_e2e::duckdb;
use divvy_e2e::process::{Process, divvy, free_port, serve_with};
use divvy_e2e::random::{Random, from_environment};
use serde_json::Value;

/// Kills in all, unless the environment names those of each job.
const KILLS: u64 = 20;
/// Kills in all where most workers are elsewhere.
const KILLS_ELSEWHERE: u64 = 12;
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
        "count, avg(x), p99(x), distinct(u), common(u,k)",
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

/// Where a worker is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stands {
    /// Where the server's folder of jobs is seen.
    Beside,
    /// In a folder of its own, and told of no other.
    Elsewhere,
    /// In a folder of its own, and told that another server's folder of jobs is this server's.
    Misled,
}

/// A server with workers, all of which can be killed.
struct Cluster {
    folder: PathBuf,
    stands: Vec<Stands>,
    port: u16,
    api: Api,
    server: Process,
    workers: Vec<Process>,
}

impl Cluster {
    fn start(folder: &Path, stands: &[Stands]) -> Result<Self> {
        let port = free_port()?;
        let api = Api::on(port);
        let read = format!("flow:\n  read: [{}]\n", folder.display());
        std::fs::write(folder.join("server.yaml"), read)?;
        let server = Self::serve(folder, port)?;
        let (folder, stands) = (folder.to_owned(), stands.to_vec());
        let mut cluster = Self { folder, stands, port, api, server, workers: Vec::new() };
        for at in 0..cluster.stands.len() {
            let worker = cluster.worker(at)?;
            cluster.workers.push(worker);
        }
        Ok(cluster)
    }

    fn serve(folder: &Path, port: u16) -> Result<Process> {
        let mut command = divvy()?;
        command.arg("--config").arg(folder.join("server.yaml"));
        command.arg("serve").arg("--data").arg(folder.join("data"));
        command.args(["--listen", &format!("127.0.0.1:{port}"), "--json"]);
        serve_with(&mut command)
    }

    fn worker(&self, at: usize) -> Result<Process> {
        let mut command = divvy()?;
        command.args(["--config", "/dev/null", "work", "--server", self.api.url()]);
        command.args(["--name", &format!("w{at}"), "--no-video", "--no-crawl"]);
        command.args(["--slots", "cpu=2", "--flow-commands"]);
        let elsewhere = self.folder.join(format!("elsewhere-{at}"));
        match self.stands[at] {
            Stands::Beside => {
                command.arg("--flows").arg(self.folder.join("data/flows"));
                command.arg("--flow-read").arg(&self.folder);
            }
            stands => {
                std::fs::create_dir_all(elsewhere.join("flows"))?;
                command.arg("--flow-scratch").arg(elsewhere.join("scratch"));
                if stands == Stands::Misled {
                    let _ = symlink("0".repeat(32), elsewhere.join("flows/identity"));
                    command.arg("--flows").arg(elsewhere.join("flows"));
                }
                command.current_dir(&elsewhere);
            }
        }
        let log = File::create(self.folder.join(format!("w{at}.log")))?;
        Process::start(command.stdout(Stdio::null()).stderr(log))
    }

    /// What a worker has told so far.
    fn told(&self, at: usize) -> Result<String> {
        Ok(std::fs::read_to_string(self.folder.join(format!("w{at}.log")))?)
    }

    /// Who did the parts of a job, and how many bytes went over HTTP for it.
    async fn done_by(&self, id: &str) -> Result<(BTreeSet<String>, u64)> {
        let job = self.api.get(&format!("flows/{id}")).await?;
        let mut workers = BTreeSet::new();
        for stage in 0..job["stages"].as_array().context("no stages")?.len() {
            let parts = self.api.get(&format!("flows/{id}/stages/{stage}")).await?;
            for part in parts["items"].as_array().context("no parts")? {
                workers.insert(part["worker"].as_str().context("no worker")?.to_owned());
            }
        }
        let count = |name: &str| job["counters"][name].as_u64().unwrap_or(0);
        Ok((workers, count("bytes read over HTTP") + count("bytes sent over HTTP")))
    }

    /// Kills somebody, who comes back: the server first, then a worker, then whoever chance names.
    fn kill(&mut self, kills_before: u64, random: &mut Random) -> Result<()> {
        let victim = match kills_before {
            0 => self.stands.len(),
            1 => random.below(self.stands.len() as u64) as usize,
            _ => random.below(self.stands.len() as u64 + 1) as usize,
        };
        if victim == self.stands.len() {
            self.server.kill_nine()?;
            self.server = Self::serve(&self.folder, self.port)?;
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

    /// Runs these jobs to their end; their ids.
    async fn run(&self, jobs: &[&[&str]]) -> Result<Vec<String>> {
        let ids = self.start_jobs(jobs)?;
        let began = Instant::now();
        while !self.are_over(&ids).await? {
            ensure!(began.elapsed() < PATIENCE, "the undisturbed run does not end");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(ids)
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
    Ok(())
}

fn write_parquet(folder: &Path) -> Result<()> {
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
    write_parquet(folder.path())?;
    let mut cluster = Cluster::start(folder.path(), &[Stands::Beside, Stands::Beside])?;
    let mut random = Random::announced();
    let quiet = cluster.run(JOBS).await?;
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

/// Whether parts of a job can be done by workers that do not see the server's folder.
fn goes_anywhere(job: &[&str]) -> bool {
    ["mapreduce", "aggregate", "sort"].contains(&job[0])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_do_not_see_the_folder_of_jobs_bring_the_same_results() -> Result<()> {
    let folder = tempfile::tempdir()?;
    write_inputs(folder.path())?;
    let jobs: Vec<&[&str]> =
        JOBS.iter().copied().filter(|job| !job.contains(&"rows.parquet")).collect();
    let mut cluster = Cluster::start(folder.path(), &[Stands::Beside])?;
    let beside = cluster.run(&jobs).await?;
    let expected = cluster.results(&beside)?;
    ensure!(cluster.done_by(&beside[0]).await?.1 == 0, "a worker beside the server asked it");

    // Nobody but workers elsewhere.
    cluster.workers[0].kill_nine()?;
    cluster.stands = vec![Stands::Elsewhere, Stands::Misled];
    cluster.workers = vec![cluster.worker(0)?, cluster.worker(1)?];
    let anywhere: Vec<&[&str]> = jobs.iter().copied().filter(|job| goes_anywhere(job)).collect();
    let elsewhere = cluster.run(&anywhere).await?;
    let found = cluster.results(&elsewhere)?;
    let expected_anywhere: Vec<&Files> = jobs
        .iter()
        .zip(&expected)
        .filter(|(job, _)| goes_anywhere(job))
        .map(|(_, files)| files)
        .collect();
    for ((job, id), (found, expected)) in
        anywhere.iter().zip(&elsewhere).zip(found.iter().zip(expected_anywhere))
    {
        ensure!(found == expected, "{job:?} has another result elsewhere");
        let (_, bytes) = cluster.done_by(id).await?;
        ensure!(bytes > 0, "{job:?}: nothing went over HTTP");
    }
    for at in 0..2 {
        let told = cluster.told(at)?;
        ensure!(told.contains("takes parts of jobs over HTTP"), "{told}");
    }
    let left = std::fs::read_dir(folder.path().join("elsewhere-1/flows"))?.count();
    ensure!(left == 1, "a worker wrote into a folder that is not this server's");

    // What keeps files between its attempts waits for a worker beside the server, and says so.
    let waiting = cluster.start_jobs(&jobs[jobs.len() - 1..])?;
    let explained = format!("flows/{}/explain", waiting[0]);
    let says = |answer: &Value| answer.to_string().contains("--flows DIR");
    cluster.api.wait_until(&explained, "what it waits for", says).await?;
    cluster.stands.push(Stands::Beside);
    let third = cluster.worker(2)?;
    cluster.workers.push(third);
    let path = format!("flows/{}", waiting[0]);
    cluster.api.wait_until(&path, "the end", |job| job["state"] == "done").await?;

    // All together, killed at random.
    let mut random = Random::announced();
    cluster.torment(&jobs, &expected, KILLS_ELSEWHERE, &mut random).await?;
    Ok(())
}
