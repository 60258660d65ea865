//! Decides nothing new: a [`LatencyTracker`] that many threads use at once.
//!
//! The timeout is worked out when a latency comes in and kept in an atomic: asking for it is one load.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{LatencyTracker, Settings};
use crate::setting::Invalid;

/// A [`LatencyTracker`] behind `&self`.
#[derive(Debug)]
pub struct SharedTracker {
    tracker: Mutex<LatencyTracker>,
    suggested_nanos: AtomicU64,
}

impl Default for SharedTracker {
    fn default() -> Self {
        LatencyTracker::default().into()
    }
}

impl From<LatencyTracker> for SharedTracker {
    fn from(tracker: LatencyTracker) -> Self {
        let suggested_nanos = AtomicU64::new(nanos(tracker.suggested()));
        Self { tracker: Mutex::new(tracker), suggested_nanos }
    }
}

impl SharedTracker {
    /// A tracker that has seen nothing.
    ///
    /// # Errors
    /// When a setting makes no sense.
    pub fn new(settings: Settings) -> Result<Self, Invalid> {
        LatencyTracker::new(settings).map(Self::from)
    }

    /// Takes in how long an answer took, or how long was waited in vain.
    pub fn record(&self, latency: Duration) {
        self.record_all([latency]);
    }

    /// Takes in many latencies at once, in order.
    pub fn record_all(&self, latencies: impl IntoIterator<Item = Duration>) {
        let mut tracker = self.lock();
        for latency in latencies {
            tracker.record(latency);
        }
        // Stored under the lock, so that the last one recorded is the last one stored.
        self.suggested_nanos.store(nanos(tracker.suggested()), Ordering::Relaxed);
    }

    /// How long to wait now.
    pub fn suggested(&self) -> Duration {
        Duration::from_nanos(self.suggested_nanos.load(Ordering::Relaxed))
    }

    /// The latency of a quantile; none while too few were seen to go by it.
    pub fn warm_quantile(&self, quantile: f64) -> Option<Duration> {
        let tracker = self.lock();
        if tracker.is_warm() { tracker.quantile(quantile) } else { None }
    }

    /// A copy of what was seen so far.
    pub fn snapshot(&self) -> LatencyTracker {
        self.lock().clone()
    }

    /// A panic while the lock was held leaves a tracker that is still whole: each record is one call.
    fn lock(&self) -> MutexGuard<'_, LatencyTracker> {
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_the_tracker_says() {
        let shared = SharedTracker::default();
        let mut plain = LatencyTracker::default();
        for millis in [30, 10, 20, 50, 40, 70, 60] {
            assert_eq!(shared.warm_quantile(0.95).is_some(), plain.is_warm());
            shared.record(Duration::from_millis(millis));
            plain.record(Duration::from_millis(millis));
            assert_eq!(shared.suggested(), plain.suggested());
        }
        assert_eq!(shared.warm_quantile(0.95), plain.quantile(0.95));
        assert_eq!(shared.snapshot().len(), 7);
    }
}
