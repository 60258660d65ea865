//! Politeness and exactness of a crawl while its workers and its server are killed at random moments and other workers join:
//! judged by the log of the web server that is crawled, and by what the crawl wrote.
//!
//! A page may be fetched twice only if its first fetch was in work when its worker was killed: asked for, or answered and
//! not committed. What was committed is what the outputs hold, so that is not guessed: of every page they hold exactly one
//! fetch, the last one. Each earlier one was lost, and the kill that it was lost by is named: of the worker that had the
//! shard, or of the server, and so soon that a commit could not have come before.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::api::{Api, Method};
use divvy_e2e::process::{Process, free_port, serve};
use divvy_e2e::random::Random;
use divvy_e2e::web::{Web, worker};
use serde_json::{Value, json};

const HOSTS: u32 = 200;
const PAGES: u32 = 12;
const DELAY_MS: u64 = 300;
const KILLS: u32 = 20;
const JOINS: u32 = 5;
const SHARDS: u32 = 8;
/// After so many kills of workers the server is killed too.
const SERVER_KILLS: [u32; 2] = [KILLS / 3, KILLS * 2 / 3];
/// How long one page in eight takes, so that kills find pages in work.
const SLOW: &str = "400ms";
/// What was answered so long before a kill is committed: a batch is at most 200 ms old, and then it is written.
const COMMITTED_US: u64 = 1_000_000;
/// What a killed worker had sent is read by the web server so soon.
const READ_US: u64 = 1_000_000;
/// By how much the clocks of two processes may seem to differ, by rounding.
const ROUNDED_US: u64 = 2_000;

/// Somebody was killed.
struct Kill {
    at_us: u64,
    /// The shards that it had; nothing if it was the server, on which all depend.
    shards: Option<BTreeSet<u64>>,
}

/// A page that the web server answered, or a worker gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fetch {
    began_us: u64,
    ended_us: u64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_gap_is_too_short_and_no_page_is_lost_while_processes_are_killed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (data, log) = (folder.path().join("data"), folder.path().join("log"));
    let (hosts, pages) = (HOSTS.to_string(), PAGES.to_string());
    let log_path = log.display().to_string();
    let size = ["--plain", "--hosts", &hosts, "--pages", &pages];
    let web = Web::start(&[&size[..], &["--slow", SLOW, "--log", &log_path]].concat())?;
    let port = free_port()?;
    let api = Api::on(port);
    let mut server = serve(&data, port)?;
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
    let tasks = shard_tasks(&api).await?;
    let mut kills = Vec::new();
    for kill in 0..KILLS {
        tokio::time::sleep(Duration::from_millis(100 + random.below(300))).await;
        if SERVER_KILLS.contains(&kill) {
            kills.push(Kill { at_us: now_us()?, shards: None });
            server.kill_nine()?;
            server = serve(&data, port)?;
        }
        let victim = random.below(workers.len() as u64) as usize;
        let name = workers[victim].0.clone();
        let shards = shards_of(&api, &tasks, &name).await?;
        kills.push(Kill { at_us: now_us()?, shards: Some(shards) });
        workers[victim].1.kill_nine()?;
        // The same name comes back as another process; now and then one more joins.
        workers[victim].1 = worker(&api, &data, &name)?;
        if kill % (KILLS / JOINS) == 0 {
            let name = format!("j{kill}");
            let process = worker(&api, &data, &name)?;
            workers.push((name, process));
        }
    }
    let crawl = api.wait_until(&path, "the end", |crawl| crawl["state"] == "done").await?;
    ensure!(crawl["totals"]["impolite"] == 0, "{crawl}");
    let fetched = judge_politeness(&log)?;
    let written = written(&data.join("crawls").join(&id).join("out"))?;
    judge_exactness(&fetched, &written, &kills)
}

/// Which shard a task is.
async fn shard_tasks(api: &Api) -> Result<BTreeMap<String, u64>> {
    let mut shards = BTreeMap::new();
    for task in api.all_tasks("kind=crawl.shard").await? {
        let id = task["id"].as_str().context("a task without id")?;
        let task = api.get(&format!("tasks/{id}")).await?;
        let shard = task["payload"]["shard"].as_u64().context("a task without shard")?;
        shards.insert(id.to_owned(), shard);
    }
    ensure!(shards.len() == SHARDS as usize, "{shards:?}");
    Ok(shards)
}

/// The shards that a worker has, or had last.
async fn shards_of(
    api: &Api,
    tasks: &BTreeMap<String, u64>,
    worker: &str,
) -> Result<BTreeSet<u64>> {
    let listed = api.all_tasks("kind=crawl.shard").await?;
    let its = listed.iter().filter(|task| task["worker"] == worker);
    Ok(its.filter_map(|task| tasks.get(task["id"].as_str()?)).copied().collect())
}

fn now_us() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros() as u64)
}

/// Looks at the gaps of all hosts; the fetches of each page, in their order.
fn judge_politeness(log: &Path) -> Result<BTreeMap<String, Vec<Fetch>>> {
    let mut by_host: BTreeMap<String, Vec<Fetch>> = BTreeMap::new();
    let mut fetched: BTreeMap<String, Vec<Fetch>> = BTreeMap::new();
    for line in std::fs::read_to_string(log)?.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [began, ended, open, host, path, _status] = words[..] else {
            anyhow::bail!("a strange line: {line}")
        };
        ensure!(open == "1", "two requests of {host} were in flight: {line}");
        let fetch = Fetch { began_us: began.parse()?, ended_us: ended.parse()? };
        by_host.entry(host.to_owned()).or_default().push(fetch);
        if path != "/robots.txt" {
            fetched.entry(format!("{host}{path}")).or_default().push(fetch);
        }
    }
    ensure!(by_host.len() == HOSTS as usize, "{} of {HOSTS} hosts were asked", by_host.len());
    for (host, requests) in &mut by_host {
        requests.sort_unstable();
        for pair in requests.windows(2) {
            let gap = pair[1].began_us.saturating_sub(pair[0].ended_us);
            ensure!(gap >= DELAY_MS * 1_000, "{host} was asked again after {gap} µs");
        }
    }
    ensure!(fetched.len() == (HOSTS * PAGES) as usize, "{} pages were fetched", fetched.len());
    fetched.values_mut().for_each(|fetches| fetches.sort_unstable());
    Ok(fetched)
}

/// What the outputs hold: of each page its shard, and when it was fetched.
fn written(out: &Path) -> Result<BTreeMap<String, (u64, u64)>> {
    let mut pages = BTreeMap::new();
    for shard in 0..u64::from(SHARDS) {
        let file = out.join(format!("shard-{shard}")).join("pages.jsonl");
        for line in std::fs::read_to_string(&file)?.lines() {
            let page: Value = serde_json::from_str(line)?;
            let url = page["url"].as_str().context("a page without address")?;
            let (host, path) = url
                .strip_prefix("http://")
                .and_then(|rest| rest.split_once('/'))
                .with_context(|| format!("a strange address: {url}"))?;
            let name = host.split(':').next().unwrap_or_default();
            let at: jiff::Timestamp =
                page["fetched_at"].as_str().context("a page without a time")?.parse()?;
            let at_us = u64::try_from(at.as_microsecond())?;
            let before = pages.insert(format!("{name}/{path}"), (shard, at_us));
            ensure!(before.is_none(), "{url} was fetched again though it was committed");
        }
    }
    Ok(pages)
}

/// Each fetch but the last of a page was lost by a kill.
fn judge_exactness(
    fetched: &BTreeMap<String, Vec<Fetch>>,
    written: &BTreeMap<String, (u64, u64)>,
    kills: &[Kill],
) -> Result<()> {
    let (mut twice, mut oldest_us) = (0, 0);
    for (page, fetches) in fetched {
        let (shard, at_us) = *written.get(page).with_context(|| format!("{page} is missing"))?;
        let Some((last, lost)) = fetches.split_last() else { continue };
        ensure!(
            at_us + ROUNDED_US >= last.began_us,
            "{page} was fetched again though it was committed at {at_us}: {fetches:?}"
        );
        for (fetch, again) in lost.iter().zip(&fetches[1..]) {
            let mut lost_by = kills.iter().filter(|kill| is_lost_by(*fetch, shard, *again, kill));
            let kill = lost_by.next().with_context(|| {
                format!("{page} of shard {shard} was fetched again: {fetches:?}")
            })?;
            twice += 1;
            oldest_us = oldest_us.max(kill.at_us.saturating_sub(fetch.ended_us));
        }
    }
    eprintln_figures(twice, oldest_us, fetched.len());
    Ok(())
}

/// Whether a kill came when a page was in work at whom was killed, and before it was fetched again.
fn is_lost_by(fetch: Fetch, shard: u64, again: Fetch, kill: &Kill) -> bool {
    let had_it = kill.shards.as_ref().is_none_or(|shards| shards.contains(&shard));
    let is_sent = fetch.began_us <= kill.at_us + READ_US;
    let is_uncommitted = kill.at_us.saturating_sub(COMMITTED_US) <= fetch.ended_us;
    had_it && is_sent && is_uncommitted && kill.at_us < again.began_us
}

#[expect(clippy::print_stderr, reason = "what was measured is worth a line in the log of the test")]
fn eprintln_figures(twice: u64, oldest_us: u64, pages: usize) {
    eprintln!(
        "{twice} of {pages} pages fetched twice, answered at most {oldest_us} µs before a kill"
    );
}
