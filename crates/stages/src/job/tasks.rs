//! Parts as tasks: one kind of task per stage, so that the server learns how long each takes. A stage more is a line more
//! in the list at the end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use divvy::extract::{Attempt, Cancel, Progress, State};
use divvy::types::Token;
use divvy::{Failure, Outcome, Task, Worker};
use divvy_workload::files::{self, read_json};
use divvy_workload::now_ms;
use serde::{Deserialize, Serialize};

use super::report::REPORT_BYTES_MAX;
use super::{Folder, PartError, PartIo, PartSpec, Report, Spec, Surroundings, kinds};
use crate::duckdb::{self, Duckdb};

/// The capability of a worker that can read the folder of jobs.
pub const CAPABILITY: &str = "flow";
/// The capability of a worker that runs programs of jobs; parts that need it say so in
/// [`Part::needs`](super::Part::needs).
pub const COMMANDS: &str = "flow-commands";

/// What a part's task returns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartResult {
    /// When the attempt began, in milliseconds since 1970.
    pub started_at_ms: u64,
    /// When it was done.
    pub ended_at_ms: u64,
    /// What it did.
    pub report: Report,
}

/// What a worker knows that takes parts.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// The server's folder of jobs, as this worker sees it.
    pub folder: PathBuf,
    /// Folders whose files jobs may read.
    pub readable: Arc<[PathBuf]>,
    /// Whether programs of jobs may run.
    pub commands: bool,
    /// Who reads Parquet here, if anybody does.
    pub duckdb: Option<Duckdb>,
}

impl Site {
    fn may_read(&self, path: &Path) -> Result<(), String> {
        // Links are followed first, so that none leads out of a folder.
        let real = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
        if self.readable.iter().any(|folder| real.starts_with(folder)) {
            return Ok(());
        }
        Err(format!(
            "{}: this worker may not read there; start it with --flow-read {}",
            path.display(),
            real.parent().unwrap_or(&real).display()
        ))
    }
}

/// An attempt on a worker.
struct OnWorker {
    site: Site,
    cancel: Cancel,
    progress: Progress,
}

impl Surroundings for OnWorker {
    fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    fn progress(&self, done: u64, total: u64) {
        self.progress.set(done, total);
    }

    fn message(&self, text: &str) {
        self.progress.message(text);
    }

    fn may_read(&self, path: &Path) -> Result<(), String> {
        self.site.may_read(path)
    }

    fn may_run(&self, command: &str) -> Result<(), String> {
        if self.site.commands {
            return Ok(());
        }
        Err(format!(
            "{command}: this worker runs no programs of jobs; start it with --flow-commands"
        ))
    }

    fn duckdb(&self) -> Result<Duckdb, String> {
        let cure = || format!("this worker reads no Parquet; {}", duckdb::CURE);
        self.site.duckdb.clone().ok_or_else(cure)
    }
}

/// Works on a part.
fn work(mut part: PartSpec, around: &OnWorker, attempt: &Attempt) -> Outcome<PartResult> {
    let started_at_ms = now_ms();
    // The server may have the folder elsewhere.
    part.folder = files::found(&around.site.folder, &part.folder);
    let part = &part;
    let path = Folder::new(&part.folder).job();
    let spec: Spec = match read_json(&path) {
        Ok(Some(spec)) => spec,
        Ok(None) => {
            return Err(Failure::dead(format_args!("{}: there is no such job", path.display())));
        }
        Err(error) => return Err(Failure::retry(error)),
    };
    let Some(kind) = kinds::find(&spec.kind) else {
        return Err(Failure::retry(format_args!(
            "this worker knows no jobs of kind `{}`",
            spec.kind
        )));
    };
    let Token(token) = attempt.token;
    let mut io = PartIo::new(&spec, part, token, attempt.threads, around);
    let report = kind.run(part, &mut io).map_err(|error| match error {
        PartError::Trouble(_) => Failure::retry(error),
        PartError::Input { .. } | PartError::Command { .. } | PartError::Broken(_) => {
            Failure::dead(error)
        }
        PartError::Later { after, why } => Failure::snooze(after).because(why),
        PartError::Cancelled => Failure::cancelled(),
    })?;
    let bytes = serde_json::to_vec(&report).map_or(0, |text| text.len());
    if bytes > REPORT_BYTES_MAX {
        let text = format!("the report of the part has {bytes} bytes, at most {REPORT_BYTES_MAX}");
        return Err(Failure::dead(text));
    }
    Ok(PartResult { started_at_ms, ended_at_ms: now_ms(), report })
}

/// Makes a type of task per stage.
macro_rules! stages {
    ($($stage:ident = $name:literal),+ $(,)?) => {
        /// The names of all stages that there are.
        pub const STAGES: &[&str] = &[$($name),+];

        $(
            #[derive(Serialize, Deserialize)]
            #[serde(transparent)]
            struct $stage(PartSpec);

            impl Task for $stage {
                const KIND: &'static str = concat!("flow.", $name);
                type Output = PartResult;
            }
        )+

        /// A worker that takes parts of all stages, on threads for computing.
        pub fn serve(worker: Worker) -> Worker {
            $(let worker = worker.on_cpu(
                |task: $stage, State(site): State<Site>, cancel: Cancel, progress: Progress, attempt: Attempt| {
                    work(task.0, &OnWorker { site, cancel, progress }, &attempt)
                },
            );)+
            worker
        }
    };
}

stages! {
    // MapReduce.
    Map = "map",
    Reduce = "reduce",
    // Aggregation.
    Partial = "partial",
    Merge = "merge",
    // Sort.
    Sample = "sample",
    Runs = "runs",
    Ranges = "ranges",
    Join = "join",
    Check = "check",
    // Graphs.
    Edges = "edges",
    Graph = "graph",
    // Streams.
    Stream = "stream",
}
