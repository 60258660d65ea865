//! The jobs of a server: what there is, how each stands, and what people may want of it.
//!
//! A job is a folder and, at any time, the tasks of one of its stages. The keeper leads it from stage to stage; the server
//! reads no input and does none of the work.

mod going;
mod keeper;
mod leftovers;
pub(crate) mod remote;
mod stagework;
pub(crate) mod state;
pub(crate) mod timeline;
pub(crate) mod view;

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use divvy::Client;
use divvy::types::need::capability;
use divvy::types::view::WorkerView;
use divvy_workload::console::output::words::{bytes, count};
use divvy_workload::files::{self, FolderError, ID_LEN, is_id, make, read_json, write_json};
use divvy_workload::now_ms;
use tokio::sync::{Mutex, Notify};

use crate::duckdb;
use crate::job::folder::FLOWS;
use crate::job::{
    Folder, Kind as _, NewJob, Next, OutputFile, Spec, SpecError, Stage, StageDone, kinds, tasks,
};
use crate::stream::{SoFar, Stream};
use state::{JobFile, Manifest};
use view::{JobView, LiveStage};

/// Jobs of one server.
const JOBS_MAX: usize = 10_000;

/// Jobs of which is kept what they were asked to do; the files of one may be many.
const SPECS_KEPT_MAX: usize = 8;

/// The jobs of a server; a clone is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Jobs {
    client: Client,
    root: Arc<PathBuf>,
    /// Held while something is written that others write too.
    writing: Arc<Mutex<()>>,
    /// What is seen of the stage that each job is at.
    live: Arc<StdMutex<HashMap<String, LiveStage>>>,
    /// What workers on other machines asked about last.
    latest: Arc<StdMutex<VecDeque<Arc<Spec>>>>,
    /// Which folder of jobs this is.
    identity: Arc<str>,
    /// Tells the keeper that a job was started or is to be cancelled.
    news: Arc<Notify>,
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JobsError {
    /// There is no such job.
    #[error("there is no job `{0}`; divvy flow list shows which there are")]
    None(String),
    /// What was asked for makes no sense.
    #[error(transparent)]
    Wrong(#[from] SpecError),
    /// It does not fit to where the job is.
    #[error("{0}")]
    Conflict(String),
    /// A job has no such file.
    #[error("{0}")]
    NoFile(String),
    /// A file that is not given out.
    #[error("{0}")]
    Forbidden(String),
    /// A file that is not any more what it was.
    #[error("{0}")]
    Changed(String),
    /// A piece that does not follow what is here.
    #[error("{0}")]
    Offset(String),
    /// A file that is not what was announced.
    #[error("{0}")]
    Damaged(String),
    /// There is no room for a file.
    #[error("{0}")]
    Full(String),
    /// Somebody else is at it; a little later it may work.
    #[error("{0}")]
    Busy(String),
    /// The folder cannot be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The server has too much to do, or stops.
    #[error(transparent)]
    Server(#[from] divvy::Error),
}

impl Jobs {
    /// The jobs in this data folder.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub(crate) fn open(client: Client, data: &Path) -> Result<Self, FolderError> {
        let root = data.join(FLOWS);
        make(&root)?;
        // Tasks name it, and workers stand elsewhere.
        let root = root.canonicalize().map_err(|error| FolderError::new(&root, error))?;
        let identity = remote::identify(&root)?.into();
        Ok(Self {
            client,
            root: Arc::new(root),
            latest: Arc::default(),
            identity,
            writing: Arc::default(),
            live: Arc::default(),
            news: Arc::default(),
        })
    }

    /// Which folder of jobs this is, wherever it is seen from.
    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// The folder of a job.
    pub(crate) fn folder(&self, id: &str) -> Folder {
        Folder::new(self.root.join(id))
    }

    /// Starts a job.
    ///
    /// # Errors
    /// If it makes no sense, nobody could do it, or it cannot be written down.
    pub(crate) async fn start(&self, new: NewJob) -> Result<JobView, JobsError> {
        // A name and no secret: it must only differ from all others.
        let id: String = (0..ID_LEN).map(|_| fastrand::digit(36)).collect();
        let spec = new.check(id, now_ms())?;
        if needs_duckdb(&spec) && self.nobody_has(duckdb::CAPABILITY).await {
            let problem = format!("has Parquet, and no worker reads it; {}", duckdb::CURE);
            return Err(SpecError::new("inputs", problem).into());
        }
        let writing = self.writing.lock().await;
        if self.ids()?.len() >= JOBS_MAX {
            let problem =
                format!("there are {JOBS_MAX} jobs already; remove some: divvy flow remove");
            return Err(JobsError::Conflict(problem));
        }
        let folder = self.folder(&spec.id);
        make(&folder.root().join("stages"))?;
        write_json(&folder.state(), &JobFile::default())?;
        // With this file the folder is a job.
        write_json(&folder.job(), &spec)?;
        drop(writing);
        self.news.notify_one();
        self.view(&spec.id)
    }

    /// Whether there are workers, none of which has a capability. Where there are none at all, some may come that do.
    async fn nobody_has(&self, wanted: &str) -> bool {
        let Ok(workers) = self.client.workers().await else { return false };
        let has = |worker: &WorkerView| {
            worker.capabilities.iter().any(|text| capability(text).0 == wanted)
        };
        !workers.is_empty() && !workers.iter().any(has)
    }

    /// The ids of all jobs.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub(crate) fn ids(&self) -> Result<Vec<String>, FolderError> {
        files::ids(&self.root, "job.json")
    }

    /// What a job was asked to do.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn spec(&self, id: &str) -> Result<Spec, JobsError> {
        let none = || JobsError::None(id.chars().take(64).collect());
        if !is_id(id) {
            return Err(none());
        }
        read_json(&self.folder(id).job())?.ok_or_else(none)
    }

    /// The same, read once for those who ask again and again.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn kept_spec(&self, id: &str) -> Result<Arc<Spec>, JobsError> {
        let latest = || self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let known = latest().iter().find(|spec| spec.id == id).cloned();
        if let Some(spec) = known.filter(|_| self.folder(id).job().exists()) {
            return Ok(spec);
        }
        let spec = Arc::new(self.spec(id)?);
        let mut latest = latest();
        latest.retain(|known| known.id != id);
        latest.truncate(SPECS_KEPT_MAX - 1);
        latest.push_front(Arc::clone(&spec));
        Ok(spec)
    }

    /// Where it is.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn state(&self, id: &str) -> Result<JobFile, JobsError> {
        Ok(read_json(&self.folder(id).state())?.unwrap_or_default())
    }

    /// Its stages that are done, in their order.
    ///
    /// # Errors
    /// If one cannot be read.
    pub(crate) fn done(&self, id: &str) -> Result<Vec<StageDone>, JobsError> {
        let folder = self.folder(id);
        let mut done = Vec::new();
        while let Some(stage) =
            read_json(&folder.done(u32::try_from(done.len()).unwrap_or(u32::MAX)))?
        {
            done.push(stage);
        }
        Ok(done)
    }

    /// How a job stands.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn view(&self, id: &str) -> Result<JobView, JobsError> {
        let spec = self.spec(id)?;
        let state = self.state(id)?;
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        let is_stopping = self.folder(id).stop().exists();
        Ok(view::view(spec, state, live, is_stopping))
    }

    /// Cancels a job.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) async fn cancel(&self, id: &str) -> Result<JobView, JobsError> {
        let writing = self.writing.lock().await;
        self.spec(id)?;
        let mut state = self.state(id)?;
        if state.ended.is_some() {
            return Err(JobsError::Conflict(format!("job {id} has ended already")));
        }
        state.is_cancelled = true;
        write_json(&self.folder(id).state(), &state)?;
        drop(writing);
        self.news.notify_one();
        self.view(id)
    }

    /// Ends a stream with what it has read: its windows are closed and its result is published.
    ///
    /// # Errors
    /// If it has ended, or is no stream.
    pub(crate) async fn stop(&self, id: &str) -> Result<JobView, JobsError> {
        let writing = self.writing.lock().await;
        let (spec, state) = (self.spec(id)?, self.state(id)?);
        if state.ended.is_some() {
            return Err(JobsError::Conflict(format!("job {id} has ended already")));
        }
        if spec.kind != Stream.name() || state.is_cancelled {
            let problem =
                format!("job {id} is no stream that goes on; end it with: divvy flow cancel {id}");
            return Err(JobsError::Conflict(problem));
        }
        // Its part sees it in the folder, whichever worker has it.
        write_json(&self.folder(id).stop(), &now_ms())?;
        drop(writing);
        self.view(id)
    }

    /// The files of the result and where they are: those of a job that is done, or what a stream that goes on has kept.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn result(&self, id: &str) -> Result<(Manifest, Vec<PathBuf>), JobsError> {
        let (spec, folder) = (self.spec(id)?, self.folder(id));
        if let Some(manifest) = read_json::<Manifest>(&folder.manifest())? {
            let paths = manifest.files.iter().map(|file| folder.out().join(&file.name)).collect();
            return Ok((manifest, paths));
        }
        let nothing = || JobsError::Conflict(format!("job {id} has no result yet"));
        if spec.kind != Stream.name() {
            return Err(nothing());
        }
        let so_far = SoFar::read(&folder)
            .map_err(|error| FolderError::new(&folder.keeps(), error))?
            .ok_or_else(nothing)?;
        let (files, paths): (Vec<OutputFile>, Vec<PathBuf>) = so_far.files.into_iter().unzip();
        let manifest = Manifest {
            job: spec.id,
            kind: spec.kind,
            rows: files.iter().map(|file| file.rows).sum(),
            bytes: files.iter().map(|file| file.bytes).sum(),
            checksum: None,
            files,
        };
        Ok((manifest, paths))
    }

    /// Removes a job that has ended, with all that it made.
    ///
    /// # Errors
    /// If it has not ended.
    pub(crate) async fn remove(&self, id: &str) -> Result<(), JobsError> {
        let _writing = self.writing.lock().await;
        self.spec(id)?;
        if self.state(id)?.ended.is_none() {
            let problem =
                format!("job {id} has not ended; cancel it first: divvy flow cancel {id}");
            return Err(JobsError::Conflict(problem));
        }
        let folder = self.folder(id);
        Ok(files::remove(folder.root(), &folder.job())?)
    }

    /// How a job is done, a sentence per line.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn explain(&self, id: &str) -> Result<Vec<String>, JobsError> {
        let spec = self.spec(id)?;
        let done = self.done(id)?;
        let Some(kind) = kinds::find(&spec.kind) else {
            let problem = format!("this server knows no jobs of kind `{}`", spec.kind);
            return Err(JobsError::Conflict(problem));
        };
        let mut lines = kind.explain(&spec, &done);
        if let Ok(Next::Stage(stage)) = kind.next(&spec, &done)
            && self.state(id)?.ended.is_none()
        {
            let read: u64 = stage.parts.iter().map(|part| part.bytes).sum();
            lines.push(format!(
                "now: stage `{}` with {} that read {}{}",
                stage.name,
                count(stage.parts.len() as u64, "part"),
                bytes(read),
                if stage.speculate { "; a part that takes long gets a twin" } else { "" },
            ));
            lines.push(who_takes(&stage).to_owned());
            lines.extend(self.view(id)?.stages.pop().into_iter().flat_map(|stage| stage.notes));
        }
        Ok(lines)
    }
}

/// Which workers take the parts of a stage, and how their files come to them.
fn who_takes(stage: &Stage) -> &'static str {
    if tasks::needs_folder(&stage.name) {
        return "its parts keep files in the job's folder between their attempts: only workers that see the server's \
                folder of jobs take them";
    }
    if stage.parts.iter().any(|part| part.needs.iter().any(|need| need == duckdb::CAPABILITY)) {
        return "its parts read Parquet where it is: only workers that see the server's folder of jobs and the input, \
                and have DuckDB, take them";
    }
    "any worker takes its parts: those that see the server's folder of jobs read and write there, others hand \
     everything over HTTP"
}

/// Whether a part of the first stage reads Parquet.
fn needs_duckdb(spec: &Spec) -> bool {
    let next = kinds::find(&spec.kind).map(|kind| kind.next(spec, &[]));
    let Some(Ok(Next::Stage(stage))) = next else { return false };
    stage.parts.iter().any(|part| part.needs.iter().any(|need| need == duckdb::CAPABILITY))
}
