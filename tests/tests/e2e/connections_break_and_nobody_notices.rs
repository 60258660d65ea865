//! A connection is not a process: connections break again and again while a long task and many short ones run.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::api::Api;
use divvy_e2e::process::{Process, divvy, free_port, serve};
use divvy_e2e::proxy::Proxy;
use divvy_e2e::random::Random;
use divvy_e2e::{journal, random};
use serde_json::{Value, json};

/// How often all connections are cut; `DIVVY_TEST_CUTS` says otherwise.
const CUTS: u64 = 30;
/// How long connections last, in milliseconds.
const LIFE_MS: (u64, u64) = (50, 200);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_task_dies_is_lost_or_runs_twice() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let journal_file = folder.path().join("journal");
    let port = free_port()?;
    let api = Api::on(port);
    let _server = serve(&folder.path().join("data"), port)?;
    let proxy = Proxy::to(port).await?;
    let _recorder = Process::start(
        Command::new(env!("CARGO_BIN_EXE_recorder"))
            .args([proxy.url().as_str(), "recorder"])
            .arg(&journal_file),
    )?;
    let mut sleeper = divvy()?;
    sleeper.current_dir(folder.path()).stdout(Stdio::null());
    sleeper.args(["--server", &proxy.url(), "work", "--name", "sleeper", "--no-video"]);
    let _sleeper = Process::start(&mut sleeper)?;

    let cuts = random::from_environment("DIVVY_TEST_CUTS", CUTS);
    let mut random = Random::announced();
    let long_ms = cuts * (LIFE_MS.0 + LIFE_MS.1) / 2;
    let once = json!({"limit": 0});
    let mut ids = vec![uuid::Uuid::now_v7().to_string(), uuid::Uuid::now_v7().to_string()];
    let long = [
        json!({"id": ids[0], "kind": "sleep", "payload": {"ms": long_ms}, "retry": once}),
        json!({"id": ids[1], "kind": "record", "payload": {"ms": long_ms}, "retry": once}),
    ];
    api.submit(&long).await?;
    for id in &ids {
        let held = |task: &Value| task["state"] == "leased";
        api.wait_until(&format!("tasks/{id}"), "a lease", held).await?;
    }
    let mut broken = 0;
    for cut in 0..cuts {
        let id = uuid::Uuid::now_v7().to_string();
        let ms = random.below(100);
        api.submit(&[json!({"id": id, "kind": "record", "payload": {"ms": ms}, "retry": once})])
            .await?;
        ids.push(id);
        tokio::time::sleep(Duration::from_millis(LIFE_MS.0 + random.below(LIFE_MS.1 - LIFE_MS.0)))
            .await;
        broken += proxy.cut();
        ensure!(cut > 0 || broken > 0, "no connection goes through the proxy");
    }
    let journal = {
        for id in &ids {
            let ended = |task: &Value| task["state"] == "done" || task["state"] == "dead";
            let task = api.wait_until(&format!("tasks/{id}"), "an end", ended).await?;
            ensure!(task["state"] == "done", "after {broken} broken connections: {task}");
            ensure!(task["attempts"] == 1, "a second attempt was made: {task}");
        }
        journal::read(&journal_file)?
    };
    for id in ids.iter().skip(1) {
        let runs = journal.get(id).with_context(|| format!("{id} never ran"))?;
        ensure!(runs.len() == 1, "{id} ran {} times", runs.len());
    }
    Ok(())
}
