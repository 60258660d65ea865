//! What shards that sleep have seen, kept for their next turn in this process, so that a filter is not made anew from
//! millions of fingerprints each time a shard wakes.
//!
//! It is a copy of what their files hold. It counts only if the owner that left it was the last one of the file and
//! closed it; after anything else the filter is made from the file. What has no room is forgotten, oldest first.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use divvy_frontier::seen::Seen;

/// Bytes of all that is kept.
const BYTES_MAX: u64 = 256 << 20;

static SHELF: Mutex<Shelf> = Mutex::new(Shelf { kept: Vec::new(), bytes_max: BYTES_MAX });

struct Shelf {
    /// Oldest first.
    kept: Vec<Kept>,
    bytes_max: u64,
}

struct Kept {
    file: PathBuf,
    epoch: u64,
    seen: Seen,
}

/// Keeps what the owner with this epoch has seen, who closed the file.
pub(super) fn keep(file: &Path, epoch: u64, seen: Seen) {
    let mut shelf = SHELF.lock().unwrap_or_else(PoisonError::into_inner);
    shelf.keep(Kept { file: file.to_owned(), epoch, seen });
}

/// What was kept of this file, if its last owner was the one with this epoch.
pub(super) fn take(file: &Path, left_by: Option<u64>) -> Option<Seen> {
    let mut shelf = SHELF.lock().unwrap_or_else(PoisonError::into_inner);
    shelf.take(file, left_by)
}

impl Shelf {
    fn keep(&mut self, kept: Kept) {
        self.kept.retain(|other| other.file != kept.file);
        self.kept.push(kept);
        let mut bytes: u64 = self.kept.iter().map(|kept| kept.seen.bytes()).sum();
        while bytes > self.bytes_max {
            bytes -= self.kept.remove(0).seen.bytes();
        }
    }

    fn take(&mut self, file: &Path, left_by: Option<u64>) -> Option<Seen> {
        let at = self.kept.iter().position(|kept| kept.file == file)?;
        let kept = self.kept.remove(at);
        (left_by == Some(kept.epoch)).then_some(kept.seen)
    }
}

#[cfg(test)]
mod tests {
    use divvy_frontier::seen::Settings;

    use super::*;

    #[test]
    fn what_was_seen_is_kept_for_the_next_owner_and_nobody_else() {
        let seen = || Seen::new(Settings { expected: 1_000, ..Settings::default() });
        let room = seen().bytes() * 2;
        let mut shelf = Shelf { kept: Vec::new(), bytes_max: room };
        let keep = |shelf: &mut Shelf, name: &str, epoch| {
            let mut seen = seen();
            seen.remember(epoch);
            shelf.keep(Kept { file: name.into(), epoch, seen });
        };
        let taken = |shelf: &mut Shelf, name: &str, epoch| {
            shelf.take(Path::new(name), epoch).is_some_and(|seen| seen.may_contain(7))
        };
        keep(&mut shelf, "a", 7);
        assert!(taken(&mut shelf, "a", Some(7)));
        assert!(!taken(&mut shelf, "a", Some(7)), "it was taken");
        // Somebody else had the file since, or the last owner did not close it.
        for other in [Some(8), None] {
            keep(&mut shelf, "a", 7);
            assert!(!taken(&mut shelf, "a", other));
            assert!(shelf.kept.is_empty(), "it will never count again");
        }
        for name in ["a", "b", "c", "c"] {
            keep(&mut shelf, name, 7);
        }
        assert!(!taken(&mut shelf, "a", Some(7)), "there was no room");
        assert!(taken(&mut shelf, "b", Some(7)) && taken(&mut shelf, "c", Some(7)));
    }
}
