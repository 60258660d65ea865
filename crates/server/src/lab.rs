//! Experiments and plans that people run from a page: what there is, one run at a time, how far it is, and its report.
//!
//! Decides nothing about experiments: whoever starts the server brings a [`Laboratory`], as it brings workloads. A run
//! has a thread of its own, ends when the server stops, and can be stopped before. The last few reports are kept in memory.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use divvy_types::experiment::{self, Drawing, Timing};
use schemars::JsonSchema;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

/// Runs that are remembered.
const RUNS_MAX: usize = 16;

/// Who knows experiments and plans.
pub trait Laboratory: Send + Sync + 'static {
    /// All experiments, in the order in which people meet them.
    fn experiments(&self) -> Vec<Experiment>;

    /// Checks what is asked; what is returned does it.
    ///
    /// # Errors
    /// If there is no such experiment, or the plan makes no sense.
    fn prepare(&self, asked: Asked) -> Result<Prepared, Refused>;
}

/// Does a run, off the async threads: tells how far it is, and ends soon after the switch is set.
pub type Prepared =
    Box<dyn FnOnce(&mut dyn FnMut(Step<'_>), &AtomicBool) -> Result<Report, String> + Send>;

/// A laboratory, as it is given to a server.
#[derive(Clone)]
pub struct Lab(pub Arc<dyn Laboratory>);

impl fmt::Debug for Lab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lab").finish_non_exhaustive()
    }
}

/// What shall be run.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// An experiment.
    Experiment {
        /// Its name.
        name: String,
        /// Where all chance comes from.
        seed: u64,
        /// Whether a rough answer in seconds is wanted.
        quick: bool,
    },
    /// A plan of a fleet.
    Plan {
        /// The plan, as it stands in a file.
        text: String,
        /// Days to simulate, instead of those of the plan.
        days: Option<f64>,
        /// Seeds to try, instead of those of the plan.
        seeds: Option<u32>,
    },
}

/// Why something is not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such experiment; what to do instead.
    NoSuchExperiment(String),
    /// The plan makes no sense; why.
    BadPlan(String),
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// What is done now.
    pub what: &'a str,
    /// Parts that are done.
    pub done: u64,
    /// Parts in all.
    pub total: u64,
}

/// An experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Experiment {
    /// The name by which it is run.
    pub name: String,
    /// What it looks at, in one line.
    pub summary: String,
    /// Where its times come from.
    pub timing: Timing,
}

/// A run of an experiment or a plan.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LabRun {
    /// Its id.
    pub id: String,
    /// The experiment, or `plan`.
    pub name: String,
    /// How it stands.
    pub state: RunState,
    /// What is done now.
    pub what: Option<String>,
    /// Parts that are done.
    pub done: u64,
    /// Parts in all; 0 before that is known.
    pub total: u64,
    /// Why it failed.
    pub error: Option<String>,
    /// What it found, when it is done. Left out of lists.
    pub report: Option<Report>,
}

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "LabRunState")]
pub enum RunState {
    /// It goes on.
    Running,
    /// It has a report.
    Done,
    /// It has an error.
    Failed,
    /// Someone stopped it.
    Stopped,
}

/// What a run found, with its charts drawn.
pub type Report = experiment::Report<Drawing>;

/// The runs of a server.
#[derive(Default)]
pub(crate) struct Desk(Arc<Mutex<Runs>>);

#[derive(Default)]
struct Runs {
    last: u64,
    list: VecDeque<(LabRun, Arc<AtomicBool>)>,
}

impl Desk {
    /// Begins a run, unless one goes on: then that one's name and id.
    pub(crate) fn begin(
        &self,
        name: &str,
        prepared: Prepared,
        shutdown: CancellationToken,
    ) -> Result<LabRun, (String, String)> {
        let mut runs = lock(&self.0);
        let going = runs.list.iter().find(|(run, _)| run.state == RunState::Running);
        if let Some((run, _)) = going {
            return Err((run.name.clone(), run.id.clone()));
        }
        runs.last += 1;
        let run = LabRun {
            id: runs.last.to_string(),
            name: name.to_owned(),
            state: RunState::Running,
            what: None,
            done: 0,
            total: 0,
            error: None,
            report: None,
        };
        let stop = Arc::new(AtomicBool::new(false));
        if runs.list.len() == RUNS_MAX {
            runs.list.pop_front();
        }
        runs.list.push_back((run.clone(), Arc::clone(&stop)));
        drop(runs);
        self.work(run.id.clone(), prepared, Arc::clone(&stop));
        tokio::spawn(async move {
            shutdown.cancelled().await;
            stop.store(true, Relaxed);
        });
        Ok(run)
    }

    fn work(&self, id: String, prepared: Prepared, stop: Arc<AtomicBool>) {
        let (shared, failed_id) = (Arc::clone(&self.0), id.clone());
        let work = move || {
            let mut tell = |step: Step<'_>| {
                change(&shared, &id, |run| {
                    (run.done, run.total) = (step.done, step.total);
                    run.what = Some(step.what.to_owned());
                });
            };
            let ended = prepared(&mut tell, &stop);
            change(&shared, &id, |run| {
                run.what = None;
                run.state = match ended {
                    Ok(report) => {
                        run.report = Some(report);
                        RunState::Done
                    }
                    Err(_) if stop.load(Relaxed) => RunState::Stopped,
                    Err(error) => {
                        run.error = Some(error);
                        RunState::Failed
                    }
                };
            });
        };
        if let Err(error) = std::thread::Builder::new().name("divvy-lab".into()).spawn(work) {
            change(&self.0, &failed_id, |run| {
                run.state = RunState::Failed;
                run.error = Some(format!("the machine refuses a thread: {error}"));
            });
        }
    }

    /// All runs that are remembered, newest first, without their reports.
    pub(crate) fn list(&self) -> Vec<LabRun> {
        let runs = lock(&self.0);
        runs.list.iter().rev().map(|(run, _)| LabRun { report: None, ..run.clone() }).collect()
    }

    /// One run.
    pub(crate) fn show(&self, id: &str) -> Option<LabRun> {
        let runs = lock(&self.0);
        runs.list.iter().find(|(run, _)| run.id == id).map(|(run, _)| run.clone())
    }

    /// Tells a run to end; how it stands.
    pub(crate) fn stop(&self, id: &str) -> Option<LabRun> {
        let runs = lock(&self.0);
        let (run, stop) = runs.list.iter().find(|(run, _)| run.id == id)?;
        stop.store(true, Relaxed);
        Some(LabRun { report: None, ..run.clone() })
    }
}

fn change(runs: &Mutex<Runs>, id: &str, change: impl FnOnce(&mut LabRun)) {
    if let Some((run, _)) = lock(runs).list.iter_mut().find(|(run, _)| run.id == id) {
        change(run);
    }
}

fn lock(runs: &Mutex<Runs>) -> MutexGuard<'_, Runs> {
    runs.lock().unwrap_or_else(PoisonError::into_inner)
}
