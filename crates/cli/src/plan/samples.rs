//! Real samples: files that are given to a private server with one worker, and what their tasks took.
//!
//! The server is this very binary on a temporary folder; it ends with this command. A task runs from the moment it was
//! granted until its end is recorded: the worker takes nothing ahead, so that nothing waits in between.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use divvy::Target;
use divvy::api::{Api, Frames};
use divvy_lab::plan::fit::Sample;
use divvy_types::view::{TaskChange, WorkerView, WorkflowState, WorkflowView};
use divvy_types::{TaskId, TaskState, Timestamp, WorkflowId};
use divvy_workload::Context as WorkloadContext;
use divvy_workload::private::Process;

use super::history::{self, Ran};
use crate::commands::Context;
use crate::exit::{Code, Failure};

/// A worker that has not come by then will not.
const WORKER_WITHIN: Duration = Duration::from_secs(60);
/// No sample takes longer.
const SAMPLE_WITHIN: Duration = Duration::from_secs(4 * 3_600);
/// Between two looks for the worker.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Within this time one hears of what has happened.
const HEARD_WITHIN: Duration = Duration::from_millis(100);
/// Between two looks at a workflow of which nothing is heard.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(5);

/// A private server with one worker, and what was heard of its tasks.
pub(crate) struct Bench {
    api: Api,
    theirs: WorkloadContext,
    worker: Vec<WorkerView>,
    frames: Frames,
    /// When tasks were granted, and how many had been before.
    leased: HashMap<TaskId, (u64, Timestamp)>,
    granted: u64,
    /// Tasks that are done in the order in which they were granted, by workflow.
    done: HashMap<WorkflowId, BTreeMap<u64, Ran>>,
    _server: Process,
    _folder: tempfile::TempDir,
}

/// An item that was given to the server.
pub(crate) struct Item {
    pub(crate) size_gb: f64,
    pub(crate) workflow: WorkflowId,
    pub(crate) name: String,
}

impl Bench {
    /// Starts one whose worker runs so many tasks at once.
    pub(crate) async fn start(slots: u32, context: &Context) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("divvy-plan-").tempdir()?;
        let flags = ["--prefetch", "0"].map(OsString::from);
        let (server, url) = Process::up(&folder.path().join("data"), slots, &flags)?;
        let theirs = context.for_workload_at(Target::from(url.as_str()));
        let api = theirs.api()?;
        let began = Instant::now();
        let worker = loop {
            let connected = history::workers(&api).await?;
            if !connected.is_empty() {
                break connected;
            }
            anyhow::ensure!(
                began.elapsed() < WORKER_WITHIN,
                "the worker process did not connect within {WORKER_WITHIN:?}"
            );
            tokio::time::sleep(LOOK_EVERY).await;
        };
        let frames = Frames::open(&api, &["events"], &[]).await?;
        Ok(Self {
            api,
            theirs,
            worker,
            frames,
            leased: HashMap::new(),
            granted: 0,
            done: HashMap::new(),
            _server: server,
            _folder: folder,
        })
    }

    /// Gives a file to the first workload that takes it.
    pub(crate) async fn add(&self, file: &Path, context: &Context) -> Result<Item> {
        let name = file.display().to_string();
        let size_gb = size_of(file)? as f64 / 1e9;
        for workload in context.workloads.iter() {
            if let Some(workflow) = workload.try_out(file, &self.theirs).await? {
                return Ok(Item { size_gb, workflow, name });
            }
        }
        Err(Failure::usage(format!("no workload of this binary takes {name}"))
            .cure("write the stages into the plan, or take them with --from-history")
            .into())
    }

    /// Listens until an item has ended, and says how it went. The server is asked only when a task of the item has ended:
    /// questions at short intervals would keep a machine awake that otherwise rests between tasks, and tasks would be
    /// quicker than they are when nobody asks.
    pub(crate) async fn until_ended(&mut self, item: &Item) -> Result<WorkflowView> {
        let (began, id) = (Instant::now(), item.workflow.to_string());
        loop {
            let view: WorkflowView = self.api.get(&["workflows", &id], &[]).await?.parse()?;
            match view.state {
                WorkflowState::Open if began.elapsed() < SAMPLE_WITHIN => {
                    self.listen_for(Some(item.workflow), LOOK_AT_LEAST_EVERY).await?;
                }
                WorkflowState::Succeeded => {
                    // What was recorded before this answer is heard within a moment.
                    self.listen_for(None, HEARD_WITHIN).await?;
                    return Ok(view);
                }
                _ => {
                    let first = view.failed.iter().find_map(|task| task.error.as_ref());
                    let why = first.map_or("it took too long", |error| error.message.as_str());
                    let message = format!("{} cannot be measured: {why}", item.name);
                    return Err(Failure::new(Code::Failed, message).into());
                }
            }
        }
    }

    /// What the tasks of items that have ended took.
    pub(crate) async fn samples(&self, items: &[Item]) -> Result<Vec<Sample>> {
        let mut samples = Vec::new();
        for item in items {
            let done = self.done.get(&item.workflow);
            let ran: Vec<Ran> = done.into_iter().flat_map(|done| done.values()).cloned().collect();
            samples.push(history::sample(&self.api, item.size_gb, &ran).await?);
        }
        history::mark_light(&mut samples, &self.worker);
        Ok(samples)
    }

    /// Listens for so long, or until a task of this item has ended.
    pub(crate) async fn listen_for(
        &mut self,
        item: Option<WorkflowId>,
        time: Duration,
    ) -> Result<()> {
        let until = tokio::time::Instant::now() + time;
        loop {
            match tokio::time::timeout_at(until, self.frames.next()).await {
                Err(_) => return Ok(()),
                Ok(frame) => {
                    let frame = frame?.context("the private server is gone")?;
                    if frame.name == "change" {
                        let change: TaskChange = serde_json::from_str(&frame.data)?;
                        let is_awaited = item.is_some() && change.workflow == item;
                        let has_ended = change.state.is_final();
                        self.note(change);
                        if is_awaited && has_ended {
                            return Ok(());
                        }
                    }
                }
            }
        }
    }

    fn note(&mut self, change: TaskChange) {
        match (change.state, change.workflow) {
            (TaskState::Leased, _) => {
                self.leased.entry(change.id).or_insert((self.granted, change.at));
                self.granted += 1;
            }
            (TaskState::Done, Some(workflow)) => {
                let Some((place, since)) = self.leased.remove(&change.id) else { return };
                let seconds = change.at.since(since).as_secs_f64();
                let ran = Ran { id: change.id, kind: change.kind, seconds };
                self.done.entry(workflow).or_default().insert(place, ran);
            }
            _ => {
                self.leased.remove(&change.id);
            }
        }
    }
}

/// Runs files one by one, and says what their tasks took.
pub(crate) async fn measure(
    files: &[PathBuf],
    slots: u32,
    context: &Context,
) -> Result<Vec<Sample>> {
    files.iter().try_for_each(|file| size_of(file).map(drop))?;
    let mut bench = Bench::start(slots, context).await?;
    let mut items = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let of = format!("{} of {}", number + 1, files.len());
        context.output.note(format_args!("measuring {}, {of} …", file.display()));
        let item = bench.add(file, context).await?;
        bench.until_ended(&item).await?;
        items.push(item);
    }
    bench.samples(&items).await
}

fn size_of(file: &Path) -> Result<u64> {
    let cannot = |error: std::io::Error| {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => Code::NotFound,
            _ => Code::Usage,
        };
        Failure::new(code, format!("cannot read {}: {error}", file.display()))
            .cure("name a file that can be processed on this machine")
    };
    Ok(std::fs::metadata(file).map_err(cannot)?.len())
}
