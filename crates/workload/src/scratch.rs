//! A place to work for one worker, which goes with it.
//!
//! The place is a folder with a file that the worker keeps locked for as long as it lives. The system gives the lock
//! back however a process ends, so a worker that begins removes every place whose lock is free: those of workers that
//! were killed. Several workers may share a folder for such places, also over a network.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What stands before the name of a place until its lock is held.
const NEW: &str = "new-";
const LOCK: &str = "lock";
/// A folder without a lock is being made, or is left from long ago.
const UNLOCKED_LIFE: Duration = Duration::from_secs(86_400);

/// A place to work; it is removed when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    /// Held for its lock.
    _lock: File,
}

impl Scratch {
    /// Makes a place below `root` for work of this name, and removes those of workers that are no more.
    ///
    /// # Errors
    /// If nothing can be written there.
    pub fn open(root: &Path, work: &str) -> io::Result<Self> {
        if let Err(error) = clean(root, work) {
            tracing::warn!(%error, "cannot look for what killed workers left in {}", root.display());
        }
        let new = tempfile::Builder::new().prefix(&format!("{NEW}{work}-")).tempdir_in(root)?;
        let lock = File::create_new(new.path().join(LOCK))?;
        lock.try_lock().map_err(io::Error::from)?;
        // It gets its name with the lock held, so that nobody takes it for one of a worker that is no more.
        let name = new.path().file_name().unwrap_or_default().to_string_lossy();
        let folder = root.join(name.strip_prefix(NEW).unwrap_or(&name));
        fs::rename(new.path(), &folder)?;
        let _ = new.keep();
        Ok(Self { folder, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(%error, "cannot remove {}", self.folder.display());
        }
    }
}

/// Removes the places of workers that are no more.
fn clean(root: &Path, work: &str) -> io::Result<()> {
    let prefix = format!("{work}-");
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_place = name.strip_prefix(NEW).unwrap_or(&name).starts_with(&prefix);
        if !is_place || !entry.file_type()?.is_dir() || is_used(&entry.path()) {
            continue;
        }
        match fs::remove_dir_all(entry.path()) {
            Ok(()) => {
                tracing::info!("removed {}, which a killed worker left", entry.path().display())
            }
            // Another worker that begins now may have been faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => (),
            Err(error) => tracing::warn!(%error, "cannot remove {}", entry.path().display()),
        }
    }
    Ok(())
}

/// Whether a worker works there, or may; in doubt one does.
fn is_used(place: &Path) -> bool {
    let is_new = place.file_name().is_some_and(|name| name.to_string_lossy().starts_with(NEW));
    match File::open(place.join(LOCK)) {
        Ok(lock) if !is_new => lock.try_lock().is_err(),
        _ => {
            let modified = place.metadata().and_then(|about| about.modified());
            let rests = modified.map(|at| SystemTime::now().duration_since(at).unwrap_or_default());
            rests.map_or(true, |rests| rests < UNLOCKED_LIFE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(root: &Path) -> Vec<String> {
        let entries = fs::read_dir(root).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn what_a_killed_worker_left_goes_when_the_next_one_begins() {
        let root = tempfile::tempdir().unwrap();
        let mine = Scratch::open(root.path(), "video").unwrap();
        fs::write(mine.path().join("frame"), "x").unwrap();
        // A killed worker's lock is free, and nothing else tells its place from others.
        let killed = root.path().join("video-killed");
        fs::create_dir_all(killed.join("video-attempt")).unwrap();
        fs::write(killed.join(LOCK), "").unwrap();
        for unlocked in ["video-just-made", "video-old", "other", "flow-old"] {
            fs::create_dir(root.path().join(unlocked)).unwrap();
        }
        let long_ago = SystemTime::now() - 2 * UNLOCKED_LIFE;
        for old in ["video-old", "flow-old"] {
            File::open(root.path().join(old)).unwrap().set_modified(long_ago).unwrap();
        }

        let other = Scratch::open(root.path(), "video").unwrap();
        assert!(!killed.exists() && !root.path().join("video-old").exists());
        assert!(mine.path().join("frame").exists() && other.path() != mine.path());
        assert_eq!(names(root.path()).len(), 5, "{:?}", names(root.path()));
        drop((mine, other));
        let mut left = names(root.path());
        left.sort_unstable();
        assert_eq!(left, ["flow-old", "other", "video-just-made"]);
    }
}
