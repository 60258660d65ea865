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

/// The clock of the operating system, counted from when this was made. It needs no runtime and cannot be paused.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: std::time::Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: system_now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        system_now().duration_since(self.start)
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the shell is where the time that the cores are told comes from"
)]
fn system_now() -> std::time::Instant {
    std::time::Instant::now()
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Duration {
        (**self).now()
    }
}

impl<C: Clock + ?Sized> Clock for &C {
    fn now(&self) -> Duration {
        (**self).now()
    }
}
