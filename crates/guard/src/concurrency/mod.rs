//! Decides how many calls may be in flight at once, from how long they take: the limit is learned, not guessed.
//!
//! Deliberately knows neither what a call does nor a clock. A [`Permit`] is a guard: dropped without
//! [`Permit::finish`] (cancelled, or of no use as a sample) it gives its place back and teaches nothing.
//!
//! Rules: by Little's law a part that serves `r` calls per second in `w` seconds each has `r × w` in flight. More than
//! that only wait in its queue: latency grows and throughput does not. The limit seeks this knee, by one of three laws
//! ([`Law`]); every window of calls moves it a little. Now and then ([`Settings::measure_every`]) the limit drops to a
//! quarter for some ten calls, to see how long a call takes without a queue.
//!
//! Why this way: a fixed limit ([`crate::bulkhead`]) is wrong as soon as the other side is scaled, slowed or moved.
//!
//! First start: [`Settings::initial`] calls are let in until the first window is full. The first window is taken as
//! the usual latency, until the first measurement sets it right.

mod law;
mod learning;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use law::Law;
use learning::{Learning, Sample};

use crate::setting::{Invalid, require};

/// The largest limit.
pub const LIMIT_MAX: u32 = 1 << 20;

/// How the limit is learned, and between which bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The limit at first: 20.
    pub initial: u32,
    /// The lowest limit: 1.
    pub min: u32,
    /// The highest limit: 1000, at most [`LIMIT_MAX`].
    pub max: u32,
    /// How many calls a window holds at least: 10.
    pub window_calls: u32,
    /// How long a window lasts at least: 100 ms.
    pub window: Duration,
    /// How often the latency without a queue is measured: every 30 s; none: never.
    pub measure_every: Option<Duration>,
    /// The law: the gradient.
    pub law: Law,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            initial: 20,
            min: 1,
            max: 1000,
            window_calls: 10,
            window: Duration::from_millis(100),
            measure_every: Some(Duration::from_secs(30)),
            law: Law::GRADIENT,
        }
    }
}

impl Settings {
    fn check(&self) -> Result<(), Invalid> {
        require(self.min > 0, "min", self.min, "at least 1")?;
        require(
            (self.min..=LIMIT_MAX).contains(&self.max),
            "max",
            self.max,
            "from min to 1048576",
        )?;
        require(
            (self.min..=self.max).contains(&self.initial),
            "initial",
            self.initial,
            "between min and max",
        )?;
        require(self.window_calls > 0, "window_calls", self.window_calls, "at least 1")?;
        require(
            self.measure_every.is_none_or(|every| every >= self.window && !every.is_zero()),
            "measure_every",
            self.measure_every,
            "many windows, or none",
        )?;
        self.law.check()
    }
}

/// How a call ended, as far as the limit is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was served; its latency counts.
    Success,
    /// It was refused, or given up after a timeout: the other side has too much.
    Overloaded,
    /// It says nothing about load, such as a request that was wrong.
    Ignored,
}

/// As many calls are in flight as may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{limit} calls are in flight, as many as may be; try again later or elsewhere")]
pub struct Saturated {
    /// The limit.
    pub limit: u32,
}

/// A learned limit, shared by its clones.
#[derive(Clone, Debug)]
pub struct Limiter {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limit: AtomicU32,
    in_flight: AtomicU32,
    admitted: AtomicU64,
    refused: AtomicU64,
    learning: Mutex<Learning>,
}

/// What was counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The limit in force.
    pub limit: u32,
    /// Calls in flight.
    pub in_flight: u32,
    /// Calls that were let in.
    pub admitted: u64,
    /// Calls that were refused.
    pub refused: u64,
}

impl Limiter {
    /// A limiter that has seen nothing.
    ///
    /// # Errors
    /// When a setting makes no sense.
    pub fn new(settings: Settings) -> Result<Self, Invalid> {
        settings.check()?;
        let shared = Shared {
            limit: AtomicU32::new(settings.initial),
            in_flight: AtomicU32::new(0),
            admitted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            learning: Mutex::new(Learning::new(settings)),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Lets a call in that begins now.
    ///
    /// # Errors
    /// When as many are in flight as may be.
    pub fn try_acquire(&self, now: Duration) -> Result<Permit, Saturated> {
        let limit = self.limit();
        let taken =
            self.shared.in_flight.fetch_update(Ordering::Acquire, Ordering::Relaxed, |in_flight| {
                (in_flight < limit).then_some(in_flight + 1)
            });
        let Ok(before) = taken else {
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Saturated { limit });
        };
        self.shared.admitted.fetch_add(1, Ordering::Relaxed);
        let place = Place { shared: Arc::clone(&self.shared) };
        Ok(Permit { place, started: now, in_flight: before + 1 })
    }

    /// The limit in force.
    pub fn limit(&self) -> u32 {
        self.shared.limit.load(Ordering::Relaxed)
    }

    /// Whether nothing more would be let in: hedges and retries should not be sent.
    pub fn is_saturated(&self) -> bool {
        self.shared.in_flight.load(Ordering::Relaxed) >= self.limit()
    }

    /// What was counted so far.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            limit: self.limit(),
            in_flight: self.shared.in_flight.load(Ordering::Relaxed),
            admitted: self.shared.admitted.load(Ordering::Relaxed),
            refused: self.shared.refused.load(Ordering::Relaxed),
        }
    }
}

/// One call that was let in.
#[derive(Debug)]
#[must_use = "the place is given back as soon as this is dropped"]
pub struct Permit {
    place: Place,
    started: Duration,
    in_flight: u32,
}

impl Permit {
    /// Ends the call: gives its place back, and lets the limit learn from it.
    pub fn finish(self, outcome: Outcome, latency: Duration) {
        let shared = Arc::clone(&self.place.shared);
        drop(self.place);
        if outcome == Outcome::Ignored {
            return;
        }
        let sample = Sample {
            started: self.started,
            latency,
            in_flight: self.in_flight,
            overloaded: outcome == Outcome::Overloaded,
        };
        // A panic while the lock was held leaves numbers that are still held between their bounds.
        let mut learning = shared.learning.lock().unwrap_or_else(PoisonError::into_inner);
        learning.take(sample, shared.in_flight.load(Ordering::Relaxed));
        shared.limit.store(learning.limit(), Ordering::Relaxed);
    }

    /// When the call began.
    pub fn started(&self) -> Duration {
        self.started
    }
}

/// The place of a permit, given back when it is dropped.
#[derive(Debug)]
struct Place {
    shared: Arc<Shared>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.in_flight.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guides/overload.md")]
mod guide {}

#[cfg(test)]
mod tests;
