//! Decides whether there is a place: a fixed number of calls inside, and a bounded number that wait for a place.
//!
//! Deliberately knows neither who waits nor for how long, and no clock: it counts. Places are guards: whoever drops
//! one, finished or cancelled, has given it back. The shell (`shell::bulkhead`, with the feature `async`) lets callers
//! wait in order, with a time limit.
//!
//! Why: one slow part must not take all threads, sockets or memory of a process. The name is Nygard's ("Release It!",
//! 2007). Where the right number is not known, use [`crate::concurrency`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::setting::{Invalid, require};

/// The most places, and the most that wait for one.
pub const PLACES_MAX: usize = 1 << 20;

/// How many may be inside and how many may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many calls are inside at once: 64.
    pub places: usize,
    /// How many may wait for a place: 64. With 0 nobody waits.
    pub waiting_max: usize,
    /// How long one waits at most: 1 s. Used by the shell.
    pub wait_max: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { places: 64, waiting_max: 64, wait_max: Duration::from_secs(1) }
    }
}

impl Settings {
    fn check(&self) -> Result<(), Invalid> {
        require(
            (1..=PLACES_MAX).contains(&self.places),
            "places",
            self.places,
            "from 1 to 1048576",
        )?;
        require(
            self.waiting_max <= PLACES_MAX,
            "waiting_max",
            self.waiting_max,
            "at most 1048576; a long queue only makes answers late",
        )?;
        require(
            self.waiting_max == 0 || !self.wait_max.is_zero(),
            "wait_max",
            self.wait_max,
            "above 0, or waiting_max to 0",
        )
    }
}

/// Why a call did not get in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// All places are taken, and as many wait as may.
    #[error(
        "all {places} places are taken and {waiting} wait already; try again later or elsewhere"
    )]
    Queue {
        /// How many places there are.
        places: usize,
        /// How many wait.
        waiting: usize,
    },
    /// No place became free in time.
    #[error("no place became free within {waited:?}; try again later or elsewhere")]
    Wait {
        /// How long was waited.
        waited: Duration,
    },
}

/// A fixed number of places, shared by its clones.
#[derive(Clone, Debug)]
pub struct Bulkhead {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    inside: AtomicUsize,
    waiting: AtomicUsize,
    entered: AtomicU64,
    refused: AtomicU64,
    timed_out: AtomicU64,
}

/// What was counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Calls that are inside.
    pub inside: usize,
    /// Calls that wait.
    pub waiting: usize,
    /// Calls that got in.
    pub entered: u64,
    /// Calls that were turned away at once.
    pub refused: u64,
    /// Calls that waited in vain.
    pub timed_out: u64,
}

impl Bulkhead {
    /// A bulkhead with all places free.
    ///
    /// # Errors
    /// When a setting makes no sense.
    pub fn new(settings: Settings) -> Result<Self, Invalid> {
        settings.check()?;
        let shared = Shared {
            settings,
            inside: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            entered: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            timed_out: AtomicU64::new(0),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// A place, if one is free.
    pub fn try_enter(&self) -> Option<Place> {
        if !take(&self.shared.inside, self.shared.settings.places) {
            return None;
        }
        self.shared.entered.fetch_add(1, Ordering::Relaxed);
        Some(Place { shared: Arc::clone(&self.shared) })
    }

    /// A place in the queue.
    ///
    /// # Errors
    /// When as many wait as may.
    pub fn try_wait(&self) -> Result<Waiting, Full> {
        if take(&self.shared.waiting, self.shared.settings.waiting_max) {
            return Ok(Waiting { shared: Arc::clone(&self.shared) });
        }
        self.shared.refused.fetch_add(1, Ordering::Relaxed);
        let Settings { places, waiting_max: waiting, .. } = self.shared.settings;
        Err(Full::Queue { places, waiting })
    }

    /// What it was made with.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// What was counted so far.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            inside: self.shared.inside.load(Ordering::Relaxed),
            waiting: self.shared.waiting.load(Ordering::Relaxed),
            entered: self.shared.entered.load(Ordering::Relaxed),
            refused: self.shared.refused.load(Ordering::Relaxed),
            timed_out: self.shared.timed_out.load(Ordering::Relaxed),
        }
    }
}

/// A place inside, given back when it is dropped.
#[derive(Debug)]
#[must_use = "the place is given back as soon as this is dropped"]
pub struct Place {
    shared: Arc<Shared>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.inside.fetch_sub(1, Ordering::Release);
    }
}

/// A place in the queue, given back when it is dropped.
#[derive(Debug)]
#[must_use = "the place in the queue is given back as soon as this is dropped"]
pub struct Waiting {
    shared: Arc<Shared>,
}

impl Waiting {
    /// Gives up after `waited`, and says so.
    pub fn give_up(self, waited: Duration) -> Full {
        self.shared.timed_out.fetch_add(1, Ordering::Relaxed);
        Full::Wait { waited }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.shared.waiting.fetch_sub(1, Ordering::Release);
    }
}

/// Adds one to `count` unless it is at `limit`.
fn take(count: &AtomicUsize, limit: usize) -> bool {
    count
        .fetch_update(Ordering::Acquire, Ordering::Relaxed, |count| {
            (count < limit).then_some(count + 1)
        })
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_come_back() {
        let settings = Settings { places: 2, waiting_max: 1, ..Settings::default() };
        let bulkhead = Bulkhead::new(settings).unwrap();
        let first = bulkhead.try_enter().unwrap();
        let second = bulkhead.try_enter().unwrap();
        assert!(bulkhead.try_enter().is_none());
        let waiting = bulkhead.try_wait().unwrap();
        assert_eq!(bulkhead.try_wait().unwrap_err(), Full::Queue { places: 2, waiting: 1 });
        drop(first);
        let third = bulkhead.try_enter().unwrap();
        let full = waiting.give_up(Duration::from_secs(1));
        assert_eq!(
            full.to_string(),
            "no place became free within 1s; try again later or elsewhere"
        );
        drop((second, third));
        let statistics = bulkhead.statistics();
        assert_eq!((statistics.inside, statistics.waiting), (0, 0));
        assert_eq!((statistics.entered, statistics.refused, statistics.timed_out), (3, 1, 1));
    }

    #[test]
    fn threads_never_pass_the_limit() {
        let bulkhead = Bulkhead::new(Settings { places: 3, ..Settings::default() }).unwrap();
        let peak = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        if let Some(_place) = bulkhead.try_enter() {
                            peak.fetch_max(bulkhead.statistics().inside, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert!((1..=3).contains(&peak.into_inner()));
        assert_eq!(bulkhead.statistics().inside, 0);
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let good = Settings::default();
        let table = [
            (Settings { places: 0, ..good }, "places"),
            (Settings { places: PLACES_MAX + 1, ..good }, "places"),
            (Settings { waiting_max: PLACES_MAX + 1, ..good }, "waiting_max"),
            (Settings { wait_max: Duration::ZERO, ..good }, "wait_max"),
        ];
        for (settings, field) in table {
            assert_eq!(Bulkhead::new(settings).unwrap_err().field, field, "{settings:?}");
        }
    }
}
