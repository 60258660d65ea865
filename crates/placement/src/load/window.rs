//! Decides what happened in the last seconds: counts, and levels averaged over time, in a ring of time buckets.
//!
//! Does not know targets. The window reaches from the start of the oldest bucket, or from the first moment if that is
//! later, to now; so it is between `buckets − 1` and `buckets` buckets long. A level (requests in flight) holds from
//! one event to the next, so its mean is exact whatever the events' spacing. Time that goes backwards is taken as
//! standing still.

use std::time::Duration;

/// What holds between two events.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Level {
    /// Requests in flight.
    pub(super) in_flight: f64,
    /// Requests that wait at the target.
    pub(super) queued: f64,
    /// The share of the target in use.
    pub(super) used: f64,
}

/// What happened at single moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    /// Requests started.
    pub(super) started: u64,
    /// Requests ended, however they ended.
    pub(super) finished: u64,
    /// Requests failed.
    pub(super) failed: u64,
}

/// The window's content.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Totals {
    /// The length of the window.
    pub(super) seconds: f64,
    /// What was counted.
    pub(super) counts: Counts,
    /// The levels' means.
    pub(super) means: Level,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    counts: Counts,
    /// Levels times nanoseconds.
    areas: Level,
}

/// A sliding window.
#[derive(Clone, Debug)]
pub(super) struct Window {
    width_ns: u64,
    ring: Box<[Bucket]>,
    /// The number of the newest bucket, counted from time 0.
    current: u64,
    origin_ns: u64,
    last_ns: u64,
    level: Level,
}

impl Window {
    /// Starts at `now`, with all levels at 0.
    ///
    /// # Panics
    /// If there are no buckets, or they have no width.
    pub(super) fn new(width: Duration, buckets: usize, now: Duration) -> Self {
        let width_ns = nanos(width);
        assert!(width_ns > 0 && buckets > 0, "a window has buckets of some width");
        let now_ns = nanos(now);
        Self {
            width_ns,
            ring: vec![Bucket::default(); buckets].into_boxed_slice(),
            current: now_ns / width_ns,
            origin_ns: now_ns,
            last_ns: now_ns,
            level: Level::default(),
        }
    }

    /// Moves on to `now`, under the levels that held so far.
    pub(super) fn advance(&mut self, now: Duration) {
        let now_ns = nanos(now).max(self.last_ns);
        let length = self.ring.len() as u64;
        let newest =
            if now_ns < self.end_of_current() { self.current } else { now_ns / self.width_ns };
        if newest - self.current >= length {
            self.ring.fill(Bucket::default());
            self.current = newest + 1 - length;
            self.last_ns = self.current * self.width_ns;
        }
        loop {
            let until_ns = self.end_of_current().min(now_ns);
            let passed = (until_ns - self.last_ns) as f64;
            let level = self.level;
            let areas = &mut self.bucket().areas;
            areas.in_flight += level.in_flight * passed;
            areas.queued += level.queued * passed;
            areas.used += level.used * passed;
            self.last_ns = until_ns;
            if self.current == newest {
                return;
            }
            self.current += 1;
            *self.bucket() = Bucket::default();
        }
    }

    /// Sets the levels that hold from the last [`Window::advance`] on.
    pub(super) fn set_level(&mut self, level: Level) {
        self.level = level;
    }

    /// Where to count what happens at the last [`Window::advance`].
    pub(super) fn counts(&mut self) -> &mut Counts {
        &mut self.bucket().counts
    }

    /// What the window holds at `now`.
    pub(super) fn totals_at(&self, now: Duration) -> Totals {
        let mut there = self.clone();
        there.advance(now);
        there.totals()
    }

    fn totals(&self) -> Totals {
        let oldest = (self.current + 1).saturating_sub(self.ring.len() as u64);
        let start_ns = self.origin_ns.max(oldest * self.width_ns);
        let span_ns = self.last_ns.saturating_sub(start_ns) as f64;
        let mut totals = Totals { seconds: span_ns / 1e9, ..Totals::default() };
        for bucket in &self.ring {
            totals.counts.started += bucket.counts.started;
            totals.counts.finished += bucket.counts.finished;
            totals.counts.failed += bucket.counts.failed;
            if span_ns > 0.0 {
                totals.means.in_flight += bucket.areas.in_flight / span_ns;
                totals.means.queued += bucket.areas.queued / span_ns;
                totals.means.used += bucket.areas.used / span_ns;
            }
        }
        totals
    }

    fn end_of_current(&self) -> u64 {
        (self.current + 1).saturating_mul(self.width_ns)
    }

    fn bucket(&mut self) -> &mut Bucket {
        let at = self.current % self.ring.len() as u64;
        &mut self.ring[at as usize]
    }
}

/// Nanoseconds, up to 584 years.
fn nanos(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(time.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WIDTH: Duration = Duration::from_millis(100);
    const BUCKETS: usize = 5;

    /// Everything that ever happened: from when on which level held, and when something started.
    #[derive(Default)]
    struct Log {
        levels: Vec<(u64, f64)>,
        starts: Vec<u64>,
    }

    impl Log {
        fn start_of_window(&self, now_ns: u64) -> u64 {
            let width_ns = nanos(WIDTH);
            let oldest = (now_ns / width_ns + 1).saturating_sub(BUCKETS as u64);
            self.levels[0].0.max(oldest * width_ns)
        }

        fn started(&self, now_ns: u64) -> u64 {
            let from = self.start_of_window(now_ns);
            self.starts.iter().filter(|at| (from..=now_ns).contains(at)).count() as u64
        }

        fn mean_level(&self, now_ns: u64) -> f64 {
            let from = self.start_of_window(now_ns);
            let ends = self.levels.iter().skip(1).map(|(at, _)| *at).chain([now_ns]);
            let area: f64 = self
                .levels
                .iter()
                .zip(ends)
                .map(|((begin, level), end)| {
                    level * end.max(from).saturating_sub((*begin).max(from)) as f64
                })
                .sum();
            if now_ns == from { 0.0 } else { area / (now_ns - from) as f64 }
        }
    }

    proptest! {
        #[test]
        fn the_window_is_what_the_whole_log_says(
            origin_ms in 0u64..5_000,
            steps in prop::collection::vec((0u64..400, 0u32..5), 1..60),
        ) {
            let mut now = Duration::from_millis(origin_ms);
            let mut window = Window::new(WIDTH, BUCKETS, now);
            let mut log = Log { levels: vec![(nanos(now), 0.0)], ..Log::default() };
            for (wait_ms, level) in steps {
                // Long waits leave the window empty now and then.
                now += Duration::from_millis(if wait_ms > 390 { wait_ms * 10 } else { wait_ms });
                window.advance(now);
                window.counts().started += 1;
                window.set_level(Level { in_flight: f64::from(level), ..Level::default() });
                log.starts.push(nanos(now));
                log.levels.push((nanos(now), f64::from(level)));
                let totals = window.totals();
                prop_assert_eq!(totals.counts.started, log.started(nanos(now)));
                let mean = log.mean_level(nanos(now));
                prop_assert!((totals.means.in_flight - mean).abs() < 1e-6, "{totals:?}, {mean}");
            }
        }
    }

    #[test]
    fn a_window_at_its_first_moment_is_empty_and_finite() {
        let window = Window::new(WIDTH, BUCKETS, Duration::from_secs(7));
        assert_eq!(window.totals(), Totals::default());
    }

    #[test]
    fn time_that_goes_backwards_changes_nothing() {
        let mut window = Window::new(WIDTH, BUCKETS, Duration::from_secs(7));
        window.set_level(Level { in_flight: 2.0, ..Level::default() });
        window.advance(Duration::from_secs(8));
        let before = window.totals();
        window.advance(Duration::from_secs(1));
        assert_eq!(window.totals(), before);
    }
}
