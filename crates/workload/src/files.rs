//! Files of a folder that a server and its workers share: how each is written so that no reader ever sees half of one,
//! how one process of several owns something there, and the folders in it that have ids.
//!
//! Knows nothing of what the files mean.

use std::fmt::{self, Display};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of a file of ours that is read whole.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Characters of an id.
pub const ID_LEN: usize = 12;

/// Something of the folder cannot be read or written.
#[derive(Debug)]
pub struct FolderError {
    path: PathBuf,
    problem: String,
}

impl FolderError {
    /// This path has this problem.
    pub fn new(path: &Path, problem: impl Display) -> Self {
        Self { path: path.to_owned(), problem: problem.to_string() }
    }

    fn io(path: &Path, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::new(path, "the disk is full; free some space there")
            }
            _ => Self::new(path, error),
        }
    }
}

impl Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.problem)
    }
}

impl std::error::Error for FolderError {}

/// The right of this process to something, until it is dropped.
#[derive(Debug)]
pub struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a program that is just being started has a copy of the file for a moment.
        let _ = self.0.unlock();
    }
}

/// A folder that is made if it is not there.
///
/// # Errors
/// If it cannot be made.
pub fn make(path: &Path) -> Result<(), FolderError> {
    fs::create_dir_all(path).map_err(|error| FolderError::io(path, &error))
}

/// The lock of a file, if nobody else has it; the file is made if it is not there.
///
/// # Errors
/// If the file cannot be opened.
pub fn try_lock(path: &Path) -> Result<Option<Lock>, FolderError> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    let file = file.map_err(|error| FolderError::io(path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(FolderError::io(path, &error)),
    }
}

/// Writes a value so that readers see the old one or the new one, never a part, and so that it outlasts a loss of power.
///
/// # Errors
/// If the disk is full, or the folder gone.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), FolderError> {
    let bytes = serde_json::to_vec(value).map_err(|error| FolderError::new(path, error))?;
    write_whole(path, &bytes).map_err(|error| FolderError::io(path, &error))
}

/// The same for what is only shown, or made again: it need not outlast a loss of power.
///
/// # Errors
/// If the disk is full, or the folder gone.
pub fn show_json(path: &Path, value: &impl Serialize) -> Result<(), FolderError> {
    let bytes = serde_json::to_vec(value).map_err(|error| FolderError::new(path, error))?;
    replace(path, &bytes, false).map_err(|error| FolderError::io(path, &error))
}

/// Writes bytes as [`write_json`] does a value.
///
/// # Errors
/// If the disk is full, or the folder gone.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes, true)
}

fn replace(path: &Path, bytes: &[u8], is_synced: bool) -> io::Result<()> {
    let (parent, name) = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => (parent, name.to_string_lossy()),
        _ => return Err(io::Error::from(io::ErrorKind::InvalidInput)),
    };
    // The dot keeps it out of every list; the process keeps two writers apart.
    let half = parent.join(format!(".{name}.{}.part", std::process::id()));
    let mut file = File::create(&half)?;
    file.write_all(bytes)?;
    if is_synced {
        file.sync_all()?;
    }
    drop(file);
    fs::rename(&half, path)?;
    if is_synced { sync_folder(parent) } else { Ok(()) }
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
    if let Ok(about) = fs::metadata(path)
        && about.len() > FILE_BYTES_MAX
    {
        let problem = format!("has {} bytes, at most {FILE_BYTES_MAX}", about.len());
        return Err(FolderError::new(path, problem));
    }
    match fs::read(path) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map(Some).map_err(|error| FolderError::new(path, error))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FolderError::io(path, &error)),
    }
}

/// Whether a text has the form of an id, so that it is safe as the name of a folder.
pub fn is_id(text: &str) -> bool {
    text.len() == ID_LEN
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// The ids of all folders in `root` that have this file.
///
/// # Errors
/// If `root` cannot be read.
pub fn ids(root: &Path, file: &str) -> Result<Vec<String>, FolderError> {
    let failed = |error: io::Error| FolderError::io(root, &error);
    let mut ids = Vec::new();
    for entry in fs::read_dir(root).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_id(&name) && entry.path().join(file).exists() {
            ids.push(name);
        }
    }
    Ok(ids)
}

/// Where this process finds a folder that another one has in a folder of its own: in `root`, under the same name.
pub fn found(root: &Path, theirs: &Path) -> PathBuf {
    theirs.file_name().map_or_else(|| theirs.to_owned(), |name| root.join(name))
}

/// Removes a folder for which this file stands.
///
/// # Errors
/// If something of it cannot be removed.
pub fn remove(root: &Path, file: &Path) -> Result<(), FolderError> {
    // Without this file it is nothing any more, however far the removal gets.
    fs::remove_file(file).map_err(|error| FolderError::io(file, &error))?;
    fs::remove_dir_all(root).map_err(|error| FolderError::io(root, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.json");
        assert_eq!(read_json::<u32>(&path).unwrap(), None);
        write_json(&path, &7).unwrap();
        show_json(&path, &8).unwrap();
        assert_eq!(read_json::<u32>(&path).unwrap(), Some(8));
        fs::write(&path, b"{").unwrap();
        assert!(read_json::<u32>(&path).unwrap_err().to_string().contains("a.json"));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn a_lock_has_one_owner_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lock");
        let first = try_lock(&path).unwrap();
        assert!(first.is_some() && try_lock(&path).unwrap().is_none());
        assert!(try_lock(&place.path().join("other")).unwrap().is_some());
        drop(first);
        assert!(try_lock(&path).unwrap().is_some());
    }

    #[test]
    fn only_folders_with_an_id_and_their_file_count() {
        let place = tempfile::tempdir().unwrap();
        for name in ["0123456789ab", "0123456789ac", "0123456789AB", "short"] {
            make(&place.path().join(name)).unwrap();
        }
        for name in ["0123456789ab", "0123456789AB", "short"] {
            fs::write(place.path().join(name).join("it.json"), b"1").unwrap();
        }
        assert_eq!(ids(place.path(), "it.json").unwrap(), ["0123456789ab"]);
        let seen = found(Path::new("/mnt/data"), Path::new("/srv/divvy/0123456789ab"));
        assert_eq!(seen, Path::new("/mnt/data/0123456789ab"), "wherever the server has it");
        let root = place.path().join("0123456789ab");
        remove(&root, &root.join("it.json")).unwrap();
        assert!(!root.exists());
    }
}
