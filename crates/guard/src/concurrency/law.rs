//! Decides the next limit from what one window of calls showed.
//!
//! Knows nothing of permits or time: a [`Window`] comes in, a limit goes out. All three laws share two rules. A
//! window with a call that met overload shrinks the limit by [`BACKOFF`]. A window that never had half of the limit in
//! flight says nothing about the limit, so it does not grow it.

use crate::setting::{Invalid, require};

/// What the limit is multiplied with after a window with overload.
const BACKOFF: f64 = 0.9;

/// What one window of calls showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    /// The mean latency in nanoseconds.
    pub(super) latency: f64,
    /// The most calls that were in flight at once.
    pub(super) in_flight_max: u32,
    /// Whether a call met overload.
    pub(super) overloaded: bool,
}

/// How the limit is learned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// Compares the latency of now with that of long ago (the "Gradient2" law of Netflix's concurrency-limits). The
    /// default: it bears noise well.
    Gradient {
        /// How many times longer than long ago calls may take before the limit shrinks: 1.5.
        tolerance: f64,
        /// How much of a change is taken over at once: 0.2.
        smoothing: f64,
        /// How many windows "long ago" spans: 600.
        long_windows: u32,
    },
    /// Counts the calls that must be queueing (TCP Vegas: Brakmo and Peterson, 1995). Keeps queues shortest; needs
    /// latencies with little noise.
    Vegas {
        /// Grows the limit while fewer queue than this, times the decimal logarithm of the limit: 3.
        alpha: f64,
        /// Shrinks the limit when more queue than this, times the decimal logarithm of the limit: 6.
        beta: f64,
    },
    /// Grows by one, shrinks by a tenth on overload (Chiu and Jain, 1989). Does not look at latencies: for parts that
    /// say clearly when they have too much.
    Aimd,
}

impl Law {
    /// The gradient with its usual numbers.
    pub const GRADIENT: Self = Self::Gradient { tolerance: 1.5, smoothing: 0.2, long_windows: 600 };
    /// Vegas with its usual numbers.
    pub const VEGAS: Self = Self::Vegas { alpha: 3.0, beta: 6.0 };

    pub(super) fn check(&self) -> Result<(), Invalid> {
        match *self {
            Self::Gradient { tolerance, smoothing, long_windows } => {
                require(
                    (1.0..=10.0).contains(&tolerance),
                    "tolerance",
                    tolerance,
                    "from 1 to 10; 1.5 is usual",
                )?;
                require(
                    smoothing > 0.0 && smoothing <= 1.0,
                    "smoothing",
                    smoothing,
                    "above 0, at most 1",
                )?;
                require(long_windows > 0, "long_windows", long_windows, "at least 1")
            }
            Self::Vegas { alpha, beta } => {
                require(alpha > 0.0 && alpha.is_finite(), "alpha", alpha, "above 0")?;
                require(beta >= alpha && beta.is_finite(), "beta", beta, "at least alpha")
            }
            Self::Aimd => Ok(()),
        }
    }

    /// Whether the law compares with a latency without queues, which has to be measured now and then.
    pub(super) fn needs_base(&self) -> bool {
        !matches!(self, Self::Aimd)
    }
}

/// A law and what it remembers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Learner {
    law: Law,
    /// The latency that is compared with, in nanoseconds; none at the start.
    base: Option<f64>,
    windows: u32,
}

impl Learner {
    pub(super) fn new(law: Law) -> Self {
        Self { law, base: None, windows: 0 }
    }

    /// Takes a latency that was measured without queues as the one to compare with.
    pub(super) fn rebase(&mut self, latency: f64) {
        self.base = Some(latency);
    }

    /// The next limit, before it is held between its bounds.
    pub(super) fn next(&mut self, limit: f64, window: Window) -> f64 {
        let base = self.learn(window.latency);
        if window.overloaded {
            return limit * BACKOFF;
        }
        let is_tested = f64::from(window.in_flight_max) * 2.0 >= limit;
        let next = match self.law {
            Law::Gradient { tolerance, smoothing, .. } => {
                let gradient = (tolerance * base / window.latency).clamp(0.5, 1.0);
                // The square root is room for a short queue; it lets small limits grow fast and large ones surely.
                let aim = limit * gradient + limit.sqrt();
                limit + (aim - limit) * smoothing
            }
            Law::Vegas { alpha, beta } => vegas(limit, base / window.latency, alpha, beta),
            Law::Aimd => limit + 1.0,
        };
        if is_tested { next } else { next.min(limit) }
    }

    fn learn(&mut self, latency: f64) -> f64 {
        self.windows = self.windows.saturating_add(1);
        let base = match (self.base, self.law) {
            (None, _) => latency,
            (Some(base), Law::Gradient { long_windows, .. }) => {
                // A plain mean of the first windows, then one that forgets.
                let weight = 1.0 / f64::from(self.windows.min(long_windows));
                let base = base + (latency - base) * weight;
                // After a slow spell "long ago" would be far too slow, and the limit would not shrink in the next.
                if base > 2.0 * latency { base * 0.95 } else { base }
            }
            (Some(base), _) => base.min(latency),
        };
        self.base = Some(base);
        base
    }
}

fn vegas(limit: f64, unqueued_share: f64, alpha: f64, beta: f64) -> f64 {
    let queued = limit * (1.0 - unqueued_share.min(1.0));
    let scale = limit.log10().max(1.0);
    if queued <= scale {
        limit + beta * scale
    } else if queued < alpha * scale {
        limit + scale
    } else if queued > beta * scale {
        limit - scale
    } else {
        limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(latency: f64, in_flight_max: u32, overloaded: bool) -> Window {
        Window { latency, in_flight_max, overloaded }
    }

    #[test]
    fn each_law_grows_holds_and_shrinks() {
        // Law, latency (after a base of 100), in flight, overloaded, and whether the limit of 100 goes up or down.
        let table = [
            (Law::GRADIENT, 100.0, 100, false, 1),
            (Law::GRADIENT, 100.0, 49, false, 0),
            (Law::GRADIENT, 300.0, 100, false, -1),
            (Law::GRADIENT, 300.0, 10, false, -1),
            (Law::GRADIENT, 100.0, 100, true, -1),
            (Law::VEGAS, 100.0, 100, false, 1),
            (Law::VEGAS, 104.0, 100, false, 1),
            (Law::VEGAS, 110.0, 100, false, 0),
            (Law::VEGAS, 120.0, 100, false, -1),
            (Law::VEGAS, 100.0, 49, false, 0),
            (Law::VEGAS, 100.0, 100, true, -1),
            (Law::Aimd, 900.0, 100, false, 1),
            (Law::Aimd, 900.0, 49, false, 0),
            (Law::Aimd, 100.0, 100, true, -1),
        ];
        for (law, latency, in_flight, overloaded, direction) in table {
            let mut learner = Learner::new(law);
            learner.rebase(100.0);
            learner.windows = 1000;
            let next = learner.next(100.0, window(latency, in_flight, overloaded));
            let found = (next - 100.0).partial_cmp(&0.0).unwrap() as i32;
            assert_eq!(found, direction, "{law:?} at {latency} went to {next}");
        }
    }

    #[test]
    fn a_base_that_is_far_too_slow_is_forgotten_fast() {
        let mut learner = Learner::new(Law::GRADIENT);
        learner.rebase(1000.0);
        learner.windows = 1000;
        for _ in 0..40 {
            learner.next(100.0, window(100.0, 100, false));
        }
        assert!(learner.base.unwrap() < 220.0, "{:?}", learner.base);
    }
}
