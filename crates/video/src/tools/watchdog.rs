//! Notices that a program hangs.
//!
//! A program lives while it advances: ffmpeg by its own word (frames, time or bytes written), others by printing. One
//! that does neither may still be at work, such as a slow preset that looks far ahead or a model that loads: while it
//! uses its processor it has [`PATIENCE`] times as long. A program that waits for something that never comes uses none.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::sandbox::processes;

/// How many times longer a program may be silent that works.
const PATIENCE: u32 = 10;
/// How often a silent program is looked at, within the time that it may be silent.
const LOOKS: u32 = 4;
const LOOK_EVERY_MIN: Duration = Duration::from_millis(20);

/// When a program last advanced.
#[derive(Debug)]
pub(super) struct Pulse {
    began: Instant,
    beat_ms: AtomicU64,
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), beat_ms: AtomicU64::new(0) }
    }

    /// There was an advance.
    pub(super) fn beat(&self) {
        let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.beat_ms.store(ms, Ordering::Relaxed);
    }

    fn last(&self) -> Instant {
        self.began + Duration::from_millis(self.beat_ms.load(Ordering::Relaxed))
    }

    /// Returns when the program with this process id, and all that came of it, has hung for `stall`.
    pub(super) async fn stops(&self, process: i32, stall: Duration) -> Duration {
        let look_every = (stall / LOOKS).max(LOOK_EVERY_MIN);
        let (mut ticks, mut worked) = (0, self.began);
        loop {
            tokio::time::sleep(look_every).await;
            let now = Instant::now();
            let silent = now.duration_since(self.last());
            if silent < look_every {
                (ticks, worked) = (0, now);
                continue;
            }
            // Reading `/proc` may take some milliseconds on a large machine.
            let look = tokio::task::spawn_blocking(move || processes::ticks_of_tree(process));
            let used = look.await.unwrap_or(ticks);
            if used > ticks {
                (ticks, worked) = (used, now);
            }
            let idle = now.duration_since(worked.max(self.last()));
            if idle >= stall || silent >= stall.saturating_mul(PATIENCE) {
                return silent;
            }
        }
    }
}
