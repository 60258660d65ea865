//! Counts of the recent past, and of all time, that many threads add to without waiting for each other.
//!
//! It decides only what *recent* means: the running tenth of the window and the nine tenths before it. It does not
//! know what is counted.
//!
//! Counters only grow. Each thread adds to a stripe of its own cache line, and *recent* is the difference to what the
//! sum was when the window began. That sum is noted by the first addition of each tenth of the window. So nothing is
//! ever set back to zero, and no count is lost when two threads cross a border at once: it falls into the tenth
//! before or after. At first start all notes are zero: what was counted so far is what is recent.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// In how many parts a window moves on.
pub(crate) const BUCKETS: usize = 10;

/// How many threads can add without sharing a cache line.
const STRIPES: usize = 8;

/// `KINDS` counters over all time and over a time window.
#[derive(Debug)]
pub(crate) struct Rolling<const KINDS: usize> {
    bucket_ns: u64,
    /// When the running tenth ends; read by every addition, written once per tenth.
    bucket_end_ns: AtomicU64,
    /// The sums when the window began.
    base: [AtomicU64; KINDS],
    marks: Mutex<Marks<KINDS>>,
    stripes: [Stripe<KINDS>; STRIPES],
}

#[derive(Debug)]
struct Marks<const KINDS: usize> {
    /// The number of the running tenth.
    tick: u64,
    /// The sums at the start of each of the last tenths, by number modulo [`BUCKETS`].
    sums: [[u64; KINDS]; BUCKETS],
}

#[derive(Debug)]
#[repr(align(128))]
struct Stripe<const KINDS: usize>([AtomicU64; KINDS]);

impl<const KINDS: usize> Rolling<KINDS> {
    /// Recent is what happened within this window.
    pub(crate) fn over(window: Duration) -> Self {
        Self::with_bucket_ns((nanos(window) / BUCKETS as u64).max(1))
    }

    /// Recent is everything since [`Rolling::reset`].
    pub(crate) fn since_reset() -> Self {
        Self::with_bucket_ns(u64::MAX)
    }

    fn with_bucket_ns(bucket_ns: u64) -> Self {
        Self {
            bucket_ns,
            bucket_end_ns: AtomicU64::new(bucket_ns),
            base: std::array::from_fn(|_| AtomicU64::new(0)),
            marks: Mutex::new(Marks { tick: 0, sums: [[0; KINDS]; BUCKETS] }),
            stripes: std::array::from_fn(|_| Stripe(std::array::from_fn(|_| AtomicU64::new(0)))),
        }
    }

    /// Counts one.
    pub(crate) fn add(&self, kind: usize, now_ns: u64) {
        self.move_on(now_ns);
        self.stripes[stripe()].0[kind].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one, so that of two threads that do this at once and then read, at least one sees both.
    pub(crate) fn add_visibly(&self, kind: usize, now_ns: u64) {
        self.move_on(now_ns);
        self.stripes[stripe()].0[kind].fetch_add(1, Ordering::SeqCst);
    }

    /// Counts one that matters for all time only.
    pub(crate) fn add_untimed(&self, kind: usize) {
        self.stripes[stripe()].0[kind].fetch_add(1, Ordering::Relaxed);
    }

    /// The counts of all time.
    pub(crate) fn totals(&self) -> [u64; KINDS] {
        let mut sums = [0u64; KINDS];
        for stripe in &self.stripes {
            for (sum, counter) in sums.iter_mut().zip(&stripe.0) {
                *sum = sum.wrapping_add(counter.load(Ordering::SeqCst));
            }
        }
        sums
    }

    /// The counts of the window that ends now.
    pub(crate) fn recent(&self, now_ns: u64) -> [u64; KINDS] {
        self.move_on(now_ns);
        let mut sums = self.totals();
        for (sum, base) in sums.iter_mut().zip(&self.base) {
            *sum = sum.saturating_sub(base.load(Ordering::Relaxed));
        }
        sums
    }

    /// Forgets what is recent; the counts of all time stay.
    pub(crate) fn reset(&self, now_ns: u64) {
        let mut marks = self.lock();
        marks.sums = [self.totals(); BUCKETS];
        marks.tick = marks.tick.max(now_ns / self.bucket_ns);
        self.publish(&marks);
    }

    fn move_on(&self, now_ns: u64) {
        if now_ns >= self.bucket_end_ns.load(Ordering::Relaxed) {
            self.roll(now_ns);
        }
    }

    #[cold]
    fn roll(&self, now_ns: u64) {
        let mut marks = self.lock();
        let tick = now_ns / self.bucket_ns;
        if tick <= marks.tick {
            return;
        }
        let sums = self.totals();
        let passed = (tick - marks.tick).min(BUCKETS as u64);
        for back in 0..passed {
            marks.sums[slot(tick - back)] = sums;
        }
        marks.tick = tick;
        self.publish(&marks);
    }

    /// Lets the readers see where the window begins and when the running tenth ends.
    fn publish(&self, marks: &Marks<KINDS>) {
        let oldest = slot(marks.tick.wrapping_add(1));
        for (base, sum) in self.base.iter().zip(&marks.sums[oldest]) {
            base.store(*sum, Ordering::Relaxed);
        }
        let end = marks.tick.saturating_add(1).saturating_mul(self.bucket_ns);
        self.bucket_end_ns.store(end, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Marks<KINDS>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A point in time or a span in nanoseconds; 584 years and more are all the same.
pub(crate) fn nanos(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(time.subsec_nanos()))
}

fn slot(tick: u64) -> usize {
    (tick % BUCKETS as u64) as usize
}

/// The stripe of this thread. Which one it is never changes a sum, so decisions do not depend on it.
fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
        }
        mine.get()
    })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn what_is_older_than_the_window_is_not_recent() {
        let counts = Rolling::<1>::over(Duration::from_secs(10));
        counts.add(0, 0);
        counts.add(0, 5 * SECOND);
        assert_eq!(counts.recent(9 * SECOND), [2]);
        assert_eq!(counts.recent(10 * SECOND), [1]);
        assert_eq!(counts.recent(15 * SECOND), [0]);
        assert_eq!(counts.totals(), [2]);
    }

    #[test]
    fn a_time_that_goes_back_counts_into_the_running_tenth() {
        let counts = Rolling::<1>::over(Duration::from_secs(10));
        counts.add(0, 50 * SECOND);
        counts.add(0, 3 * SECOND);
        assert_eq!(counts.recent(50 * SECOND), [2]);
    }

    #[test]
    fn threads_lose_no_count() {
        let counts = Rolling::<2>::over(Duration::from_nanos(100));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20_000).for_each(|n| counts.add((n % 2) as usize, n)));
            }
        });
        assert_eq!(counts.totals(), [40_000, 40_000]);
        assert_eq!(counts.recent(1_000_000), [0, 0]);
    }

    proptest! {
        #[test]
        fn recent_is_the_running_tenth_and_the_nine_before(
            steps in prop::collection::vec((0u64..2_500, any::<bool>()), 1..200),
        ) {
            let counts = Rolling::<1>::over(Duration::from_nanos(10_000));
            let (mut now, mut from) = (0, 0);
            let mut seen: Vec<u64> = Vec::new();
            for (step, reset) in steps {
                now += step;
                if reset && step % 7 == 0 {
                    counts.reset(now);
                    from = seen.len();
                }
                counts.add(0, now);
                seen.push(now);
                let expected = seen[from..].iter().filter(|at| *at / 1_000 + 10 > now / 1_000).count();
                prop_assert_eq!(counts.recent(now), [expected as u64]);
            }
        }
    }
}
