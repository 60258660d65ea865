//! One trial: a job on a private server, beside the same work by other programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use divvy::Client;
use divvy_workload::console::output::Output;
use divvy_workload::private::{Process, rounded};
use serde::Serialize;

use super::Args;
use crate::job::NewJob;
use crate::jobs::state::JobState;
use crate::jobs::view::JobView;

/// Between two looks at a job.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Looks for the worker at the start.
const READY_LOOKS_MAX: u32 = 3_000;

/// What all trials share: a private server with a worker.
pub(crate) struct Bench<'a> {
    /// What was asked for.
    pub(crate) args: &'a Args,
    /// Where progress is told.
    pub(crate) output: &'a Output,
    folder: PathBuf,
    client: Client,
    server: Process,
}

/// What something cost.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Cost {
    /// Who did it.
    pub(crate) by: String,
    /// Seconds that passed.
    pub(crate) seconds: f64,
    /// Seconds of CPU, if that can be told.
    pub(crate) cpu_s: Option<f64>,
    /// The most memory that it used, in MiB, if that can be told.
    pub(crate) peak_mb: Option<u64>,
}

/// A stage of the job.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StageCost {
    pub(crate) name: String,
    pub(crate) parts: u32,
    pub(crate) seconds: f64,
    /// Of it, what passed while no part ran: the task engine and the driver.
    pub(crate) engine_s: f64,
    pub(crate) skew: f64,
}

/// The figures of one trial.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) input_bytes: u64,
    pub(crate) divvy: Cost,
    pub(crate) others: Vec<Cost>,
    pub(crate) stages: Vec<StageCost>,
}

impl<'a> Bench<'a> {
    /// Starts the private server, which may read what lies in this folder, and waits for its worker, whose start is not
    /// measured.
    pub(super) async fn start(folder: &Path, args: &'a Args, output: &'a Output) -> Result<Self> {
        let flags = ["--flow-read".into(), folder.into(), "--flow-commands".into()];
        let (server, url) = Process::up(&folder.join("data"), 2, &flags)?;
        let client = Client::new(url.as_str())?;
        for _ in 0..READY_LOOKS_MAX {
            if !client.workers().await?.is_empty() {
                return Ok(Self { args, output, folder: folder.to_owned(), client, server });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        bail!("the worker of the private server did not come")
    }

    /// Where inputs of trials go.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether this trial is wanted.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.args.only.as_deref().is_none_or(|only| only == name)
    }

    /// So many of what is `full` at full size.
    pub(crate) fn scaled(&self, full: u64) -> u64 {
        (full as f64 * self.args.scale).ceil() as u64
    }

    /// Runs a job to its end. The result is in the second: a folder that stays until the bench ends.
    pub(crate) async fn job(&self, name: &str, new: &NewJob) -> Result<(Outcome, PathBuf)> {
        self.output.note(format_args!("{name} …"));
        let workers = worker_of(self.server.id());
        let cpu = cpu_of(&workers);
        let began = Instant::now();
        let api = self.client.api();
        let mut view: JobView = api.post(&["flows"], new).await?.parse()?;
        while !view.state.is_final() {
            tokio::time::sleep(LOOK_EVERY).await;
            view = api.get(&["flows", &view.id], &[]).await?.parse()?;
        }
        let seconds = began.elapsed().as_secs_f64();
        if view.state != JobState::Done {
            bail!("{name} is {}: {}", view.state.as_str(), view.reason.unwrap_or_default());
        }
        let peak = workers.iter().filter_map(|pid| divvy_workload::private::rss_mb(pid).ok());
        let divvy = Cost {
            by: "divvy".to_owned(),
            seconds: rounded(seconds),
            cpu_s: Some(rounded(cpu_of(&workers) - cpu)),
            peak_mb: peak.map(|(_, most)| most).max(),
        };
        let stages = view.stages.iter().map(|stage| StageCost {
            name: stage.name.clone(),
            parts: stage.parts,
            seconds: rounded(
                stage.ended_at_ms.unwrap_or_default().saturating_sub(stage.started_at_ms) as f64
                    / 1e3,
            ),
            engine_s: rounded(stage.engine_ms as f64 / 1e3),
            skew: stage.skew,
        });
        let stages = stages.collect();
        let out = self.folder.join("data").join("flows").join(&view.id).join("out");
        let outcome = Outcome {
            name: name.to_owned(),
            input_bytes: view.input_bytes,
            divvy,
            others: Vec::new(),
            stages,
        };
        Ok((outcome, out))
    }

    /// What another program costs; nothing if it is not installed or others are left out.
    pub(crate) fn other(&self, by: &str, command: &mut Command) -> Result<Option<Cost>> {
        if self.args.alone {
            return Ok(None);
        }
        self.output.note(format_args!("{by} …"));
        let before = children_cpu_s();
        let began = Instant::now();
        let status =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        match status {
            Ok(status) if status.success() => Ok(Some(Cost {
                by: by.to_owned(),
                seconds: rounded(began.elapsed().as_secs_f64()),
                cpu_s: Some(rounded(children_cpu_s() - before)),
                peak_mb: None,
            })),
            Ok(status) => {
                self.output.note(format_args!("{by} ended with {status}; left out"));
                Ok(None)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context(format!("starting {by}")),
        }
    }
}

/// The server and the workers that it started.
fn worker_of(server: u32) -> Vec<String> {
    let mut pids = vec![server.to_string()];
    // Each thread has the children that it started.
    let threads = std::fs::read_dir(format!("/proc/{server}/task"));
    for thread in threads.into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        pids.extend(text.split_whitespace().map(str::to_owned));
    }
    pids
}

/// CPU time of these processes and their children that have ended, in seconds.
fn cpu_of(pids: &[String]) -> f64 {
    let of = |pid: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        // Linux reports these in ticks of 10 ms to every process.
        Some((11..15).filter_map(ticks).sum::<u64>() as f64 / 100.0)
    };
    pids.iter().filter_map(of).sum()
}

/// CPU time of programs that were started here and have ended, in seconds.
fn children_cpu_s() -> f64 {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike as _;
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0.0, |usage| {
        let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        micros as f64 / 1e6
    })
}
