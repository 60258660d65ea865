//! What a part of a job may use on its worker: its budget, its files, the outputs of earlier stages, and the way to say
//! how far it is. Everything that an attempt writes has the attempt's token in its name.
//!
//! Where the files are makes no difference to a part: they are in a folder, read and written where they lie, or at the
//! server alone ([`Place`]).

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use divvy_workload::files::{self, Lock};

use super::attempt::{output_name, output_number, until_done};
use super::folder::Folder;
use super::remote::Transfers;
use super::{
    AttemptName, InputFile, OutputWriter, PartError, PartSpec, PartitionSize, Report,
    ShuffleReader, ShuffleWriter, Spec, StageDone, Written,
};
use crate::duckdb::Duckdb;
use crate::input::Split;

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
    place: Place,
    token: u64,
    threads: u32,
    around: &'a dyn Surroundings,
    told: Cell<Option<Instant>>,
    scratch: OnceCell<Scratch>,
    stages: HashMap<u32, Rc<StageDone>>,
}

/// Where the files of the job are.
#[derive(Clone, Debug)]
pub enum Place {
    /// In a folder that this process sees.
    Folder(Folder),
    /// At the server alone.
    Server(Rc<Transfers>),
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
    /// For an attempt with this token of a job whose files are there.
    pub fn new(
        spec: &'a Spec,
        part: &'a PartSpec,
        place: Place,
        token: u64,
        threads: u32,
        around: &'a dyn Surroundings,
    ) -> Self {
        Self {
            spec,
            part,
            place,
            token,
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

    /// Whether somebody wants the job to end with what it has read. Asked by parts that keep something only.
    pub fn is_stopping(&self) -> bool {
        match &self.place {
            Place::Folder(folder) => folder.stop().exists(),
            Place::Server(_) => false,
        }
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
        if let Place::Folder(folder) = &self.place
            && path.starts_with(folder.root())
        {
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
        let name = format!("{}-{}", self.part.stage, self.attempt());
        let path = match &self.place {
            Place::Folder(folder) => folder.scratches().join(name),
            Place::Server(server) => server.scratches().join(format!("{}-{name}", self.part.job)),
        };
        std::fs::create_dir_all(&path).map_err(|error| PartError::io(&path, &error))?;
        Ok(&self.scratch.get_or_init(|| Scratch(path)).0)
    }

    /// What the part keeps between attempts.
    ///
    /// # Errors
    /// [`PartError::Later`] while an attempt that was given up still has it.
    pub fn keep(&self) -> Result<Keep, PartError> {
        let folder = self.folder()?;
        let path = folder.keep(self.part.stage, self.part.part);
        std::fs::create_dir_all(&path).map_err(|error| PartError::io(&path, &error))?;
        let lock = files::try_lock(&path.join(".lock"));
        match lock.map_err(|error| PartError::Trouble(error.to_string()))? {
            Some(lock) => Ok(Keep { path, _lock: lock }),
            None => Err(later("an attempt that was given up has not ended yet")),
        }
    }

    /// The job's folder, for parts that only workers do that see it.
    ///
    /// # Errors
    /// [`PartError::Later`] elsewhere.
    pub(crate) fn folder(&self) -> Result<&Folder, PartError> {
        match &self.place {
            Place::Folder(folder) => Ok(folder),
            // Its needs say so; this is a part that a server of an older version submitted.
            Place::Server(_) => {
                Err(later("it needs a worker that sees the server's folder of jobs"))
            }
        }
    }

    /// The file of this attempt in the shuffle, with so many partitions. End it with
    /// [`finish_shuffle`](Self::finish_shuffle).
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn shuffle(&self, partitions: u32) -> Result<ShuffleWriter, PartError> {
        let path = match &self.place {
            Place::Folder(folder) => self.shuffle_file().path(folder),
            Place::Server(_) => self.scratch()?.join("shuffle"),
        };
        ShuffleWriter::create(&path, partitions).map_err(|error| PartError::io(&path, &error))
    }

    fn attempt(&self) -> AttemptName {
        AttemptName { part: self.part.part, twin: self.part.twin, token: self.token }
    }

    fn shuffle_file(&self) -> Written {
        Written::Shuffle { stage: self.part.stage, attempt: self.attempt() }
    }

    /// Hands a file to the server, and has no more of it here.
    fn send(&self, server: &Transfers, file: Written, path: &Path) -> Result<(), PartError> {
        self.message("hands what it wrote to the server");
        server.send(file, path)?;
        std::fs::remove_file(path).map_err(|error| PartError::io(path, &error))
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
        let failed = |error| PartError::io(&path, &error);
        let sizes = match &self.place {
            Place::Folder(_) => writer.finish().map_err(failed)?,
            Place::Server(server) => {
                let sizes = writer.end().map_err(failed)?;
                self.send(server, self.shuffle_file(), &path)?;
                sizes
            }
        };
        report.rows_out += sizes.iter().map(|size| size.rows).sum::<u64>();
        report.bytes_out += sizes.iter().map(|size| size.bytes).sum::<u64>();
        report.partitions = sizes;
        report.shuffle = Some(self.attempt().to_string());
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
        let done = match &self.place {
            Place::Folder(folder) => {
                let read = files::read_json(&folder.done(stage));
                let read = read.map_err(|error| PartError::Trouble(error.to_string()))?;
                let not_yet = || PartError::Broken(format!("stage {stage} is not done yet"));
                read.ok_or_else(not_yet)?
            }
            Place::Server(server) => server.stage(stage)?,
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
        let Some(part) = done.parts.get(part as usize) else {
            return Err(PartError::Broken(format!("stage {stage} has no part {part}")));
        };
        let report = &part.report;
        let Some(name) = &report.shuffle else { return Ok(None) };
        if report.partitions.get(partition as usize) == Some(&PartitionSize::default()) {
            return Ok(None);
        }
        let (path, reader) = match &self.place {
            Place::Folder(folder) => {
                let path = folder.shuffle(stage).join(name);
                let reader = ShuffleReader::open(&path, partition);
                (path, reader)
            }
            Place::Server(server) => {
                let share = self.spec.memory_bytes / (done.parts.len() as u64).max(1);
                let reader = server.shuffle(stage, part, name, partition, share);
                (Path::new("shuffle").join(stage.to_string()).join(name), reader)
            }
        };
        reader.map(Some).map_err(|error| PartError::io(&path, &error))
    }

    /// The bytes of a file of the job's input, packed as they are, from one byte before the split on if that is not the
    /// first; at least up to the end of the last line that starts in the split. Looks first whether the file may be read
    /// and is still the one that the job was started with.
    ///
    /// # Errors
    /// If one of them is not so, or the file cannot be opened.
    pub fn input(&self, input: &InputFile, split: Split) -> Result<Box<dyn Read>, PartError> {
        match &self.place {
            Place::Folder(_) => {
                self.may_read(&input.path)?;
                input.expect_unchanged()?;
                let failed = |error: io::Error| PartError::io(&input.path, &error);
                let mut file = File::open(&input.path).map_err(failed)?;
                if split.from > 0 {
                    file.seek(SeekFrom::Start(split.from - 1)).map_err(failed)?;
                }
                Ok(Box::new(file))
            }
            Place::Server(server) => server.input(split.file, input, split),
        }
    }

    /// All bytes of a file that was read before, to find a place in it again.
    pub(crate) fn again(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        let Place::Server(server) = &self.place else { return Ok(Box::new(File::open(path)?)) };
        let at = self.spec.inputs.iter().position(|input| input.path == path);
        let number = at.and_then(|at| u32::try_from(at).ok());
        let number = number.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let whole = Split { file: number, from: 0, to: u64::MAX };
        let read = server.input(number, &self.spec.inputs[number as usize], whole);
        read.map_err(io::Error::other)
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
        self.named_output(&output_name(number))
    }

    /// A file of the result with a name of its own, without folders.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn named_output(&self, name: &str) -> Result<OutputWriter, PartError> {
        let folder = match &self.place {
            Place::Folder(folder) => folder.out(),
            Place::Server(_) => self.scratch()?.to_owned(),
        };
        let until_done = until_done(name, self.attempt());
        let writer = OutputWriter::create(&folder, name.to_owned(), until_done);
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
        let failed = |error| PartError::io(&path, &error);
        let file = match &self.place {
            Place::Folder(_) => writer.finish().map_err(failed)?,
            Place::Server(server) => {
                let file = writer.end().map_err(failed)?;
                let Some(number) = output_number(&file.name) else {
                    let text = format!("{}: only numbered files are handed to servers", file.name);
                    return Err(PartError::Broken(text));
                };
                self.send(server, Written::Output { number, attempt: self.attempt() }, &path)?;
                file
            }
        };
        report.rows_out += file.rows;
        report.bytes_out += file.bytes;
        report.outputs.push(file);
        Ok(())
    }
}

fn later(why: &str) -> PartError {
    PartError::Later { after: Duration::from_secs(1), why: why.to_owned() }
}
