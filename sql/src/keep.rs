//! A process of a cluster as an attempt of a task: starts it, passes on what it says, and fails when it ends, so that
//! the server has it started again.
//!
//! The process dies with the worker, however that ends. When the task is cancelled, the process is asked to stop and
//! killed if it does not.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use divvy::prelude::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::tasks::{self, KeepExecutor, KeepScheduler};

/// How long a process may take to stop by itself.
const STOP_WITHIN: Duration = Duration::from_secs(5);
/// How long an executor waits before it looks again for a scheduler that nobody has asked for.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The longest line of a process that is kept in an error.
const LINE_CHARS_MAX: usize = 500;

/// What all attempts on this machine share.
#[derive(Clone)]
pub(crate) struct Machine {
    pub(crate) client: Client,
    /// This binary.
    pub(crate) program: PathBuf,
    /// The address under which others reach this machine.
    pub(crate) host: String,
    /// Where executors put what does not fit into memory.
    pub(crate) work: PathBuf,
}

/// Runs the scheduler of a cluster.
pub(crate) async fn scheduler(
    task: KeepScheduler,
    State(machine): State<Machine>,
    cancel: Cancel,
    progress: Progress,
    log: Log,
) -> Outcome<()> {
    progress.message(format!("serves {}", task.address));
    let mut command = machine.command("scheduler");
    command.args(["--host", &task.address.host, "--port", &task.address.port.to_string()]);
    Err(keep(command, "the scheduler", &cancel, &log).await?)
}

/// Runs one executor of a cluster.
pub(crate) async fn executor(
    task: KeepExecutor,
    State(machine): State<Machine>,
    attempt: Attempt,
    cancel: Cancel,
    log: Log,
) -> Outcome<()> {
    let Some((_, address)) = tasks::locate(&machine.client, &task.cluster).await? else {
        return Err(Failure::snooze(LOOK_AGAIN).because("the cluster has no scheduler"));
    };
    // Named after the task: what an attempt that was killed left behind is removed by the next one.
    let work = machine.work.join(format!("divvy-sql-{}", attempt.id));
    empty(&work).await?;
    let mut command = machine.command("executor");
    command.args(["--host", &machine.host, "--scheduler", &address.to_string()]);
    command.args(["--cores", &task.cores.to_string(), "--share", &task.share.to_string()]);
    command.arg("--work").arg(&work);
    let ended = keep(command, &format!("executor {}", task.number), &cancel, &log).await;
    // It is of no use to anybody; the next attempt would remove it too.
    let _ = tokio::fs::remove_dir_all(&work).await;
    Err(ended?)
}

impl Machine {
    fn command(&self, role: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args([role, "--parent", &std::process::id().to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // Ctrl-C at a terminal is for the worker, which then stops its processes itself.
        command.process_group(0).kill_on_drop(true);
        command
    }
}

/// Runs a process until it ends or shall stop. Its end is a failure in any case.
async fn keep(
    mut command: Command,
    what: &str,
    cancel: &Cancel,
    log: &Log,
) -> Result<Failure, Failure> {
    let mut child = command.spawn().with_context(|| format!("{what} cannot be started"))?;
    let mut lines = BufReader::new(child.stderr.take().context("stderr is piped")?).lines();
    let mut last = String::new();
    loop {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {
                stop(&mut child).await;
                return Ok(Failure::cancelled().because(format!("{what} was stopped")));
            }
            line = lines.next_line() => match line {
                Ok(Some(line)) => {
                    log.line(&line);
                    last = line.chars().take(LINE_CHARS_MAX).collect();
                }
                _ => {
                    let status = child.wait().await?;
                    return Ok(Failure::retry(ended(what, status, &last)));
                }
            },
        }
    }
}

fn ended(what: &str, status: ExitStatus, last: &str) -> String {
    match last {
        "" => format!("{what} ended with {status}"),
        said => format!("{what} ended with {status}, and said at last: {said}"),
    }
}

async fn stop(child: &mut Child) {
    if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
        // One that is gone already is what is wanted.
        let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
    }
    if tokio::time::timeout(STOP_WITHIN, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

/// Makes a folder that is empty.
async fn empty(folder: &Path) -> anyhow::Result<()> {
    let cannot =
        || format!("the folder {} cannot be used; name another with --work", folder.display());
    match tokio::fs::remove_dir_all(folder).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(cannot)?
        }
        _ => {}
    }
    tokio::fs::create_dir_all(folder).await.with_context(cannot)
}
