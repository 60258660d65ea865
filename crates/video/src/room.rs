//! Room on the disk: work leaves free what the server needs for the ends of tasks and for records, which may be on the
//! same disk. A task that would need it waits until there is room again, and that is no attempt of it.
//!
//! Where the system does not tell how much is free, the write itself will.

use std::path::{Path, PathBuf};
use std::time::Duration;

use divvy::objects::RESERVE_BYTES;
use divvy::prelude::*;
use nix::sys::statvfs::statvfs;

/// How long a task waits for room.
const REST: Duration = Duration::from_secs(60);
/// How often a program that runs is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A place to work, on a disk of which something is left free.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    place: PathBuf,
    reserve_bytes: u64,
}

impl Room {
    pub(crate) fn at(place: impl Into<PathBuf>) -> Self {
        Self { place: place.into(), reserve_bytes: RESERVE_BYTES }
    }

    /// The same, with so much left free.
    #[cfg(test)]
    pub(crate) fn leaving_free(self, reserve_bytes: u64) -> Self {
        Self { reserve_bytes, ..self }
    }

    /// Whether so many bytes may still be written.
    pub(crate) fn check(&self, bytes: u64) -> Outcome<()> {
        if self.has(bytes) { Ok(()) } else { Err(missing(&self.place)) }
    }

    /// Returns when there is less left than should be.
    pub(crate) async fn ends(&self) {
        while self.has(0) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn has(&self, bytes: u64) -> bool {
        let Ok(disk) = statvfs(&self.place) else { return true };
        free_bytes(&disk) >= self.reserve_bytes.saturating_add(bytes)
    }
}

#[allow(clippy::unnecessary_cast, reason = "the types differ between platforms")]
fn free_bytes(disk: &nix::sys::statvfs::Statvfs) -> u64 {
    (disk.blocks_available() as u64).saturating_mul(disk.fragment_size() as u64)
}

/// What a task says that has no room in this place.
pub(crate) fn missing(place: &Path) -> Failure {
    Failure::snooze(REST).because(format_args!(
        "the disk of {} is nearly full: {} MiB are left free for the server; it is tried again when there is more, \
         so free some, or start workers with another --scratch",
        place.display(),
        RESERVE_BYTES >> 20
    ))
}

#[cfg(test)]
mod tests {
    use divvy::types::FailureVerdict;

    use super::*;

    #[tokio::test]
    async fn work_that_would_take_the_reserve_waits_and_is_not_counted() {
        let folder = tempfile::tempdir().unwrap();
        let room = Room::at(folder.path());
        room.check(0).unwrap();
        for full in [room.check(u64::MAX), room.clone().leaving_free(u64::MAX).check(0)] {
            let failure = full.unwrap_err();
            assert!(matches!(failure.verdict(), FailureVerdict::SnoozeMs(_)), "{failure}");
            assert!(failure.message().contains("nearly full"), "{failure}");
        }
        room.leaving_free(u64::MAX).ends().await;
        Room::at("/nowhere/at/all").check(u64::MAX).unwrap();
    }
}
