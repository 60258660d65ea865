//! Runs jobs without a server, for tests: parts one after the other, each told to stop as often as a test wants, every attempt with
//! another number of threads.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use divvy_workload::files::{make, write_json};

use crate::duckdb::Duckdb;
use crate::job::{
    Folder, InputFile, NewJob, Next, PartDone, PartError, PartIo, PartSpec, Place, StageDone,
    Summary, Surroundings, kinds,
};

/// Turns of one part, at most.
const TURNS_MAX: u32 = 100_000;

/// Threads of an attempt, at most; the first attempt of a part has one.
const THREADS_MAX: u32 = 3;

/// A job that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The files of the result.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// What it says.
    pub(crate) summary: Summary,
    /// What its stages said.
    pub(crate) stages: Vec<StageDone>,
    /// Times that a part was told to stop.
    pub(crate) stopped: u32,
}

impl Ended {
    /// All files one after the other.
    pub(crate) fn joined(&self) -> Vec<u8> {
        self.files.values().flatten().copied().collect()
    }
}

/// How often a part may look whether it shall stop before it must; nothing lets it go on to its end.
pub(crate) type Stops<'a> = dyn FnMut(&str) -> Option<u64> + 'a;

/// Runs a job in a folder to its end.
pub(crate) fn run(new: NewJob, place: &Path) -> Result<Ended, String> {
    run_with_stops(new, place, &mut |_| None)
}

/// The same with parts that are told to stop.
pub(crate) fn run_with_stops(
    new: NewJob,
    place: &Path,
    stops: &mut Stops<'_>,
) -> Result<Ended, String> {
    let folder = Folder::new(place.join("job"));
    make(folder.root()).map_err(|error| error.to_string())?;
    let spec = new.check("job".to_owned(), 0).map_err(|error| error.to_string())?;
    let kind = kinds::find(&spec.kind).expect("the job was checked");
    let mut stages: Vec<StageDone> = Vec::new();
    let mut stopped = 0;
    let summary = loop {
        assert!(!kind.explain(&spec, &stages).is_empty());
        let stage = match kind.next(&spec, &stages).map_err(|error| error.to_string())? {
            Next::Finished(summary) => break summary,
            Next::Stage(stage) => stage,
        };
        assert!(!stage.parts.is_empty(), "a stage has a part");
        let mut done = StageDone { name: stage.name.clone(), ..StageDone::default() };
        for (number, part) in (0..).zip(&stage.parts) {
            let part = PartSpec {
                job: spec.id.clone(),
                folder: folder.root().to_owned(),
                stage: stages.len() as u32,
                name: stage.name.clone(),
                part: number,
                parts: stage.parts.len() as u32,
                twin: 0,
                work: part.work.clone(),
                bytes: part.bytes,
            };
            let report = (0..TURNS_MAX).find_map(|token| {
                let around = Around { left: Cell::new(stops(&stage.name)) };
                let threads = 1 + token % THREADS_MAX;
                let mut io = PartIo::new(
                    &spec,
                    &part,
                    Place::Folder(folder.clone()),
                    u64::from(token),
                    threads,
                    &around,
                );
                match kind.run(&part, &mut io) {
                    Ok(report) => Some(Ok(report)),
                    Err(PartError::Cancelled) => {
                        stopped += 1;
                        None
                    }
                    Err(PartError::Later { .. }) => None,
                    Err(error) => Some(Err(error.to_string())),
                }
            });
            let report =
                report.unwrap_or_else(|| Err("the part does not come to its end".to_owned()))?;
            done.parts.push(PartDone { report, ..PartDone::default() });
        }
        let path = folder.done(stages.len() as u32);
        make(path.parent().expect("it is in a folder")).map_err(|error| error.to_string())?;
        write_json(&path, &done).map_err(|error| error.to_string())?;
        stages.push(done);
    };
    let outputs =
        stages.iter().flat_map(|stage| &stage.parts).flat_map(|part| &part.report.outputs);
    let read = |name: &str| std::fs::read(folder.out().join(name)).expect("an output is there");
    let files = outputs.map(|file| (file.name.clone(), read(&file.until_done))).collect();
    Ok(Ended { files, summary, stages, stopped })
}

/// Chance of a test that can be repeated: seeded by `DIVVY_TEST_SEED`, or anew; says which.
pub(crate) fn announced_chance() -> fastrand::Rng {
    let given = std::env::var("DIVVY_TEST_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("seed: DIVVY_TEST_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// Writes a file and gives it as an input.
pub(crate) fn file(place: &Path, name: &str, content: &[u8]) -> InputFile {
    let path: PathBuf = place.join(name);
    std::fs::write(&path, content).expect("a file can be written");
    InputFile::look(&path).expect("it is there")
}

struct Around {
    left: Cell<Option<u64>>,
}

impl Surroundings for Around {
    fn is_cancelled(&self) -> bool {
        match self.left.get() {
            None => false,
            Some(0) => true,
            Some(left) => {
                self.left.set(Some(left - 1));
                false
            }
        }
    }

    fn progress(&self, _: u64, _: u64) {}

    fn message(&self, _: &str) {}

    fn may_read(&self, _: &Path) -> Result<(), String> {
        Ok(())
    }

    fn may_run(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn duckdb(&self) -> Result<Duckdb, String> {
        Err("nobody reads Parquet in tests of one process".to_owned())
    }
}
