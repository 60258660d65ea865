//! What time it is for one owner of a shard: the wall clock of the moment when it opened the shard, and a steady clock from
//! then on. A wall clock that jumps later breaks no gap.

use divvy_workload::now_ms;
use tokio::time::Instant;

/// The clock of one opening.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    opened_ms: u64,
    opened: Instant,
}

impl Clock {
    /// Starts now.
    pub fn start() -> Self {
        Self { opened_ms: now_ms(), opened: Instant::now() }
    }

    /// Milliseconds since 1970 that have passed for certain.
    pub fn now_ms(&self) -> u64 {
        self.opened_ms + u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX / 2)
    }

    /// The first whole millisecond that is not over yet: for the end of something, after which a gap counts. Rounded down,
    /// a gap would be up to a millisecond too short.
    pub fn end_ms(&self) -> u64 {
        self.now_ms() + 1
    }

    /// The moment of that time.
    pub fn at(&self, ms: u64) -> Instant {
        self.opened + std::time::Duration::from_millis(ms.saturating_sub(self.opened_ms))
    }
}
