//! What people set and what programs saved is there after `kill -9` of a real server: schedules, settings, unique keys,
//! checkpoints.
//!
//! The moments of the kills are random. What is claimed holds at any of them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::api::{Api, Method};
use divvy_e2e::process::{Process, divvy, free_port, serve_with};
use divvy_e2e::random::Random;
use divvy_types::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;

const SECOND_US: u64 = 1_000_000;
/// The settings file of the server; empty at first.
const FILE: &str = "divvy.yaml";

/// A server that comes back on the same address and data.
struct Site {
    api: Api,
    folder: TempDir,
    port: u16,
    server: Process,
}

impl Site {
    fn new() -> Result<Self> {
        let (folder, port) = (tempfile::tempdir()?, free_port()?);
        fs::write(folder.path().join(FILE), "")?;
        let server = start(folder.path(), port)?;
        Ok(Self { api: Api::on(port), folder, port, server })
    }

    /// Kills the server and starts it again after a while.
    async fn kill_and_restart(&mut self, down: Duration) -> Result<()> {
        self.server.kill_nine()?;
        tokio::time::sleep(down).await;
        self.server = start(self.folder.path(), self.port)?;
        Ok(())
    }

    fn worker(&self, name: &str, more: &[&str]) -> Result<Process> {
        let mut command = divvy()?;
        command
            .args(["--config", "/dev/null", "--server", self.api.url(), "work", "--name", name])
            .args(["--slots", "async=4,process=1"])
            .args(more)
            .stdout(Stdio::null());
        Process::start(&mut command)
    }

    /// Submits one task: the whole answer.
    async fn submit(&self, task: Value) -> Result<Value> {
        let (status, answer) = self.api.submit(&[task]).await?;
        ensure!(status == 200 || status == 201, "{status} {answer}");
        Ok(answer)
    }

    async fn task(&self, id: &str) -> Result<Value> {
        self.api.get(&format!("tasks/{id}")).await
    }

    async fn ended(&self, id: &str) -> Result<Value> {
        let is_done = |task: &Value| task["state"] == "done";
        self.api.wait_until(&format!("tasks/{id}"), "the task to be done", is_done).await
    }

    /// The ticks for which tasks are in a queue, in seconds. A tick with two tasks is an error.
    async fn ticks(&self, queue: &str) -> Result<BTreeSet<u64>> {
        let mut ticks = BTreeSet::new();
        for task in self.api.all_tasks(&format!("queue={queue}")).await? {
            let detail = self.task(task["id"].as_str().context("no id")?).await?;
            let at: Timestamp = serde_json::from_value(detail["run_at"].clone())?;
            ensure!(at.0.is_multiple_of(SECOND_US), "{at} is no tick of {queue}");
            ensure!(ticks.insert(at.0 / SECOND_US), "the tick {at} of {queue} has two tasks");
        }
        Ok(ticks)
    }
}

fn start(folder: &Path, port: u16) -> Result<Process> {
    let mut command = divvy()?;
    command.arg("--config").arg(folder.join(FILE)).arg("serve").arg("--data");
    command.arg(folder.join("data")).args(["--lease", "1s", "--json", "--listen"]);
    serve_with(command.arg(format!("127.0.0.1:{port}")))
}

fn id_of(answer: &Value) -> Result<&str> {
    answer["ids"][0].as_str().with_context(|| format!("no id: {answer}"))
}

/// When the last tick of a schedule was dealt with.
fn upto(schedule: &Value) -> Result<u64> {
    let at: Timestamp = serde_json::from_value(schedule["upto"].clone())?;
    Ok(at.0)
}

#[tokio::test]
async fn a_schedule_fires_each_tick_once_over_kills_of_the_server() -> Result<()> {
    let mut site = Site::new()?;
    let mut random = Random::announced();
    let _worker = site.worker("clerk", &[])?;
    for (name, catch_up) in [("every", "all"), ("newest", "skip")] {
        let task = json!({ "kind": "noop", "queue": name });
        let schedule = json!({ "cron": "@every 1s", "catch_up": catch_up, "task": task });
        site.api.set(Method::PUT, &format!("schedules/{name}"), &schedule).await?;
    }
    let task = json!({ "kind": "noop", "queue": "resting" });
    let resting = json!({ "cron": "@every 1s", "paused": true, "task": task });
    site.api.set(Method::PUT, "schedules/resting", &resting).await?;
    let before = site.api.get("schedules/every").await?;
    for kill in 0..3 {
        // Just after a tick was seen, or somewhere between two.
        let seen = upto(&site.api.get("schedules/every").await?)?;
        let ticked = |schedule: &Value| upto(schedule).is_ok_and(|at| at > seen);
        site.api.wait_until("schedules/every", "a tick", ticked).await?;
        tokio::time::sleep(Duration::from_millis(random.below(900) * (kill % 2))).await;
        let down = Duration::from_millis(random.below(1_200));
        site.kill_and_restart(down).await?;
    }
    let after = site.api.get("schedules/every").await?;
    assert_eq!(after["schedule"], before["schedule"]);
    assert_eq!(after["set_at"], before["set_at"]);
    let restarted = upto(&after)?;
    let fired_twice = |schedule: &Value| upto(schedule).is_ok_and(|at| at > restarted + SECOND_US);
    site.api.wait_until("schedules/every", "two more ticks", fired_twice).await?;
    let every = site.ticks("every").await?;
    let (first, last) = (every.first().context("none")?, every.last().context("none")?);
    let range: BTreeSet<u64> = (*first..=*last).collect();
    assert_eq!(every, range, "no tick is left out while the server was down");
    assert!(*last > restarted / SECOND_US, "it fires again");
    let newest = site.ticks("newest").await?;
    assert!(newest.last() > Some(&(restarted / SECOND_US)), "it fires again: {newest:?}");
    let resting = site.api.get("schedules/resting").await?;
    assert_eq!(resting["schedule"]["paused"], true, "{resting}");
    assert!(site.api.all_tasks("queue=resting").await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_schedule_that_was_removed_stays_away() -> Result<()> {
    let mut site = Site::new()?;
    let schedule = json!({ "cron": "@every 1s", "task": { "kind": "noop" } });
    for name in ["kept", "gone"] {
        site.api.set(Method::PUT, &format!("schedules/{name}"), &schedule).await?;
    }
    site.api.set(Method::DELETE, "schedules/gone", &json!({})).await?;
    site.kill_and_restart(Duration::ZERO).await?;
    let list = site.api.get("schedules").await?;
    let names: Vec<&Value> =
        list["items"].as_array().context("no list")?.iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["kept"], "{list}");
    Ok(())
}

#[tokio::test]
async fn settings_of_the_api_hold_after_a_kill() -> Result<()> {
    let mut site = Site::new()?;
    let patch = json!({
        "load_balancing": { "strategy": "pull", "thresholds": { "busy_threshold": 7 } },
        "ordering": { "ageing_sec": 5.0 },
        "queues": { "reports": { "weight": 3, "fair_weights": { "acme": 5 } } },
        "kinds": { "sleep": { "timeout_ms": 54_321, "limits": ["api"] } },
        "limits": { "api": { "concurrency": 1 }, "spare": { "rate": "10/s" } },
        "poison_after": 9,
    });
    site.api.set(Method::PATCH, "settings", &patch).await?;
    site.api.set(Method::DELETE, "limits/spare", &json!({})).await?;
    site.api.set(Method::POST, "queues/mail/pause", &json!({})).await?;
    let before = site.api.get("settings").await?;
    site.kill_and_restart(Duration::ZERO).await?;
    let after = site.api.get("settings").await?;
    assert_eq!(after["settings"], before["settings"]);
    assert_eq!(after["settings"]["poison_after"], 9, "{after}");
    assert!(after["settings"]["limits"]["spare"].is_null(), "{after}");

    // They are not only shown, they hold.
    let _worker = site.worker("clerk", &[])?;
    let sleep = json!({ "kind": "sleep", "payload": { "ms": 30_000 } });
    let first = site.submit(sleep.clone()).await?;
    let first = format!("tasks/{}", id_of(&first)?);
    let runs = site.api.wait_until(&first, "a lease", |task| task["state"] == "leased").await?;
    assert_eq!(runs["timeout_ms"], 54_321, "{runs}");
    let second = site.submit(sleep).await?;
    let second = site.task(id_of(&second)?).await?;
    assert_eq!(second["wait"]["reason"], "limit", "{second}");
    assert_eq!(second["wait"]["limit"], "api", "{second}");
    let letter = site.submit(json!({ "kind": "noop", "queue": "mail" })).await?;
    let letter = site.task(id_of(&letter)?).await?;
    assert_eq!(letter["wait"]["reason"], "queue_paused", "{letter}");
    Ok(())
}

#[tokio::test]
async fn a_section_of_the_file_and_one_of_the_api_both_hold_after_a_kill() -> Result<()> {
    let mut site = Site::new()?;
    let file = site.folder.path().join(FILE);
    fs::write(&file, "limits:\n  api: {concurrency: 2}\n")?;
    site.kill_and_restart(Duration::ZERO).await?;
    site.api.set(Method::PATCH, "settings", &json!({ "poison_after": 9 })).await?;
    let (status, refused) =
        site.api.send(Method::PATCH, "settings", &json!({ "limits": { "api": null } })).await?;
    assert!((400..500).contains(&status), "the file has this section: {status} {refused}");
    let limit_of = |settings: &Value| settings["settings"]["limits"]["api"]["concurrency"].clone();
    let settings = site.api.get("settings").await?;
    assert_eq!(limit_of(&settings), 2, "{settings}");

    // What the file says at the start holds, also if it was changed while the server was away.
    site.server.kill_nine()?;
    fs::write(&file, "limits:\n  api: {concurrency: 3}\n")?;
    site.kill_and_restart(Duration::ZERO).await?;
    let settings = site.api.get("settings").await?;
    assert_eq!(limit_of(&settings), 3, "{settings}");
    assert_eq!(settings["settings"]["poison_after"], 9, "{settings}");
    Ok(())
}

#[tokio::test]
async fn a_unique_key_still_skips_after_a_kill() -> Result<()> {
    let mut site = Site::new()?;
    let report = |unique: Value| json!({ "kind": "noop", "queue": "reports", "unique": unique });
    let for_an_hour = json!({ "key": "hourly", "window_ms": 3_600_000 });
    let while_open = json!({ "key": "open" });
    let over = json!({ "key": "over" });
    // One whose window is open after its end, one that waits, and one that is over.
    let worker = site.worker("clerk", &[])?;
    let hourly = site.submit(report(for_an_hour.clone())).await?;
    let ended = site.submit(report(over.clone())).await?;
    site.ended(id_of(&hourly)?).await?;
    site.ended(id_of(&ended)?).await?;
    drop(worker);
    let waiting = site.submit(report(while_open.clone())).await?;
    for _ in 0..2 {
        site.kill_and_restart(Duration::ZERO).await?;
        for (unique, first) in [(&for_an_hour, &hourly), (&while_open, &waiting)] {
            let answer = site.submit(report(unique.clone())).await?;
            assert_eq!(answer["accepted"], 0, "{unique}: {answer}");
            assert_eq!(answer["conflicts"][0]["first"], first["ids"][0], "{unique}: {answer}");
        }
    }
    let again = site.submit(report(over)).await?;
    assert_eq!(again["accepted"], 1, "a key without a window is free again: {again}");
    // What was skipped is not there, and the key of a task goes with it, also of one that came from the disk.
    let _worker = site.worker("clerk", &[])?;
    site.ended(id_of(&waiting)?).await?;
    let next = site.submit(report(while_open)).await?;
    assert_eq!(next["accepted"], 1, "{next}");
    site.ended(id_of(&next)?).await?;
    assert_eq!(site.api.all_tasks("queue=reports").await?.len(), 5);
    Ok(())
}

/// A program that counts up and saves each count, until a gate is gone; the next attempt finishes at once. Every count
/// is also written to a journal.
struct Counter {
    journal: PathBuf,
    exec: String,
}

impl Counter {
    fn new(folder: &Path) -> Result<Self> {
        let (program, journal, gate) =
            (folder.join("count"), folder.join("journal"), folder.join("gate"));
        fs::write(&gate, "")?;
        let text = format!(
            r#"#!/bin/sh
if [ -e "$DIVVY_CHECKPOINT_FILE" ]; then
  cat "$DIVVY_CHECKPOINT_FILE"
  exit 0
fi
count=0
# The gate goes away with the test, and this program with it.
while [ -e '{gate}' ]; do
  count=$((count + 1))
  echo "{{\"count\": $count}}" > "$DIVVY_CHECKPOINT_FILE.new"
  mv "$DIVVY_CHECKPOINT_FILE.new" "$DIVVY_CHECKPOINT_FILE"
  echo "$count" >> '{journal}'
  sleep 0.1
done
exit 75
"#,
            gate = gate.display(),
            journal = journal.display()
        );
        fs::write(&program, text)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        Ok(Self { journal, exec: format!("count={}", program.display()) })
    }

    /// The last count that was reached.
    fn reached(&self) -> u64 {
        let journal = fs::read_to_string(&self.journal).unwrap_or_default();
        journal.lines().filter_map(|line| line.parse().ok()).max().unwrap_or_default()
    }

    async fn reaches(&self, count: u64) -> Result<()> {
        tokio::time::timeout(divvy_e2e::api::PATIENCE, async {
            while self.reached() < count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .with_context(|| format!("the program reached {} and not {count}", self.reached()))
    }
}

/// Whether the server learns that the worker is gone before it goes itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Worker,
    Server,
}

async fn checkpoint_over_kills(first: First) -> Result<()> {
    let mut site = Site::new()?;
    let counter = Counter::new(site.folder.path())?;
    let mut worker = site.worker("first", &["--exec", &counter.exec])?;
    let retry = json!({ "limit": 3, "base_ms": 10 });
    let answer = site.submit(json!({ "kind": "count", "retry": retry })).await?;
    // The file is looked at once per second; this many counts take three.
    counter.reaches(30).await?;
    if first == First::Worker {
        worker.kill_nine()?;
        let gone = |workers: &Value| workers["items"].as_array().is_some_and(Vec::is_empty);
        site.api.wait_until("workers", "the end to be noticed", gone).await?;
    }
    site.server.kill_nine()?;
    worker.kill_nine()?;
    site.kill_and_restart(Duration::ZERO).await?;
    let _second = site.worker("second", &["--exec", &counter.exec])?;
    let task = site.ended(id_of(&answer)?).await?;
    assert_eq!(task["worker"], "second", "{task}");
    assert_eq!(task["attempts"], 2, "the first has begun and counts: {task}");
    let saved = task["result"]["count"].as_u64().with_context(|| format!("{task}"))?;
    assert!((5..=counter.reached()).contains(&saved), "{saved} of {}", counter.reached());
    Ok(())
}

#[tokio::test]
async fn a_checkpoint_reaches_the_next_attempt_after_a_kill_of_worker_and_then_server() -> Result<()>
{
    checkpoint_over_kills(First::Worker).await
}

#[tokio::test]
async fn a_checkpoint_reaches_the_next_attempt_after_a_kill_of_server_and_then_worker() -> Result<()>
{
    checkpoint_over_kills(First::Server).await
}
