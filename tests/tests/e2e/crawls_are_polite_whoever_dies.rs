//! Politeness and exactness of a crawl while its workers are killed at random moments and others join: judged by the log of
//! the web server that is crawled.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::api::{Api, Method};
use divvy_e2e::process::{Process, divvy, free_port, serve};
use divvy_e2e::random::Random;
use serde_json::{Value, json};

const HOSTS: u32 = 200;
const PAGES: u32 = 12;
const DELAY_MS: u64 = 300;
const KILLS: u32 = 20;
const JOINS: u32 = 5;
const SHARDS: u32 = 8;
/// What was answered so long before a kill is committed.
const COMMITTED_US: u64 = 2_000_000;
/// What a killed worker had sent is read by the web server so soon.
const READ_US: u64 = 1_000_000;

/// The demo web as a process, and what it says of itself.
struct Web {
    _process: Process,
    told: Value,
}

impl Web {
    fn start(log: &Path, more: &[&str]) -> Result<Self> {
        let mut command = divvy()?;
        command.args(["--json", "crawl", "demo", "--port", "0", "--log"]).arg(log).args(more);
        let (process, told) = first_line(&mut command)?;
        Ok(Self { _process: process, told })
    }

    fn text(&self, name: &str) -> &str {
        self.told[name].as_str().unwrap_or_default()
    }
}

/// Starts a command; its first line as JSON.
fn first_line(command: &mut Command) -> Result<(Process, Value)> {
    let mut process = Process::start(command.stdout(Stdio::piped()))?;
    let stdout = process.output().context("no output")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    Ok((process, serde_json::from_str(&line).with_context(|| format!("it said {line:?}"))?))
}

fn worker(api: &Api, data: &Path, name: &str) -> Result<Process> {
    let mut command = divvy()?;
    command.args(["work", "--server", api.url(), "--name", name, "--no-video", "--allow-private"]);
    command.arg("--crawls").arg(data.join("crawls")).args(["--slots", "async=3"]);
    Process::start(command.stdout(Stdio::null()).stderr(Stdio::null()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_gap_is_too_short_and_no_page_is_lost_while_workers_are_killed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (data, log) = (folder.path().join("data"), folder.path().join("log"));
    let (hosts, pages) = (HOSTS.to_string(), PAGES.to_string());
    let web = Web::start(&log, &["--plain", "--hosts", &hosts, "--pages", &pages])?;
    let port = free_port()?;
    let api = Api::on(port);
    let _server = serve(&data, port)?;
    let mut random = Random::announced();
    let mut workers: Vec<(String, Process)> = Vec::new();
    for at in 0..4 {
        let name = format!("w{at}");
        let process = worker(&api, &data, &name)?;
        workers.push((name, process));
    }
    let new = json!({
        "seeds": [web.text("url")],
        "rules": {
            "scope": "any", "delay_ms": DELAY_MS, "shards": SHARDS,
            "resolve": [web.text("resolve")], "allow_private": [web.text("allow_private")],
        },
    });
    let crawl = api.set(Method::POST, "crawls", &new).await?;
    let id = crawl["id"].as_str().context("no id")?.to_owned();
    let path = format!("crawls/{id}");
    api.wait_until(&path, "the first pages", |crawl| {
        crawl["totals"]["pages"].as_u64().is_some_and(|pages| pages > 20)
    })
    .await?;
    let mut kills = Vec::new();
    for kill in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(100 + random.below(300))).await;
        let victim = random.below(workers.len() as u64) as usize;
        kills.push(now_us()?);
        workers[victim].1.kill_nine()?;
        // The same name comes back as another process; now and then one more joins.
        workers[victim].1 = worker(&api, &data, &workers[victim].0.clone())?;
        if kill % (KILLS / JOINS) == 0 {
            let name = format!("j{kill}");
            let process = worker(&api, &data, &name)?;
            workers.push((name, process));
        }
    }
    let crawl = api.wait_until(&path, "the end", |crawl| crawl["state"] == "done").await?;
    ensure!(crawl["totals"]["impolite"] == 0, "{crawl}");
    judge(&log, &kills)
}

fn now_us() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros() as u64)
}

/// What the web server saw.
fn judge(log: &Path, kills: &[u64]) -> Result<()> {
    let mut by_host: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    let mut fetched: BTreeMap<(String, String), Vec<(u64, u64)>> = BTreeMap::new();
    for line in std::fs::read_to_string(log)?.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [began, ended, open, host, path, _status] = words[..] else {
            anyhow::bail!("a strange line: {line}")
        };
        ensure!(open == "1", "two requests of {host} were in flight: {line}");
        let times = (began.parse()?, ended.parse()?);
        by_host.entry(host.to_owned()).or_default().push(times);
        if path != "/robots.txt" {
            fetched.entry((host.to_owned(), path.to_owned())).or_default().push(times);
        }
    }
    ensure!(by_host.len() == HOSTS as usize, "{} of {HOSTS} hosts were asked", by_host.len());
    let mut least = u64::MAX;
    for (host, requests) in &mut by_host {
        requests.sort_unstable();
        for pair in requests.windows(2) {
            let gap = pair[1].0.saturating_sub(pair[0].1);
            least = least.min(gap);
            ensure!(gap >= DELAY_MS * 1_000, "{host} was asked again after {gap} µs");
        }
    }
    ensure!(fetched.len() == (HOSTS * PAGES) as usize, "{} pages were fetched", fetched.len());
    let mut twice = 0;
    for (page, times) in &mut fetched {
        times.sort_unstable();
        for pair in times.windows(2) {
            twice += 1;
            ensure!(is_excused(pair[0], pair[1], kills), "{page:?} was fetched again: {times:?}");
        }
    }
    eprintln_figures(least, twice, fetched.len());
    Ok(())
}

/// Whether a kill came when a page was in flight or just answered, and before it was fetched again.
fn is_excused((began, ended): (u64, u64), again: (u64, u64), kills: &[u64]) -> bool {
    kills.iter().any(|kill| {
        began <= kill + READ_US && kill.saturating_sub(COMMITTED_US) <= ended && *kill < again.0
    })
}

#[expect(clippy::print_stderr, reason = "what was measured is worth a line in the log of the test")]
fn eprintln_figures(least_us: u64, twice: u32, pages: usize) {
    eprintln!("least gap {least_us} µs, {twice} of {pages} pages fetched twice");
}
