//! Decides what time it is, for the wrappers.
//!
//! The clocks here count from one moment for the whole process, so that guards which share a core agree about the time
//! whenever each was made. The exception is a clock that stands still when it is asked for, in a test or an experiment:
//! it counts from then, so that a run is the same whenever it is made. Guards must share one there.

use std::sync::OnceLock;
use std::time::Duration;

/// Says what time it is.
pub trait Clock: Send + Sync {
    /// The time since a fixed moment of this clock's choice; never goes back.
    fn now(&self) -> Duration;

    /// Whether futures under this clock can be cut off by a timer of the runtime.
    fn has_timer(&self) -> bool {
        true
    }
}

/// How long before its first use the time of this process begins: a guard cannot tell a new process from an old one.
const BEFORE: Duration = Duration::from_secs(3_600);

/// When the time of this process begins.
fn beginning() -> std::time::Instant {
    static BEGINNING: OnceLock<std::time::Instant> = OnceLock::new();
    *BEGINNING.get_or_init(|| {
        let now = system_now();
        now.checked_sub(BEFORE).unwrap_or(now)
    })
}

/// The runtime's clock, which a test or an experiment can pause and move on.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeClock {
    start: tokio::time::Instant,
}

impl Default for RuntimeClock {
    fn default() -> Self {
        let before = system_now();
        let now = tokio::time::Instant::now();
        let stands_still = !(before..=system_now()).contains(&now.into_std());
        Self { start: if stands_still { now } else { beginning().into() } }
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Duration {
        tokio::time::Instant::now().duration_since(self.start)
    }
}

/// The clock of the operating system. It needs no runtime and cannot be paused.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock {}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        system_now().duration_since(beginning())
    }

    fn has_timer(&self) -> bool {
        false
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

    fn has_timer(&self) -> bool {
        (**self).has_timer()
    }
}

impl<C: Clock + ?Sized> Clock for &C {
    fn now(&self) -> Duration {
        (**self).now()
    }

    fn has_timer(&self) -> bool {
        (**self).has_timer()
    }
}
