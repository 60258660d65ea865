//! Decides what time it is, for the wrappers.

use std::time::Duration;

/// Says what time it is.
pub trait Clock: Send + Sync {
    /// The time since a fixed moment of this clock's choice; never goes back.
    fn now(&self) -> Duration;
}

/// The runtime's clock, counted from when this was made; a test or an experiment can pause it and move it on.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeClock {
    start: tokio::time::Instant,
}

impl Default for RuntimeClock {
    fn default() -> Self {
        Self { start: now() }
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Duration {
        now().duration_since(self.start)
    }
}

fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}
