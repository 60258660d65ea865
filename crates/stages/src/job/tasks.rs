//! Parts as tasks: one kind of task per stage, so that the server learns how long each takes. A stage more is a line more
//! in the list at the end.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use divvy::extract::{Attempt, Cancel, Progress, State};
use divvy::types::Token;
use divvy::{Failure, Outcome, Task, Worker};
use divvy_workload::files::{self, read_json};
use divvy_workload::now_ms;
use serde::{Deserialize, Serialize};

use super::remote::{AtServer, Transfers};
use super::report::REPORT_BYTES_MAX;
use super::{Folder, PartError, PartIo, PartSpec, Place, Report, Spec, Surroundings, kinds};
use crate::duckdb::{self, Duckdb};

/// The capability of a worker that takes parts.
pub const CAPABILITY: &str = "flow";
/// The capability of a worker that sees the server's folder of jobs; see [`needs_folder`].
pub const FOLDER: &str = "flow-folder";
/// The capability of a worker that runs programs of jobs; parts that need it say so in
/// [`Part::needs`](super::Part::needs).
pub const COMMANDS: &str = "flow-commands";

/// The stages whose parts keep files in the job's folder.
const KEEPING: &[&str] = &["graph", "stream"];
/// The counters of bytes that parts read over HTTP, and wrote.
const READ_OVER_HTTP: &str = "bytes read over HTTP";
const SENT_OVER_HTTP: &str = "bytes sent over HTTP";

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
#[derive(Clone, Debug)]
pub struct Site {
    /// Where the files of jobs are, seen from this worker.
    pub jobs: JobsAt,
    /// Folders whose files jobs may read.
    pub readable: Arc<[PathBuf]>,
    /// Whether programs of jobs may run.
    pub commands: bool,
    /// Who reads Parquet here, if anybody does.
    pub duckdb: Option<Duckdb>,
}

/// Where the files of jobs are, seen from a worker.
#[derive(Clone, Debug)]
pub enum JobsAt {
    /// In the server's folder of jobs, here.
    Folder(PathBuf),
    /// At the server alone.
    Server(Arc<AtServer>),
}

/// Whether parts of this stage keep files in the job's folder between their attempts, so that only a worker that sees it
/// can take them.
pub fn needs_folder(stage: &str) -> bool {
    KEEPING.contains(&stage)
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
fn work(part: &PartSpec, around: &OnWorker, attempt: &Attempt) -> Outcome<PartResult> {
    let started_at_ms = now_ms();
    let (spec, place) = find(part, around).map_err(failure)?;
    let Some(kind) = kinds::find(&spec.kind) else {
        return Err(Failure::retry(format_args!(
            "this worker knows no jobs of kind `{}`",
            spec.kind
        )));
    };
    let Token(token) = attempt.token;
    let mut io = PartIo::new(&spec, part, place.clone(), token, attempt.threads, around);
    let mut report = kind.run(part, &mut io);
    if let Place::Server(transfers) = &place {
        // What decoders and merges made of a transfer that failed, or left out as damage, says less.
        report = transfers.failure().map_or(report, Err);
        if let Ok(report) = &mut report {
            let (read, sent) = transfers.bytes();
            report.count(READ_OVER_HTTP, read);
            report.count(SENT_OVER_HTTP, sent);
        }
    }
    let report = report.map_err(failure)?;
    let bytes = serde_json::to_vec(&report).map_or(0, |text| text.len());
    if bytes > REPORT_BYTES_MAX {
        let text = format!("the report of the part has {bytes} bytes, at most {REPORT_BYTES_MAX}");
        return Err(Failure::dead(text));
    }
    Ok(PartResult { started_at_ms, ended_at_ms: now_ms(), report })
}

/// What the job was asked to do, and where its files are.
fn find(part: &PartSpec, around: &OnWorker) -> Result<(Arc<Spec>, Place), PartError> {
    match &around.site.jobs {
        JobsAt::Folder(jobs) => {
            // The server may have the folder elsewhere.
            let folder = Folder::new(files::found(jobs, &part.folder));
            let path = folder.job();
            let read = read_json(&path).map_err(|error| PartError::Trouble(error.to_string()))?;
            let none = || PartError::Broken(format!("{}: there is no such job", path.display()));
            Ok((Arc::new(read.ok_or_else(none)?), Place::Folder(folder)))
        }
        JobsAt::Server(server) => {
            let transfers = Transfers::new(Arc::clone(server), &part.job, around.cancel.clone());
            Ok((transfers.spec()?, Place::Server(Rc::new(transfers))))
        }
    }
}

/// What follows for the task.
fn failure(error: PartError) -> Failure {
    match error {
        PartError::Trouble(_) => Failure::retry(error),
        PartError::Input { .. } | PartError::Command { .. } | PartError::Broken(_) => {
            Failure::dead(error)
        }
        PartError::Later { after, why } => Failure::snooze(after).because(why),
        PartError::Cancelled => Failure::cancelled(),
    }
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
                    work(&task.0, &OnWorker { site, cancel, progress }, &attempt)
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
