//! A disk that fills up: new tasks are refused, reads work, running tasks end, and nothing acknowledged is lost.
//!
//! The server runs on a small memory file system of its own, in a private mount namespace.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use divvy_e2e::api::Api;
use divvy_e2e::process::{Process, binary, divvy, free_port, serve_with};
use serde_json::json;

/// Larger than the space that the server keeps free.
const DISK: &str = "160m";

struct SmallDisk {
    server: Process,
    root: PathBuf,
    api: Api,
    _folder: tempfile::TempDir,
}

impl SmallDisk {
    fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mount = folder.path().join("disk");
        fs::create_dir(&mount)?;
        let port = free_port()?;
        // Without privileges a user namespace is needed to mount; with them it may be forbidden.
        let namespaces: &[&str] = if nix::unistd::geteuid().is_root() {
            &["--mount"]
        } else {
            &["--mount", "--map-root-user"]
        };
        let script =
            "mount -t tmpfs -o size=$1 tmpfs $2 && exec $3 serve --data $2/data --listen $4 --json";
        let mut command = Command::new("unshare");
        command.args(namespaces).args(["sh", "-c", script, "sh", DISK]);
        command.arg(&mount).arg(binary()?).arg(format!("127.0.0.1:{port}"));
        let server = serve_with(&mut command)?;
        let root = PathBuf::from(format!("/proc/{}/root", server.id()));
        let root = root.join(mount.strip_prefix("/")?);
        Ok(Self { server, root, api: Api::on(port), _folder: folder })
    }

    /// Writes until `leave` bytes or less are free.
    fn fill(&self, leave: u64) -> Result<PathBuf> {
        let path = self.root.join("ballast");
        let mut file = fs::File::create(&path).context("the server's disk can be reached")?;
        let block = vec![0_u8; 64 << 10];
        while free(&self.root)? > leave {
            if file.write_all(&block).is_err() {
                break;
            }
        }
        Ok(path)
    }
}

fn free(path: &Path) -> Result<u64> {
    let stat = nix::sys::statvfs::statvfs(path)?;
    Ok(stat.blocks_available() * stat.fragment_size())
}

async fn refused(api: &Api) -> Result<()> {
    // The server looks at its disk once a second while nothing is committed.
    for _ in 0..100 {
        let (status, answer) = api.submit(&[json!({"kind": "noop"})]).await?;
        if status == 507 {
            ensure!(answer["error"]["code"] == "disk_full", "{answer}");
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("new tasks were taken although the disk was full")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nearly_full_and_quite_full() -> Result<()> {
    let disk = SmallDisk::start()?;
    let api = &disk.api;
    let mut worker = divvy()?;
    let _worker = Process::start(worker.args(["work", "--server", api.url(), "--name", "w"]))?;
    let running = uuid::Uuid::now_v7().to_string();
    let gate = uuid::Uuid::now_v7().to_string();
    let (status, _) = api
        .submit(&[
            json!({"id": running, "kind": "sleep", "payload": {"ms": 3_000}}),
            json!({"id": gate, "kind": "noop", "after": [running]}),
        ])
        .await?;
    ensure!(status == 201);
    api.wait_until(&format!("tasks/{running}"), "a lease", |task| task["state"] == "leased")
        .await?;

    let ballast = disk.fill(32 << 20)?;
    refused(api).await?;
    let page = api.get("tasks").await?;
    ensure!(page["items"].as_array().is_some_and(|items| items.len() >= 2), "reads work: {page}");
    api.wait_until(&format!("tasks/{gate}"), "the end of accepted tasks", |task| {
        task["state"] == "done"
    })
    .await?;

    fs::remove_file(&ballast)?;
    let slow = uuid::Uuid::now_v7().to_string();
    let task = json!({"id": slow, "kind": "sleep", "payload": {"ms": 1_500}});
    let mut taken = false;
    for _ in 0..100 {
        taken = api.submit(std::slice::from_ref(&task)).await?.0 == 201;
        if taken {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    ensure!(taken, "with space again, tasks are taken again");
    api.wait_until(&format!("tasks/{slow}"), "a lease", |task| task["state"] == "leased").await?;

    // So much in the log that it is copied as soon as the server is idle, which needs room as well.
    let heavy = json!({"kind": "nobody", "payload": {"text": "x".repeat(1_000_000)}});
    for _ in 0..8 {
        ensure!(api.submit(std::slice::from_ref(&heavy)).await?.0 == 201);
    }

    // Not a byte left: the end of the running task cannot be written until there is.
    let ballast = disk.fill(0)?;
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    api.get("tasks").await.context("reads work on a full disk")?;
    fs::remove_file(&ballast)?;
    api.wait_until(&format!("tasks/{slow}"), "a finish", |task| task["state"] == "done").await?;
    drop(disk.server);
    Ok(())
}
