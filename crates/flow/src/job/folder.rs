//! The folder of a job: which file is where, and how each is written so that no reader ever sees half of one.
//!
//! | file | what | written by |
//! |---|---|---|
//! | `job.json` | what was asked for; fixed | the server |
//! | `state.json` | which stage it is at, and how it ended | the driver |
//! | `stages/N.plan.json` | the parts of stage N; fixed | the driver |
//! | `stages/N.done.json` | what became of them | the driver |
//! | `shuffle/STAGE/PART-TOKEN` | what an attempt wrote for the next stage; see [`super::shuffle`] | the attempt |
//! | `keep/STAGE-PART/` | what a part keeps between attempts, under a lock | the part |
//! | `scratch/STAGE-PART-TOKEN/` | spills of an attempt; removed with it | the attempt |
//! | `out/.part-N-TOKEN` | a part of the result before the job is done | the attempt |
//! | `out/part-N`, `out/manifest.json` | the result | the driver |
//!
//! Knows nothing of what the files mean.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of a file of ours that is read whole.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// The folder of all jobs in the data folder.
pub const FLOWS: &str = "flows";

/// The folder of one job; a clone is cheap.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
}

/// Something of the folder cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {problem}", path = .path.display())]
pub struct FolderError {
    path: PathBuf,
    problem: String,
}

impl FolderError {
    /// This path has this problem.
    pub fn new(path: &Path, problem: impl std::fmt::Display) -> Self {
        Self { path: path.to_owned(), problem: problem.to_string() }
    }
}

impl Folder {
    /// The folder at this place.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What was asked for.
    pub fn job(&self) -> PathBuf {
        self.root.join("job.json")
    }

    /// Which stage it is at.
    pub fn state(&self) -> PathBuf {
        self.root.join("state.json")
    }

    /// The parts of a stage.
    pub fn plan(&self, stage: u32) -> PathBuf {
        self.root.join("stages").join(format!("{stage}.plan.json"))
    }

    /// What became of them.
    pub fn done(&self, stage: u32) -> PathBuf {
        self.root.join("stages").join(format!("{stage}.done.json"))
    }

    /// Everything that stages hand to each other.
    pub fn shuffles(&self) -> PathBuf {
        self.root.join("shuffle")
    }

    /// What a stage hands to the next.
    pub fn shuffle(&self, stage: u32) -> PathBuf {
        self.shuffles().join(stage.to_string())
    }

    /// What parts keep between attempts.
    pub fn keeps(&self) -> PathBuf {
        self.root.join("keep")
    }

    /// What a part keeps between attempts.
    pub fn keep(&self, stage: u32, part: u32) -> PathBuf {
        self.keeps().join(format!("{stage}-{part}"))
    }

    /// Spills of all attempts.
    pub fn scratches(&self) -> PathBuf {
        self.root.join("scratch")
    }

    /// The result.
    pub fn out(&self) -> PathBuf {
        self.root.join("out")
    }

    /// What is in the result.
    pub fn manifest(&self) -> PathBuf {
        self.out().join("manifest.json")
    }
}

/// A folder that is made if it is not there.
///
/// # Errors
/// If it cannot be made.
pub fn make(path: &Path) -> Result<(), FolderError> {
    fs::create_dir_all(path).map_err(|error| FolderError::new(path, error))
}

/// The lock of a file, if nobody else has it; the file is made if it is not there.
///
/// # Errors
/// If the file cannot be opened.
pub fn try_lock(path: &Path) -> io::Result<Option<Flock<File>>> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, error)) => Err(error.into()),
    }
}

/// Writes a value so that readers see the old one or the new one, never a part, and so that it outlasts a loss of power.
///
/// # Errors
/// If the disk is full, or the folder gone.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), FolderError> {
    let failed = |error: &dyn std::fmt::Display| FolderError::new(path, error);
    let bytes = serde_json::to_vec(value).map_err(|error| failed(&error))?;
    write_whole(path, &bytes).map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull => failed(&"the disk is full; free some space there"),
        _ => failed(&error),
    })
}

/// The same for bytes.
///
/// # Errors
/// If the disk is full, or the folder gone.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (parent, name) = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => (parent, name.to_string_lossy()),
        _ => return Err(io::Error::from(io::ErrorKind::InvalidInput)),
    };
    // The dot keeps it out of every list; the process keeps two writers apart.
    let half = parent.join(format!(".{name}.{}.part", std::process::id()));
    let mut file = File::create(&half)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&half, path)?;
    sync_folder(parent)
}

/// Makes the names in a folder outlast a loss of power.
///
/// # Errors
/// If the folder cannot be opened.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Reads a value; nothing if there is no such file.
///
/// # Errors
/// If the file is not what it should be.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, FolderError> {
    let failed = |error: &dyn std::fmt::Display| FolderError::new(path, error);
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(&error)),
        Ok(about) if about.len() > FILE_BYTES_MAX => {
            let problem = format!("has {} bytes, at most {FILE_BYTES_MAX}", about.len());
            return Err(failed(&problem));
        }
        Ok(_) => {}
    }
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| failed(&error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_whole_or_not_at_all_and_a_lock_has_one_owner() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.json");
        assert_eq!(read_json::<u32>(&path).unwrap(), None);
        write_json(&path, &7).unwrap();
        write_json(&path, &8).unwrap();
        assert_eq!(read_json::<u32>(&path).unwrap(), Some(8));
        fs::write(&path, b"{").unwrap();
        assert!(read_json::<u32>(&path).unwrap_err().to_string().contains("a.json"));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing is left behind");
        let lock = place.path().join("lock");
        let first = try_lock(&lock).unwrap();
        assert!(first.is_some() && try_lock(&lock).unwrap().is_none());
        drop(first);
        assert!(try_lock(&lock).unwrap().is_some());
    }
}
