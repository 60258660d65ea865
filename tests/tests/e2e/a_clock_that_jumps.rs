//! The clock of the server's machine is set back by an hour and forward by nine days, while a task runs and others wait.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::api::Api;
use divvy_e2e::process::{Process, divvy, free_port, serve_with};
use divvy_types::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

/// A server whose wall clock is off by what a file says, which may change at any time.
fn serve(folder: &Path, port: u16) -> Result<Process> {
    let mut command = divvy()?;
    command
        .env("LD_PRELOAD", libfaketime()?)
        .env("FAKETIME_TIMESTAMP_FILE", folder.join("clock"))
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .env("FAKETIME_DONT_RESET", "1")
        .current_dir(folder)
        .args(["serve", "--data", "data", "--retention-days", "7", "--json", "--listen"])
        .arg(format!("127.0.0.1:{port}"));
    serve_with(&mut command)
}

fn set_clock(folder: &Path, off_by: &str) -> Result<()> {
    let part = folder.join("clock.part");
    std::fs::write(&part, off_by)?;
    Ok(std::fs::rename(part, folder.join("clock"))?)
}

/// Debian has a folder for each kind of machine.
fn libfaketime() -> Result<PathBuf> {
    let places = std::fs::read_dir("/usr/lib")?
        .filter_map(|entry| Some(entry.ok()?.path().join("faketime/libfaketimeMT.so.1")));
    places
        .into_iter()
        .find(|file| file.exists())
        .context("libfaketime is missing; install it: apt-get install faketime")
}

fn task(kind: &str, payload: &Value) -> (String, Value) {
    let id = Uuid::now_v7().to_string();
    // What the clock would cost it is an attempt, and it has one.
    let task = json!({"id": id, "kind": kind, "payload": payload, "retry": {"limit": 0}});
    (id, task)
}

fn in_a_second() -> Result<Timestamp> {
    let at = SystemTime::now().duration_since(UNIX_EPOCH)? + Duration::from_secs(1);
    Ok(Timestamp(at.as_micros().try_into()?))
}

async fn is_done(api: &Api, id: &str) -> Result<()> {
    let ended = |task: &Value| task["state"] == "done" || task["state"] == "dead";
    let task = api.wait_until(&format!("tasks/{id}"), "an end", ended).await?;
    ensure!(task["state"] == "done" && task["attempts"] == 1, "{task}");
    Ok(())
}

async fn all_done(api: &Api, ids: &[String]) -> Result<()> {
    for id in ids {
        is_done(api, id).await?;
    }
    Ok(())
}

#[tokio::test]
async fn tasks_go_on_and_nothing_is_deleted() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let port = free_port()?;
    let api = Api::on(port);
    set_clock(folder.path(), "+0")?;
    let server = serve(folder.path(), port)?;
    let mut worker = divvy()?;
    worker.current_dir(folder.path()).stdout(Stdio::null());
    worker.args(["--server", api.url(), "work", "--name", "steady", "--no-video"]);
    let _worker = Process::start(&mut worker)?;

    let mut ids = Vec::new();
    for (off_by, cause) in [("-1h", "set back by"), ("+9d", "set forward by")] {
        let (running, long) = task("sleep", &json!({"ms": 2_000}));
        let (later, mut waiting) = task("noop", &Value::Null);
        waiting["run_at"] = json!(in_a_second()?);
        api.submit(&[long, waiting]).await?;
        let has_begun = |task: &Value| task["state"] == "leased";
        api.wait_until(&format!("tasks/{running}"), "a lease", has_begun).await?;
        set_clock(folder.path(), off_by)?;
        let (soon, short) = task("noop", &Value::Null);
        api.submit(&[short]).await?;
        ids.extend([running, later, soon]);
        all_done(&api, &ids).await?;
        let tells = |alerts: &Value| alerts.to_string().contains(cause);
        api.wait_until("alerts", "a warning about the clock", tells).await?;
    }
    // The next server begins with the wrong clock, and looks for what is too old.
    server.terminate()?;
    let _server = serve(folder.path(), port)?;
    let api = Api::on(port);
    let (after, short) = task("noop", &Value::Null);
    api.submit(&[short]).await?;
    ids.push(after);
    all_done(&api, &ids).await?;
    let tells = |alerts: &Value| alerts.to_string().contains("ahead");
    api.wait_until("alerts", "a warning about the clock", tells).await?;
    ensure!(api.all_tasks("").await?.len() == ids.len(), "a finished task was deleted");
    Ok(())
}
