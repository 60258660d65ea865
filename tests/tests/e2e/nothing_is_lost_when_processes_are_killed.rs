//! The promise, under `kill -9` of server and workers at random moments while a graph of tasks flows.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::api::Api;
use divvy_e2e::process::{Process, free_port, serve};
use divvy_e2e::random::Random;
use divvy_e2e::{journal, process, random};
use serde_json::{Value, json};

/// How often something is killed; `DIVVY_TEST_KILLS` says otherwise.
const KILLS: u64 = 24;
const WORKERS: usize = 3;
const BATCHES: usize = 60;
const BATCH: usize = 50;

/// A task that may depend on earlier ones of the same or an earlier batch.
#[derive(Clone)]
struct Planned {
    id: String,
    after: Vec<String>,
}

fn plan(random: &mut Random) -> Vec<Vec<Planned>> {
    let mut all: Vec<String> = Vec::new();
    (0..BATCHES)
        .map(|_| {
            (0..BATCH)
                .map(|_| {
                    let id = uuid::Uuid::now_v7().to_string();
                    let edges = if all.is_empty() { 0 } else { random.below(3) };
                    // Mostly recent parents, so that chains are long and still open.
                    let near = |random: &mut Random| {
                        all.len() - 1 - random.below(all.len().min(80) as u64) as usize
                    };
                    let mut after: Vec<String> =
                        (0..edges).map(|_| all[near(random)].clone()).collect();
                    after.sort();
                    after.dedup();
                    all.push(id.clone());
                    Planned { id, after }
                })
                .collect()
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_task_is_done_exactly_once_and_in_order() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (data, journal_file) = (folder.path().join("data"), folder.path().join("journal"));
    let port = free_port()?;
    let api = Api::on(port);
    let mut random = Random::announced();
    let plan = plan(&mut random);

    let mut server = serve(&data, port)?;
    let mut workers: Vec<Process> =
        (0..WORKERS).map(|n| recorder(&api, n, &journal_file)).collect::<Result<_>>()?;
    let submitter = tokio::spawn(submit_all(api.clone(), plan.clone()));
    let mut server_kills = 0;
    for kill in 0..random::from_environment("DIVVY_TEST_KILLS", KILLS) {
        tokio::time::sleep(Duration::from_millis(40 + random.below(260))).await;
        // Every third kill hits the server, the others a worker.
        if kill % 3 == 0 {
            server.kill_nine()?;
            server_kills += 1;
            tokio::time::sleep(Duration::from_millis(random.below(100))).await;
            server = serve(&data, port)?;
        } else {
            let victim = random.below(WORKERS as u64) as usize;
            workers[victim].kill_nine()?;
            workers[victim] = recorder(&api, victim, &journal_file)?;
        }
    }
    ensure!(server_kills >= 8);
    submitter.await??;
    let total = (BATCHES * BATCH) as u64;
    api.wait_until("stats", "an empty server", |stats| {
        ["blocked", "scheduled", "ready", "leased"].iter().all(|state| stats["engine"][*state] == 0)
    })
    .await?;
    let tasks = api.all_tasks("").await?;
    ensure!(tasks.len() as u64 == total, "{} of {total} acknowledged tasks are there", tasks.len());
    check(&api, &plan, &tasks, &journal_file).await
}

fn recorder(api: &Api, number: usize, journal: &Path) -> Result<Process> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_recorder"));
    Process::start(command.args([api.url(), &format!("recorder-{number}")]).arg(journal))
}

/// Submits each batch until it is acknowledged: a repeated submit is the same tasks.
async fn submit_all(api: Api, plan: Vec<Vec<Planned>>) -> Result<()> {
    for batch in plan {
        let tasks: Vec<Value> = batch
            .iter()
            .map(|task| {
                json!({
                    "id": task.id, "kind": "record", "after": task.after, "payload": {"ms": 2},
                    // A task whose worker is killed again and again must not run out of attempts here.
                    "retry": {"limit": 100, "base_ms": 10, "cap_ms": 50, "jitter_percent": 0},
                })
            })
            .collect();
        loop {
            match api.submit(&tasks).await {
                Ok((200 | 201, _)) => break,
                Ok((503, _)) | Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                Ok((status, answer)) => anyhow::bail!("a batch was refused: {status} {answer}"),
            }
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    Ok(())
}

async fn check(
    api: &Api,
    plan: &[Vec<Planned>],
    tasks: &[Value],
    journal_file: &Path,
) -> Result<()> {
    let journal = journal::read(journal_file)?;
    let mut finishing: BTreeMap<&str, u64> = BTreeMap::new();
    for task in tasks {
        let id = task["id"].as_str().context("no id")?;
        ensure!(task["state"] == "done", "task {id} is {}: {}", task["state"], task["error"]);
    }
    for task in plan.iter().flatten() {
        let detail = api.get(&format!("tasks/{}", task.id)).await?;
        let history = detail["history"].as_array().context("no history")?;
        let ends: Vec<&Value> =
            history.iter().filter(|attempt| attempt["error"].is_null()).collect();
        ensure!(
            ends.len() == 1,
            "task {} has {} finishing attempts: {detail}",
            task.id,
            ends.len()
        );
        let tokens: Vec<u64> =
            history.iter().filter_map(|attempt| attempt["token"].as_u64()).collect();
        ensure!(tokens.is_sorted_by(|a, b| a < b), "tokens of {} do not grow: {tokens:?}", task.id);
        let token = ends[0]["token"].as_u64().context("no token")?;
        finishing.insert(&task.id, token);
        let runs = journal.get(&task.id).with_context(|| format!("task {} never ran", task.id))?;
        ensure!(
            runs.keys().max() == Some(&token),
            "task {} was granted again after its finish: {runs:?}",
            task.id
        );
        ensure!(
            runs[&token].end.is_some(),
            "task {} is done but its last attempt did not end",
            task.id
        );
    }
    for task in plan.iter().flatten() {
        let starts = journal[&task.id].values().filter_map(|span| span.start);
        let first = starts.min().context("no start")?;
        for parent in &task.after {
            let end = journal[parent][&finishing[parent.as_str()]].end.context("no end")?;
            ensure!(
                end < first,
                "task {} started on line {first}, its parent {parent} ended on {end}",
                task.id
            );
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_task_does_not_notice_that_the_server_was_killed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (data, journal_file) = (folder.path().join("data"), folder.path().join("journal"));
    let port = free_port()?;
    let api = Api::on(port);
    let mut server = serve(&data, port)?;
    let _worker = recorder(&api, 0, &journal_file)?;
    let id = uuid::Uuid::now_v7().to_string();
    api.submit(&[json!({"id": id, "kind": "record", "payload": {"ms": 6_000}})]).await?;
    let path = format!("tasks/{id}");
    api.wait_until(&path, "a lease", |task| task["state"] == "leased").await?;
    // An attempt is recorded as held when it has run for two seconds.
    tokio::time::sleep(Duration::from_millis(3_000)).await;
    server.kill_nine()?;
    let _server = serve(&data, port)?;
    let _other = recorder(&api, 1, &journal_file)?;
    let task = api.wait_until(&path, "a finish", |task| task["state"] == "done").await?;
    ensure!(task["attempts"] == 1 && task["worker"] == "recorder-0", "{task}");
    let runs = &journal::read(&journal_file)?[&id];
    ensure!(runs.len() == 1, "it ran {} times", runs.len());
    Ok(())
}

#[test]
fn the_binary_under_test_is_there() -> Result<()> {
    ensure!(process::divvy()?.arg("--version").output()?.status.success());
    Ok(())
}
