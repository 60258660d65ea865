//! Local workers of `divvy up` follow a bursty load from one to four and back, and no task is lost, killed or run twice;
//! and whatever the moment at which the server is killed, everything that was acknowledged is done after its return.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use divvy_e2e::api::Api;
use divvy_e2e::journal;
use divvy_e2e::process::{Process, divvy, free_port, serve_with};
use serde_json::{Value, json};

/// Tasks of one burst.
const BURST: usize = 40;

const SETTINGS: &str = "\
pools:
  local:
    driver: local
    min: 1
    max: 4
    policy: queue
    goal: p95 start within 1 s
    down: {cool_down_sec: 0, window_sec: 1}
";

/// Says that it starts, works for a while, and says that it ends.
const PROGRAM: &str = "\
#!/bin/sh
echo start $DIVVY_TASK_ID $DIVVY_ATTEMPT_TOKEN >> \"$1\"
sleep 0.2
echo end $DIVVY_TASK_ID $DIVVY_ATTEMPT_TOKEN >> \"$1\"
";

struct World {
    folder: tempfile::TempDir,
    port: u16,
    api: Api,
}

impl World {
    fn new() -> Result<Self> {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("divvy.yaml"), SETTINGS)?;
        let program = folder.path().join("work.sh");
        std::fs::write(&program, PROGRAM)?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
        let port = free_port()?;
        Ok(Self { folder, port, api: Api::on(port) })
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn up(&self) -> Result<Process> {
        let mut command: Command = divvy()?;
        let listen = format!("127.0.0.1:{}", self.port);
        let program = format!("burst={} {}", self.path("work.sh"), self.path("journal"));
        command.args(["up", "--workers", "auto", "--json", "--slots", "process=1"]);
        command.args(["--listen", &listen, "--data", &self.path("data")]);
        command.args(["--config", &self.path("divvy.yaml"), "--exec", &program]);
        serve_with(&mut command)
    }

    async fn submit_burst(&self) -> Result<()> {
        let tasks: Vec<Value> =
            (0..BURST).map(|_| json!({ "kind": "burst", "retry": { "limit": 20 } })).collect();
        let (status, answer) = self.api.submit(&tasks).await?;
        ensure!((200..300).contains(&status), "{status} {answer}");
        Ok(())
    }

    async fn pool(&self, what: &str, is: impl Fn(&Value) -> bool) -> Result<Value> {
        self.api.wait_until("pools/local", what, is).await
    }

    async fn done(&self, count: usize) -> Result<()> {
        self.api
            .wait_until("stats", "the end of all tasks", |stats| stats["final"]["done"] == count)
            .await?;
        Ok(())
    }
}

fn workers(pool: &Value) -> Option<u64> {
    pool["running"].as_u64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_task_is_lost_killed_or_run_twice_while_workers_come_and_go() -> Result<()> {
    let world = World::new()?;
    let mut server = world.up()?;
    world.pool("one worker at the start", |pool| workers(pool) == Some(1)).await?;
    world.submit_burst().await?;
    world.pool("four workers in the burst", |pool| workers(pool) == Some(4)).await?;
    world.done(BURST).await?;
    world
        .pool("one worker after it", |pool| workers(pool) == Some(1) && pool["draining"] == 0)
        .await?;
    once_each(&world.folder.path().join("journal"))?;
    for task in world.api.all_tasks("").await? {
        ensure!(task["attempts"] == 1, "a task was run twice, or taken from its worker: {task}");
    }
    let history = world.api.get("pools/local/history").await?;
    let sizes: Vec<u64> = history["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|it| it["to"].as_u64())
        .collect();
    ensure!(sizes.first() == Some(&1) && sizes.contains(&4), "{history}");

    // The second burst is cut by a crash while workers are being started.
    world.submit_burst().await?;
    world.pool("more workers wanted", |pool| pool["wanted"]["worker"].as_u64() > Some(1)).await?;
    server.kill_nine()?;
    server = world.up()?;
    world.done(2 * BURST).await?;
    world
        .pool("one worker at the end", |pool| workers(pool) == Some(1) && pool["draining"] == 0)
        .await?;
    let names = world.api.get("workers").await?;
    ensure!(names["items"].as_array().is_some_and(|all| all.len() == 1), "some were left: {names}");
    // No attempt of a task was begun twice, whatever the crash.
    journal::read(&world.folder.path().join("journal"))?;
    let after = world.api.get("pools/local/history").await?;
    let remembered = after["items"].as_array().map_or(0, Vec::len);
    ensure!(remembered > sizes.len(), "the history did not survive: {after}");
    server.terminate()
}

/// Every attempt that started has ended, and no task had two.
fn once_each(path: &Path) -> Result<()> {
    let journal = journal::read(path)?;
    ensure!(journal.len() == BURST, "{} of {BURST} tasks ran", journal.len());
    for (task, attempts) in journal {
        let whole = attempts.values().filter(|span| span.start.is_some() && span.end.is_some());
        ensure!(attempts.len() == 1 && whole.count() == 1, "{task}: {attempts:?}");
    }
    Ok(())
}
