//! Decides how long to wait for an answer, from how long the last answers took.
//!
//! Deliberately knows neither a clock nor what is waited for: latencies come in, a timeout goes out.
//!
//! Rule: the timeout is the [`Settings::quantile`] of the last [`Settings::window`] latencies, times
//! [`Settings::factor`], held between floor and ceiling. The quantile is by *nearest rank*: of n latencies in order, the
//! one at place ⌈q·n⌉, counted from 1. It is thus always a latency that was seen, at least a share q of the window is
//! not longer than it, and nothing is interpolated.
//!
//! Why this way: a fixed timeout is too long for a healthy part and too short for a busy one. A multiple of a high
//! quantile follows both, and one very slow answer does not move it. Dean and Barroso, "The Tail at Scale" (2013).
//!
//! Cold start: under [`Settings::minimum`] latencies the answer is [`Settings::default`].
//!
//! Trap: what timed out has no latency. If only answers are recorded, and everything becomes slower than the timeout
//! at once, then nothing is ever recorded again and the timeout stays too short for ever. So whoever gives up should
//! record how long it had waited ([`LatencyTracker::record`]): the true latency is at least that long. The timeout
//! then grows by the factor each time until answers come, up to the ceiling. The shells do so.

mod shared;
mod tree;
mod window;

use std::time::Duration;

pub use shared::SharedTracker;
use window::Window;

use crate::setting::{Invalid, require};

/// The most latencies that a window holds.
pub const WINDOW_MAX: usize = 1 << 16;

/// How a [`LatencyTracker`] turns latencies into a timeout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How many of the last latencies count: 20, at most [`WINDOW_MAX`].
    pub window: usize,
    /// Which share of the latencies is not longer than the one that is taken: 0.9.
    pub quantile: f64,
    /// What the quantile is multiplied with: 2.
    pub factor: f64,
    /// The timeout while too little is known: 0.5 s.
    pub default: Duration,
    /// How many latencies it takes to know enough: 5.
    pub minimum: usize,
    /// The shortest timeout: 1 ms.
    pub floor: Duration,
    /// The longest timeout: 60 s.
    pub ceiling: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            window: 20,
            quantile: 0.9,
            factor: 2.0,
            default: Duration::from_millis(500),
            minimum: 5,
            floor: Duration::from_millis(1),
            ceiling: Duration::from_secs(60),
        }
    }
}

impl Settings {
    fn check(&self) -> Result<(), Invalid> {
        require((1..=WINDOW_MAX).contains(&self.window), "window", self.window, "from 1 to 65536")?;
        require(is_quantile(self.quantile), "quantile", self.quantile, "above 0, at most 1")?;
        require(
            self.factor > 0.0 && self.factor.is_finite(),
            "factor",
            self.factor,
            "above 0; 1.5 to 3 is usual",
        )?;
        require(
            (1..=self.window).contains(&self.minimum),
            "minimum",
            self.minimum,
            "from 1 to the window, or it is never reached",
        )?;
        require(!self.floor.is_zero(), "floor", self.floor, "above 0")?;
        require(self.floor <= self.ceiling, "ceiling", self.ceiling, "at least the floor")?;
        require(
            (self.floor..=self.ceiling).contains(&self.default),
            "default",
            self.default,
            "between floor and ceiling",
        )
    }
}

/// Whether `quantile` is one: above 0 and at most 1.
pub(crate) fn is_quantile(quantile: f64) -> bool {
    quantile > 0.0 && quantile <= 1.0
}

/// The last latencies, and the timeout that follows from them.
#[derive(Clone, Debug)]
pub struct LatencyTracker {
    settings: Settings,
    window: Window,
}

impl Default for LatencyTracker {
    fn default() -> Self {
        Self::new(Settings::default()).expect("the default settings are checked by a test")
    }
}

impl LatencyTracker {
    /// A tracker that has seen nothing.
    ///
    /// # Errors
    /// When a setting makes no sense.
    pub fn new(settings: Settings) -> Result<Self, Invalid> {
        settings.check()?;
        Ok(Self { settings, window: Window::new(settings.window) })
    }

    /// Takes in how long an answer took, or how long was waited in vain.
    pub fn record(&mut self, latency: Duration) {
        self.window.push(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// How long to wait now.
    pub fn suggested(&self) -> Duration {
        if !self.is_warm() {
            return self.settings.default;
        }
        let quantile = self.quantile(self.settings.quantile).unwrap_or(self.settings.default);
        // The cast stops at the largest number instead of wrapping round.
        let nanos = (quantile.as_nanos() as f64 * self.settings.factor) as u64;
        Duration::from_nanos(nanos).clamp(self.settings.floor, self.settings.ceiling)
    }

    /// The latency at place ⌈q·n⌉ of the window; none while it is empty, or if `quantile` is none.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        if !is_quantile(quantile) {
            return None;
        }
        self.window.ranked(rank(quantile, self.window.len())).map(Duration::from_nanos)
    }

    /// How many latencies are in the window.
    pub fn len(&self) -> usize {
        self.window.len()
    }

    /// Whether nothing was seen yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether enough was seen to go by it.
    pub fn is_warm(&self) -> bool {
        self.len() >= self.settings.minimum
    }

    /// What it was made with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// The place ⌈q·n⌉. A product such as 0.07 × 100 lies a hair above the whole number that is meant: such a hair is cut
/// off before it is rounded up.
fn rank(quantile: f64, count: usize) -> usize {
    ((quantile * count as f64 - 1e-9).ceil() as usize).clamp(1, count.max(1))
}

#[cfg(all(doctest, feature = "async"))]
#[doc = include_str!("../../../../docs/guides/timeouts-and-fanout.md")]
mod guide {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_timeout_is_twice_the_ninetieth_percentile_of_the_last_twenty() {
        let mut tracker = LatencyTracker::default();
        for count in 0..5 {
            assert_eq!(tracker.suggested(), millis(500), "{count} latencies are too few");
            tracker.record(millis(100));
        }
        assert_eq!(tracker.suggested(), millis(200));
        for latency in 1..=20 {
            tracker.record(millis(latency * 10));
        }
        assert_eq!(tracker.len(), 20);
        assert_eq!(tracker.suggested(), millis(360), "the 18th of 20 is 180 ms");
        assert_eq!(tracker.quantile(0.5), Some(millis(100)));
        assert_eq!(tracker.quantile(1.0), Some(millis(200)));
        assert_eq!(tracker.quantile(0.0), None);
        assert_eq!(tracker.quantile(f64::NAN), None);
    }

    #[test]
    fn floor_and_ceiling_hold() {
        let settings = Settings { floor: millis(50), ceiling: millis(900), ..Settings::default() };
        let mut tracker = LatencyTracker::new(settings).unwrap();
        for _ in 0..20 {
            tracker.record(Duration::ZERO);
        }
        assert_eq!(tracker.suggested(), millis(50));
        for _ in 0..20 {
            tracker.record(Duration::MAX);
        }
        assert_eq!(tracker.suggested(), millis(900));
    }

    #[test]
    fn waits_in_vain_let_the_timeout_grow_until_answers_come() {
        let mut tracker = LatencyTracker::default();
        for _ in 0..20 {
            tracker.record(millis(10));
        }
        let mut rounds = 0;
        while tracker.suggested() < millis(1000) {
            for _ in 0..3 {
                tracker.record(tracker.suggested());
            }
            rounds += 1;
            assert!(rounds < 20, "stuck at {:?}", tracker.suggested());
        }
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let good = Settings::default();
        let table = [
            (Settings { window: 0, ..good }, "window"),
            (Settings { window: WINDOW_MAX + 1, ..good }, "window"),
            (Settings { quantile: 0.0, ..good }, "quantile"),
            (Settings { quantile: 1.1, ..good }, "quantile"),
            (Settings { quantile: f64::NAN, ..good }, "quantile"),
            (Settings { factor: 0.0, ..good }, "factor"),
            (Settings { factor: f64::INFINITY, ..good }, "factor"),
            (Settings { minimum: 0, ..good }, "minimum"),
            (Settings { minimum: 21, ..good }, "minimum"),
            (Settings { floor: Duration::ZERO, ..good }, "floor"),
            (Settings { ceiling: Duration::ZERO, ..good }, "ceiling"),
            (Settings { default: Duration::from_secs(61), ..good }, "default"),
        ];
        for (settings, field) in table {
            let error = LatencyTracker::new(settings).unwrap_err();
            assert_eq!(error.field, field, "{settings:?}");
        }
        assert!(LatencyTracker::new(good).is_ok());
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_slow_reference(
            window in 1_usize..60,
            percent in 1_usize..=100,
            latencies in prop::collection::vec(0_u64..2_000_000_000, 1..150),
        ) {
            let settings = Settings {
                window,
                quantile: percent as f64 / 100.0,
                factor: 3.0,
                minimum: 1,
                floor: Duration::from_nanos(1),
                ..Settings::default()
            };
            let mut tracker = LatencyTracker::new(settings).unwrap();
            for (index, latency) in latencies.iter().enumerate() {
                tracker.record(Duration::from_nanos(*latency));
                let last = &latencies[(index + 1).saturating_sub(window)..=index];
                // The smallest latency that at least the share of the window does not exceed, by counting.
                let expected = last
                    .iter()
                    .copied()
                    .filter(|value| {
                        last.iter().filter(|other| *other <= value).count() * 100
                            >= percent * last.len()
                    })
                    .min()
                    .unwrap();
                prop_assert_eq!(
                    tracker.quantile(settings.quantile),
                    Some(Duration::from_nanos(expected))
                );
                prop_assert_eq!(
                    tracker.suggested(),
                    Duration::from_nanos((expected * 3).max(1))
                );
            }
        }
    }
}
