//! One worker process: started, watched, started again when it crashes, asked to leave or to stop.

use std::io::{IsTerminal as _, Write as _};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::sync::watch;

use super::restarts::Restarts;
use super::{LEAVE, Plan, Wish, further};
use crate::exit::Code;
use crate::output::screen::Above;

/// Time for the last words of a worker that has ended: a program that it left behind may keep them open.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// A longer line is passed on in pieces.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Time for a worker that was told to stop now, before it is killed.
const NOW_GRACE: Duration = Duration::from_secs(5);

pub(super) struct Guard {
    pub(super) plan: Plan,
    pub(super) name: String,
    /// Whether another one takes the place of this one when someone drains it.
    pub(super) is_replaced: bool,
    pub(super) wish: watch::Receiver<Wish>,
}

impl Guard {
    pub(super) async fn run(mut self) -> Result<()> {
        let mut restarts = Restarts::default();
        loop {
            let started = Instant::now();
            let mut child =
                self.spawn().with_context(|| format!("cannot start worker {}", self.name))?;
            let words = child.stderr.take().map(|words| tokio::spawn(pass_on(words)));
            let ended = self.watch(child).await;
            if let Some(words) = words {
                let _ = tokio::time::timeout(LAST_WORDS, words).await;
            }
            let Some(status) = ended? else { return Ok(()) };
            match status.code() {
                Some(0) if self.is_replaced => return Ok(()),
                Some(0) => {
                    tracing::warn!(
                        "worker {} was drained and stays down until the next `divvy up`",
                        self.name
                    );
                    return Ok(());
                }
                // It says itself what is wrong, and would say it again.
                Some(code) if code == Code::Usage as i32 || code == Code::Refused as i32 => {
                    anyhow::bail!(
                        "worker {} cannot work (exit code {code}); its message is above",
                        self.name
                    );
                }
                _ => {}
            }
            let wait = restarts.after(started.elapsed());
            tracing::warn!("worker {} crashed ({status}); starts again in {wait:?}", self.name);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = further(&mut self.wish, Wish::GoOn) => return Ok(()),
            }
        }
    }

    fn spawn(&self) -> std::io::Result<Child> {
        let mut command = Command::new(&self.plan.program);
        command
            .arg("work")
            .args(["--name", &self.name, "--stop-with-stdin"])
            .args(&self.plan.arguments);
        let Plan { asked_slots, usual_slots, kinds, queues, capabilities, .. } = &self.plan;
        command.args(["--slots", &asked_slots.or(*usual_slots).to_string()]);
        for (flag, names) in [("--kinds", kinds), ("--queues", queues), ("--caps", capabilities)] {
            if !names.is_empty() {
                command.args([flag, &names.join(",")]);
            }
        }
        for variable in self.plan.hidden.iter().chain(&["DIVVY_CONFIG"]) {
            command.env_remove(variable);
        }
        if let Some(token) = &self.plan.token {
            command.env("DIVVY_TOKEN", token);
        }
        if let Some(log) = self.plan.log {
            command.env("DIVVY_LOG", log);
        }
        // On a terminal there may be bars, and what a worker says belongs above them.
        if std::io::stderr().is_terminal() {
            command.stderr(Stdio::piped());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0).kill_on_drop(true);
        command.spawn()
    }

    /// Waits for the end of a worker: its status if it ended by itself, nothing if it was asked to.
    async fn watch(&mut self, mut child: Child) -> Result<Option<ExitStatus>> {
        let id = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        // The pipe must stay open as long as the worker shall live.
        let mut pipe = child.stdin.take();
        let mut seen = Wish::GoOn;
        let mut kill_at: Option<tokio::time::Instant> = None;
        loop {
            let deadline = async {
                match kill_at {
                    Some(time) => tokio::time::sleep_until(time).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                status = child.wait() => {
                    let status = status.with_context(|| format!("cannot wait for worker {}", self.name))?;
                    return Ok((seen == Wish::GoOn).then_some(status));
                }
                asked = further(&mut self.wish, seen) => {
                    seen = asked;
                    if seen == Wish::Now {
                        kill_at = Some(tokio::time::Instant::now() + NOW_GRACE);
                    }
                    tell(seen, pipe.as_mut(), id).await;
                }
                () = deadline => {
                    kill_at = None;
                    tracing::warn!("worker {} does not stop; it is killed", self.name);
                    child.start_kill().with_context(|| format!("cannot kill worker {}", self.name))?;
                }
            }
        }
    }
}

/// Writes what a worker says, line by line, until it says no more. Nobody to read it is no reason to stop.
async fn pass_on(words: ChildStderr) {
    let (mut words, mut line) = (BufReader::new(words), Vec::new());
    while let Ok(1..) = (&mut words).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await {
        let _ = Above.write_all(&line);
        line.clear();
    }
}

/// Tells a worker what is asked of it. One that has just ended cannot be told, and need not be.
async fn tell(wish: Wish, pipe: Option<&mut ChildStdin>, id: Option<Pid>) {
    match (wish, pipe, id) {
        (Wish::Leave, Some(pipe), _) => drop(pipe.write_all(&[LEAVE]).await),
        (_, _, Some(id)) => drop(kill(id, Signal::SIGTERM)),
        _ => {}
    }
}
