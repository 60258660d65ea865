//! The folder of a crawl: which file is where, and how each is written so that no reader ever sees half of one.
//!
//! | file | what | written by |
//! |---|---|---|
//! | `crawl.json` | what was asked for; fixed | the server |
//! | `control.json` | paused, stopped, blocked hosts, rounds | the server |
//! | `shard-N.db` | everything durable of a shard | the shard |
//! | `shard-N.lock` | held by the process that owns the shard | the shard |
//! | `status-N.json` | what a shard shows, once a second; not durable | the shard |
//! | `inbox/N/FROM-SEQ.json` | links for shard N; see [`inbox`] | the others |
//! | `budget.json` | how many pages each shard may fetch; see [`budget`] | all, under a lock |
//! | `out/shard-N/` | what was made of the pages | the shard |
//!
//! Knows nothing of what the files mean.

pub(crate) mod budget;
pub(crate) mod control;
pub(crate) mod inbox;
pub(crate) mod status;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of a file of ours that is read whole.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// The folder of all crawls in the data folder.
pub(crate) const CRAWLS: &str = "crawls";

/// The folder of one crawl; a clone is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    root: PathBuf,
}

/// Something of the folder cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {problem}", path = .path.display())]
pub(crate) struct FolderError {
    path: PathBuf,
    problem: String,
}

impl FolderError {
    pub(crate) fn new(path: &Path, problem: impl std::fmt::Display) -> Self {
        Self { path: path.to_owned(), problem: problem.to_string() }
    }
}

impl Folder {
    /// The folder at this place.
    pub(crate) fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where it is.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// What was asked for.
    pub(crate) fn spec(&self) -> PathBuf {
        self.root.join("crawl.json")
    }

    /// What people want of it now.
    pub(crate) fn control(&self) -> PathBuf {
        self.root.join("control.json")
    }

    /// The durable state of a shard.
    pub(crate) fn shard_file(&self, shard: u32) -> PathBuf {
        self.root.join(format!("shard-{shard}.db"))
    }

    /// What a shard shows.
    pub(crate) fn status(&self, shard: u32) -> PathBuf {
        self.root.join(format!("status-{shard}.json"))
    }

    /// Links for a shard.
    pub(crate) fn inbox(&self, shard: u32) -> PathBuf {
        self.root.join("inbox").join(shard.to_string())
    }

    /// What a shard made.
    pub(crate) fn out(&self, shard: u32) -> PathBuf {
        self.root.join("out").join(format!("shard-{shard}"))
    }

    /// The right of this process to be the shard, if no other has it.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(crate) fn lock_shard(&self, shard: u32) -> Result<Option<Flock<File>>, FolderError> {
        try_lock(&self.root.join(format!("shard-{shard}.lock")))
    }
}

fn try_lock(path: &Path) -> Result<Option<Flock<File>>, FolderError> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    let file = file.map_err(|error| FolderError::new(path, error))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, error)) => Err(FolderError::new(path, error)),
    }
}

/// Writes a value so that readers see the old one or the new one, never a part. With `synced` it also outlasts a loss of
/// power.
///
/// # Errors
/// If the disk is full, or the folder gone.
pub(crate) fn write_json(
    path: &Path,
    value: &impl Serialize,
    synced: bool,
) -> Result<(), FolderError> {
    let failed = |error: &dyn std::fmt::Display| FolderError::new(path, error);
    let bytes = serde_json::to_vec(value).map_err(|error| failed(&error))?;
    write(path, &bytes, synced).map_err(|error| failed(&error))
}

fn write(path: &Path, bytes: &[u8], synced: bool) -> io::Result<()> {
    let (parent, name) = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => (parent, name.to_string_lossy()),
        _ => return Err(io::Error::from(io::ErrorKind::InvalidInput)),
    };
    // The dot keeps it out of every list; the process keeps two writers apart.
    let half = parent.join(format!(".{name}.{}.part", std::process::id()));
    let mut file = File::create(&half)?;
    file.write_all(bytes)?;
    if synced {
        file.sync_all()?;
    }
    drop(file);
    fs::rename(&half, path)?;
    if synced {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// Reads a value; nothing if there is no such file.
///
/// # Errors
/// If the file is not what it should be.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, FolderError> {
    let failed = |error: &dyn std::fmt::Display| FolderError::new(path, error);
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(&error)),
        Ok(about) if about.len() > FILE_BYTES_MAX => {
            return Err(failed(&format_args!(
                "has {} bytes, at most {FILE_BYTES_MAX}",
                about.len()
            )));
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
    fn one_process_at_a_time_is_a_shard() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        let first = folder.lock_shard(0).unwrap();
        assert!(first.is_some() && folder.lock_shard(0).unwrap().is_none());
        assert!(folder.lock_shard(1).unwrap().is_some(), "another shard is another matter");
        drop(first);
        assert!(folder.lock_shard(0).unwrap().is_some());
    }

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.json");
        assert_eq!(read_json::<u32>(&path).unwrap(), None);
        write_json(&path, &7, true).unwrap();
        write_json(&path, &8, false).unwrap();
        assert_eq!(read_json::<u32>(&path).unwrap(), Some(8));
        fs::write(&path, b"{").unwrap();
        assert!(read_json::<u32>(&path).unwrap_err().to_string().contains("a.json"));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing is left behind");
    }
}
