//! Objects in a folder of the local file system: how it is laid out, opened and kept clean, and how a whole file takes
//! its place. Several processes of one machine may use it at once for blobs; records and uploads are written by one
//! process only, the server.
//!
//! ```text
//! identity                which folder this is, wherever it is seen from
//! blobs/ab/abcd…          one file per blob
//! records/a/b.json        one file per record
//! uploads/ID.part, .json  blobs that still arrive
//! tmp/                    files that have no name yet; each is locked by who writes it
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use crate::Error;
use crate::error::if_there;

/// Files without a name that are younger than this are never swept: their writer may be about to lock them.
const SWEEP_AFTER: Duration = Duration::from_secs(60);

/// What blobs leave free on the disk, for the ends of tasks and for records: as much as the store of tasks does.
pub const RESERVE_BYTES: u64 = 64 << 20;

/// Objects in a folder; a clone is cheap.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
    reserve_bytes: u64,
    /// Held while a record is compared and replaced.
    pub(crate) records: Arc<Mutex<()>>,
}

impl Folder {
    /// Opens the folder, or makes it. Removes what writers that died left behind.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, Error> {
        let root = root.into();
        for part in ["blobs", "records", "tmp"] {
            let path = root.join(part);
            let mut private = fs::DirBuilder::new();
            private.recursive(true).mode(0o700);
            private.create(&path).map_err(Error::io("create", path))?;
        }
        let folder = Self::at(root);
        folder.clear_temporary()?;
        folder.identify()?;
        Ok(folder)
    }

    /// Uses a folder that someone else opened; changes nothing in it yet.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub fn attach(root: impl Into<PathBuf>) -> Result<Self, Error> {
        let folder = Self::at(root.into());
        let all_there = ["blobs", "tmp"].iter().all(|part| folder.root.join(part).is_dir());
        if !all_there {
            return Err(Error::NotAFolder(folder.root));
        }
        folder.identity()?;
        Ok(folder)
    }

    /// Reads a folder that nobody need have opened; changes nothing in it.
    pub(crate) fn look_at(root: impl Into<PathBuf>) -> Self {
        Self::at(root.into())
    }

    fn at(root: PathBuf) -> Self {
        Self { root, reserve_bytes: RESERVE_BYTES, records: Arc::default() }
    }

    /// The same, with so much left free instead of [`RESERVE_BYTES`].
    #[must_use]
    pub fn leaving_free(self, reserve_bytes: u64) -> Self {
        Self { reserve_bytes, ..self }
    }

    /// Whether so many bytes may still be written to a file of a blob.
    ///
    /// # Errors
    /// [`Error::Full`] if less than the reserve would be left.
    pub(crate) fn check_room(&self, path: &Path, bytes: u64) -> Result<(), Error> {
        // Where the system does not tell, the write itself will.
        let Ok(disk) = nix::sys::statvfs::statvfs(&self.root) else { return Ok(()) };
        if free_bytes(&disk) < self.reserve_bytes.saturating_add(bytes) {
            return Err(Error::Full { action: "write", path: path.to_owned() });
        }
        Ok(())
    }

    /// Where the folder is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Which folder this is: the same text for everybody who sees the same folder, and another one for any other.
    pub fn identity(&self) -> Result<String, Error> {
        let path = self.root.join("identity");
        match if_there(fs::read_to_string(&path)) {
            Ok(Some(text)) => Ok(text.trim().to_owned()),
            Ok(None) => Err(Error::NotAFolder(self.root.clone())),
            Err(error) => Err(Error::io("read", path)(error)),
        }
    }

    fn identify(&self) -> Result<(), Error> {
        let path = self.root.join("identity");
        if path.exists() {
            return Ok(());
        }
        let mut temporary = self.temporary()?;
        let text = Uuid::now_v7().simple().to_string();
        temporary.write(text.as_bytes())?;
        temporary.sync()?;
        // A link does not replace what another process put there meanwhile, as a rename would.
        match fs::hard_link(&temporary.path, &path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(Error::io("create", path)(error))
            }
            _ => sync_folder(&self.root),
        }
    }

    /// Removes files in `tmp` whose writers are gone. One that is written now is locked.
    fn clear_temporary(&self) -> Result<(), Error> {
        let folder = self.root.join("tmp");
        for entry in fs::read_dir(&folder).map_err(Error::io("list", &folder))? {
            let path = entry.map_err(Error::io("list", &folder))?.path();
            // Whatever cannot be looked at now belongs to someone who is at work, and is seen at the next start.
            let Ok(file) = File::open(&path) else { continue };
            let is_old = is_older(&file, SWEEP_AFTER);
            if is_old && file.try_lock().is_ok() {
                let _ = fs::remove_file(&path);
            }
        }
        Ok(())
    }

    /// A new file without a name, locked.
    pub(crate) fn temporary(&self) -> Result<Temporary, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = self.root.join("tmp").join(format!("{}-{number}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                // A process of the same number, before this one or in another container.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io("create", path)(error)),
                Ok(file) => {
                    let temporary = Temporary { path, file, is_placed: false };
                    // A file system without locks has one process only, or nothing is older than its writer.
                    let _ = temporary.file.try_lock();
                    return Ok(temporary);
                }
            }
        }
    }

    /// Renames a whole and synced file to its place.
    pub(crate) fn place(&self, from: &Path, to: &Path) -> Result<(), Error> {
        let folder = to.parent().expect("every object is in a folder");
        make_folder(folder)?;
        fs::rename(from, to).map_err(Error::io("rename", from))?;
        // The name lasts only when the folder is synced too.
        sync_folder(folder)
    }
}

/// A file that has no name yet; it is removed unless it is placed.
#[derive(Debug)]
pub(crate) struct Temporary {
    pub(crate) path: PathBuf,
    file: File,
    is_placed: bool,
}

impl Temporary {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(Error::io("write", &self.path))
    }

    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(Error::io("sync", &self.path))
    }

    /// Says that the file has its name now.
    pub(crate) fn placed(&mut self) {
        self.is_placed = true;
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_placed {
            // It is swept at a later start if that fails.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "the width of the fields differs between systems"
)]
fn free_bytes(disk: &nix::sys::statvfs::Statvfs) -> u64 {
    (disk.blocks_available() as u64).saturating_mul(disk.fragment_size() as u64)
}

/// Makes a folder and those above it, so that they last.
fn make_folder(path: &Path) -> Result<(), Error> {
    if path.is_dir() {
        return Ok(());
    }
    let above = path.parent().expect("a folder of objects is not the root of the file system");
    make_folder(above)?;
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(Error::io("create", path)(error))
        }
        _ => sync_folder(above),
    }
}

pub(crate) fn sync_folder(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(Error::io("sync", path))
}

/// Whether a file was changed longer ago than that.
pub(crate) fn is_older(file: &File, age: Duration) -> bool {
    let changed = file.metadata().and_then(|found| found.modified());
    changed.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|past| past >= age))
}

/// Whether an open file is still the one at this path.
#[cfg(unix)]
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let which = |found: fs::Metadata| (found.dev(), found.ino());
    let (here, there) = (file.metadata().map(which), fs::metadata(path).map(which));
    matches!((here, there), (Ok(here), Ok(there)) if here == there)
}

/// Whether an open file is still the one at this path.
#[cfg(not(unix))]
pub(crate) fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

/// Removes a file; says whether it was there.
pub(crate) fn remove(path: &Path) -> Result<bool, Error> {
    let gone = if_there(fs::remove_file(path)).map_err(Error::io("remove", path))?;
    Ok(gone.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_removes_what_the_dead_left_and_nothing_that_is_written_now() {
        let place = tempfile::tempdir().unwrap();
        let first = Folder::open(place.path()).unwrap();
        let tmp = place.path().join("tmp");
        let long_ago = SystemTime::now() - 2 * SWEEP_AFTER;
        let age = |path: &Path| {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            file.set_modified(long_ago).unwrap();
        };
        fs::write(tmp.join("left"), b"x").unwrap();
        fs::write(tmp.join("young"), b"x").unwrap();
        age(&tmp.join("left"));
        let mut at_work = first.temporary().unwrap();
        at_work.write(b"half").unwrap();
        age(&at_work.path);
        Folder::open(place.path()).unwrap();
        assert!(!tmp.join("left").exists());
        assert!(tmp.join("young").exists());
        assert!(at_work.path.exists());
        let path = at_work.path.clone();
        drop(at_work);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_has_one_identity_for_all_and_others_have_another() {
        let (place, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert!(matches!(Folder::attach(place.path()), Err(Error::NotAFolder(_))));
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        let identity = Folder::open(place.path()).unwrap().identity().unwrap();
        assert_eq!(Folder::open(place.path()).unwrap().identity().unwrap(), identity);
        assert_eq!(Folder::attach(place.path()).unwrap().identity().unwrap(), identity);
        assert_ne!(Folder::open(other.path()).unwrap().identity().unwrap(), identity);
        assert_eq!(identity.len(), 32);
    }
}
