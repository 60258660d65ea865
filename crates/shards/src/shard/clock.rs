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
        self.ms_of(Instant::now())
    }

    /// The first whole millisecond that is not over yet: for the end of something, after which a gap counts. Rounded down,
    /// a gap would be up to a millisecond too short.
    pub fn end_ms(&self) -> u64 {
        self.now_ms() + 1
    }

    /// The whole milliseconds since 1970 that had passed at a moment.
    pub fn ms_of(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.opened).as_millis();
        self.opened_ms + u64::try_from(since).unwrap_or(u64::MAX / 2)
    }

    /// The moment of that time.
    pub fn at(&self, ms: u64) -> Instant {
        self.opened + std::time::Duration::from_millis(ms.saturating_sub(self.opened_ms))
    }
}
