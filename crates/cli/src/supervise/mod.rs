//! Local worker processes: started, restarted when they crash, drained at the end.
//!
//! Each worker is this very binary with the command `work`, in a process group of its own, so that Ctrl-C reaches
//! the parent only, which then stops the workers in order. Its standard input is a pipe that closes when the parent
//! dies, however that happens; the worker stops then, so none is left behind.

mod restarts;

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::exit::{Code, Failure};
use restarts::Restarts;

/// Time for a worker that was told to stop now, before it is killed.
const NOW_GRACE: Duration = Duration::from_secs(5);
/// How the workers are started.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// This binary.
    pub(crate) program: PathBuf,
    /// Arguments after `work`, without the name.
    pub(crate) arguments: Vec<String>,
    /// Variables that would change what the parent decided for its workers.
    pub(crate) hidden: Vec<&'static str>,
    /// The token, which does not belong on a command line that others can read.
    pub(crate) token: Option<String>,
    /// The log filter, unless the user has set one.
    pub(crate) log: Option<&'static str>,
}

/// What is asked of all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wish {
    GoOn,
    Drain,
    Now,
}

/// The running workers.
pub(crate) struct Supervisor {
    wish: watch::Sender<Wish>,
    guards: JoinSet<()>,
    given_up: mpsc::Receiver<String>,
}

impl Supervisor {
    /// Starts `count` workers, named `local-1` and so on.
    pub(crate) fn start(plan: &Plan, count: u32) -> Self {
        let wish = watch::Sender::new(Wish::GoOn);
        let (give_up, given_up) = mpsc::channel(1);
        let mut guards = JoinSet::new();
        for number in 1..=count {
            let guard = Guard {
                plan: plan.clone(),
                name: format!("local-{number}"),
                wish: wish.subscribe(),
            };
            let give_up = give_up.clone();
            guards.spawn(async move {
                if let Err(error) = guard.run().await {
                    // Only the first reason is told; the others would say the same.
                    let _ = give_up.try_send(format!("{error:#}"));
                }
            });
        }
        Self { wish, guards, given_up }
    }

    /// Waits until a worker cannot be started at all, and says why. May be dropped while it waits.
    pub(crate) async fn broken(&mut self) -> anyhow::Error {
        match self.given_up.recv().await {
            Some(message) => Failure::new(Code::Failed, message).into(),
            None => std::future::pending().await,
        }
    }

    /// Asks all workers to finish what they run.
    pub(crate) fn drain(&self) {
        self.ask(Wish::Drain);
    }

    /// Asks all workers to stop what they run.
    pub(crate) fn now(&self) {
        self.ask(Wish::Now);
    }

    /// Waits until all have ended. May be dropped while it waits.
    pub(crate) async fn ended(&mut self) {
        while self.guards.join_next().await.is_some() {}
    }

    fn ask(&self, wish: Wish) {
        self.wish.send_if_modified(|current| {
            let greater = wish > *current;
            *current = wish.max(*current);
            greater
        });
    }
}

struct Guard {
    plan: Plan,
    name: String,
    wish: watch::Receiver<Wish>,
}

impl Guard {
    async fn run(mut self) -> Result<()> {
        let mut restarts = Restarts::default();
        loop {
            let started = Instant::now();
            let child =
                self.spawn().with_context(|| format!("cannot start worker {}", self.name))?;
            let Some(status) = self.watch(child).await? else { return Ok(()) };
            match status.code() {
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
                _ = self.wish.wait_for(|wish| *wish > Wish::GoOn) => return Ok(()),
            }
        }
    }

    fn spawn(&self) -> std::io::Result<Child> {
        let mut command = Command::new(&self.plan.program);
        command
            .arg("work")
            .args(["--name", &self.name, "--stop-with-stdin"])
            .args(&self.plan.arguments);
        for variable in self.plan.hidden.iter().chain(&["DIVVY_CONFIG"]) {
            command.env_remove(variable);
        }
        if let Some(token) = &self.plan.token {
            command.env("DIVVY_TOKEN", token);
        }
        if let Some(log) = self.plan.log {
            command.env("DIVVY_LOG", log);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0).kill_on_drop(true);
        command.spawn()
    }

    /// Waits for the end of a worker: its status if it ended by itself, nothing if it was asked to.
    async fn watch(&mut self, mut child: Child) -> Result<Option<ExitStatus>> {
        let id = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        // The pipe must stay open as long as the worker shall live.
        let _pipe = child.stdin.take();
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
                changed = self.wish.wait_for(|wish| *wish > seen) => {
                    seen = changed.map_or(Wish::Now, |wish| *wish);
                    if let Some(id) = id {
                        // A worker that has just ended cannot be told, and need not be.
                        let _ = kill(id, Signal::SIGTERM);
                    }
                    if seen == Wish::Now {
                        kill_at = Some(tokio::time::Instant::now() + NOW_GRACE);
                    }
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
