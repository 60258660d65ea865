//! What a part of a job may use on its worker: its budget, its files, the outputs of earlier stages, and the way to say
//! how far it is. Everything that an attempt writes has the attempt's token in its name.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use divvy_workload::files::{self, Lock};

use super::folder::Folder;
use super::{
    OutputWriter, PartError, PartSpec, PartitionSize, Report, ShuffleReader, ShuffleWriter, Spec,
    StageDone,
};
use crate::duckdb::Duckdb;

/// Between two words about how far a part is.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// What surrounds an attempt: who can stop it, and who hears how far it is.
pub trait Surroundings {
    /// Whether the attempt shall stop.
    fn is_cancelled(&self) -> bool;
    /// It has done so many of so many bytes.
    fn progress(&self, done: u64, total: u64);
    /// What it does at the moment.
    fn message(&self, text: &str);
    /// Whether a file outside of the job's folder may be read.
    ///
    /// # Errors
    /// Says what would allow it.
    fn may_read(&self, path: &Path) -> Result<(), String>;
    /// Whether programs of the job may run.
    ///
    /// # Errors
    /// Says what would allow it.
    fn may_run(&self, command: &str) -> Result<(), String>;
    /// Who reads Parquet here.
    ///
    /// # Errors
    /// If nobody does, with the cure.
    fn duckdb(&self) -> Result<Duckdb, String>;
}

/// What a part may use.
pub struct PartIo<'a> {
    spec: &'a Spec,
    part: &'a PartSpec,
    folder: Folder,
    token: String,
    threads: u32,
    around: &'a dyn Surroundings,
    told: Cell<Option<Instant>>,
    scratch: OnceCell<Scratch>,
    stages: HashMap<u32, Rc<StageDone>>,
}

/// A folder that is removed with the attempt.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // The driver sweeps what stays.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a part keeps between its attempts. While this lives, no other attempt has it.
#[derive(Debug)]
pub struct Keep {
    path: PathBuf,
    _lock: Lock,
}

impl Keep {
    /// Where it is. Write files there with [`files::write_whole`].
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl<'a> PartIo<'a> {
    /// For an attempt with this token.
    pub fn new(
        spec: &'a Spec,
        part: &'a PartSpec,
        token: u64,
        threads: u32,
        around: &'a dyn Surroundings,
    ) -> Self {
        Self {
            spec,
            part,
            folder: Folder::new(&part.folder),
            // Tokens of twins are of different tasks and may be equal.
            token: format!("{}.{token}", part.twin),
            threads: threads.max(1),
            around,
            told: Cell::new(None),
            scratch: OnceCell::new(),
            stages: HashMap::new(),
        }
    }

    /// The job.
    pub fn spec(&self) -> &'a Spec {
        self.spec
    }

    /// The part.
    pub fn part(&self) -> &'a PartSpec {
        self.part
    }

    /// The job's folder.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Memory that it may use, in bytes.
    pub fn memory_bytes(&self) -> usize {
        usize::try_from(self.spec.memory_bytes).unwrap_or(usize::MAX)
    }

    /// Threads that it may use.
    pub fn threads(&self) -> usize {
        self.threads as usize
    }

    /// An error once the part shall stop. Cheap: loops look at it every few thousand rows.
    ///
    /// # Errors
    /// If it shall.
    pub fn check(&self) -> Result<(), PartError> {
        if self.around.is_cancelled() { Err(PartError::Cancelled) } else { Ok(()) }
    }

    /// Whether somebody wants the job to end with what it has read.
    pub fn is_stopping(&self) -> bool {
        self.folder.stop().exists()
    }

    /// So many of so many bytes are done; 0 of all if that is not known. May be called as often as one likes. Also
    /// looks whether the part shall stop.
    ///
    /// # Errors
    /// If the part shall stop.
    pub fn progress(&self, done: u64, total: u64) -> Result<(), PartError> {
        let now = Instant::now();
        if self.told.get().is_none_or(|told| now.duration_since(told) >= TELL_EVERY) {
            self.told.set(Some(now));
            self.around.progress(done, total);
        }
        self.check()
    }

    /// What it does at the moment, such as `iteration 7 of 20` or how far its watermark lags.
    pub fn message(&self, text: &str) {
        self.around.message(text);
    }

    /// An error if this worker may not read a file of the job's input.
    ///
    /// # Errors
    /// Says what would allow it.
    pub fn may_read(&self, path: &Path) -> Result<(), PartError> {
        if path.starts_with(self.folder.root()) {
            return Ok(());
        }
        self.around.may_read(path).map_err(PartError::Broken)
    }

    /// An error if this worker may not run programs of jobs.
    ///
    /// # Errors
    /// Says what would allow it.
    pub fn may_run(&self, command: &str) -> Result<(), PartError> {
        self.around.may_run(command).map_err(PartError::Broken)
    }

    /// Who reads Parquet on this worker.
    ///
    /// # Errors
    /// If nobody does, with the cure.
    pub(crate) fn duckdb(&self) -> Result<Duckdb, PartError> {
        self.around.duckdb().map_err(PartError::Broken)
    }

    /// A folder for spills, removed with the attempt.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn scratch(&self) -> Result<&Path, PartError> {
        if let Some(scratch) = self.scratch.get() {
            return Ok(&scratch.0);
        }
        let name = format!("{}-{}-{}", self.part.stage, self.part.part, self.token);
        let path = self.folder.scratches().join(name);
        std::fs::create_dir_all(&path).map_err(|error| PartError::io(&path, &error))?;
        Ok(&self.scratch.get_or_init(|| Scratch(path)).0)
    }

    /// What the part keeps between attempts.
    ///
    /// # Errors
    /// [`PartError::Later`] while an attempt that was given up still has it.
    pub fn keep(&self) -> Result<Keep, PartError> {
        let path = self.folder.keep(self.part.stage, self.part.part);
        std::fs::create_dir_all(&path).map_err(|error| PartError::io(&path, &error))?;
        let lock = files::try_lock(&path.join(".lock"));
        match lock.map_err(|error| PartError::Trouble(error.to_string()))? {
            Some(lock) => Ok(Keep { path, _lock: lock }),
            None => Err(PartError::Later {
                after: Duration::from_secs(1),
                why: "an attempt that was given up has not ended yet".to_owned(),
            }),
        }
    }

    /// The file of this attempt in the shuffle, with so many partitions. End it with
    /// [`finish_shuffle`](Self::finish_shuffle).
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn shuffle(&self, partitions: u32) -> Result<ShuffleWriter, PartError> {
        let path = self.folder.shuffle(self.part.stage).join(self.shuffle_name());
        ShuffleWriter::create(&path, partitions).map_err(|error| PartError::io(&path, &error))
    }

    fn shuffle_name(&self) -> String {
        format!("{}-{}", self.part.part, self.token)
    }

    /// Ends the file of this attempt in the shuffle and notes in the report what is in it.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn finish_shuffle(
        &self,
        writer: ShuffleWriter,
        report: &mut Report,
    ) -> Result<(), PartError> {
        let path = writer.path().to_owned();
        let sizes = writer.finish().map_err(|error| PartError::io(&path, &error))?;
        report.rows_out += sizes.iter().map(|size| size.rows).sum::<u64>();
        report.bytes_out += sizes.iter().map(|size| size.bytes).sum::<u64>();
        report.partitions = sizes;
        report.shuffle = Some(self.shuffle_name());
        Ok(())
    }

    /// What became of an earlier stage.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn stage(&mut self, stage: u32) -> Result<Rc<StageDone>, PartError> {
        if let Some(done) = self.stages.get(&stage) {
            return Ok(Rc::clone(done));
        }
        let path = self.folder.done(stage);
        let read: Option<StageDone> =
            files::read_json(&path).map_err(|error| PartError::Trouble(error.to_string()))?;
        let Some(done) = read else {
            return Err(PartError::Broken(format!("stage {stage} is not done yet")));
        };
        let done = Rc::new(done);
        self.stages.insert(stage, Rc::clone(&done));
        Ok(done)
    }

    /// A partition that a part of an earlier stage wrote; nothing if it is empty.
    ///
    /// # Errors
    /// If the file is not whole.
    pub fn open(
        &mut self,
        stage: u32,
        part: u32,
        partition: u32,
    ) -> Result<Option<ShuffleReader>, PartError> {
        let done = self.stage(stage)?;
        let Some(report) = done.parts.get(part as usize).map(|part| &part.report) else {
            return Err(PartError::Broken(format!("stage {stage} has no part {part}")));
        };
        let Some(name) = &report.shuffle else { return Ok(None) };
        if report.partitions.get(partition as usize) == Some(&PartitionSize::default()) {
            return Ok(None);
        }
        let path = self.folder.shuffle(stage).join(name);
        let reader = ShuffleReader::open(&path, partition);
        reader.map(Some).map_err(|error| PartError::io(&path, &error))
    }

    /// A partition of all parts of an earlier stage, in their order; those that are empty are left out.
    ///
    /// # Errors
    /// If a file is not whole.
    pub fn open_all(
        &mut self,
        stage: u32,
        partition: u32,
    ) -> Result<Vec<ShuffleReader>, PartError> {
        let parts = u32::try_from(self.stage(stage)?.parts.len()).unwrap_or(u32::MAX);
        let mut readers = Vec::new();
        for part in 0..parts {
            readers.extend(self.open(stage, part, partition)?);
        }
        Ok(readers)
    }

    /// A file of the result: `part-00003` for number 3. End it with [`finish_output`](Self::finish_output).
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn output(&self, number: u32) -> Result<OutputWriter, PartError> {
        self.named_output(&format!("part-{number:05}"))
    }

    /// A file of the result with a name of its own, without folders.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn named_output(&self, name: &str) -> Result<OutputWriter, PartError> {
        let folder = self.folder.out();
        let writer = OutputWriter::create(folder.clone(), name.to_owned(), &self.token);
        writer.map_err(|error| PartError::io(&folder.join(name), &error))
    }

    /// Ends a file of the result and notes it in the report.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn finish_output(
        &self,
        writer: OutputWriter,
        report: &mut Report,
    ) -> Result<(), PartError> {
        let path = writer.path();
        let file = writer.finish().map_err(|error| PartError::io(&path, &error))?;
        report.rows_out += file.rows;
        report.bytes_out += file.bytes;
        report.outputs.push(file);
        Ok(())
    }
}
