//! The outcomes of the last so many calls, in a ring that many threads write without a lock.
//!
//! It counts; it does not judge. Each writer takes the next place, swaps its outcome in and applies the difference
//! to the sums, so the sums always come out as what the ring holds, whoever was first.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};

const FAILED: u8 = 1;
const SLOW: u8 = 2;

/// The ring.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct LastCalls {
    /// How many outcomes were ever written.
    written: AtomicU64,
    /// How many were written when the ring was emptied last.
    emptied_at: AtomicU64,
    failed: AtomicI64,
    slow: AtomicI64,
    outcomes: Box<[AtomicU8]>,
}

/// What the window holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) calls: u64,
    pub(super) failed: u64,
    pub(super) slow: u64,
}

impl LastCalls {
    pub(super) fn new(calls: u32) -> Self {
        Self {
            written: AtomicU64::new(0),
            emptied_at: AtomicU64::new(0),
            failed: AtomicI64::new(0),
            slow: AtomicI64::new(0),
            outcomes: (0..calls).map(|_| AtomicU8::new(0)).collect(),
        }
    }

    pub(super) fn push(&self, failed: bool, slow: bool) {
        let outcome = if failed { FAILED } else { 0 } | if slow { SLOW } else { 0 };
        let place = self.written.fetch_add(1, Ordering::Relaxed) % self.outcomes.len() as u64;
        let place = &self.outcomes[place as usize];
        // In a healthy ring the place holds a good outcome already, and a load is cheaper than a swap.
        if place.load(Ordering::Relaxed) != outcome {
            self.put(place, outcome);
        }
    }

    pub(super) fn seen(&self) -> Seen {
        let written = self.written.load(Ordering::SeqCst);
        let calls = written.saturating_sub(self.emptied_at.load(Ordering::Relaxed));
        let sum = |sum: &AtomicI64| sum.load(Ordering::SeqCst).max(0).unsigned_abs();
        Seen {
            calls: calls.min(self.outcomes.len() as u64),
            failed: sum(&self.failed),
            slow: sum(&self.slow),
        }
    }

    pub(super) fn empty(&self) {
        self.emptied_at.store(self.written.load(Ordering::SeqCst), Ordering::Relaxed);
        for place in &self.outcomes {
            self.put(place, 0);
        }
    }

    fn put(&self, place: &AtomicU8, outcome: u8) {
        let before = place.swap(outcome, Ordering::Relaxed);
        for (bit, sum) in [(FAILED, &self.failed), (SLOW, &self.slow)] {
            let difference = i64::from(outcome & bit != 0) - i64::from(before & bit != 0);
            if difference != 0 {
                sum.fetch_add(difference, Ordering::SeqCst);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_the_last_calls(
            size in 1u32..20,
            calls in prop::collection::vec((any::<bool>(), any::<bool>(), 0u8..30), 0..200),
        ) {
            let ring = LastCalls::new(size);
            let mut all = Vec::new();
            for (failed, slow, chance) in calls {
                if chance == 0 {
                    ring.empty();
                    all.clear();
                }
                ring.push(failed, slow);
                all.push((failed, slow));
                let last = &all[all.len().saturating_sub(size as usize)..];
                let expected = Seen {
                    calls: last.len() as u64,
                    failed: last.iter().filter(|(failed, _)| *failed).count() as u64,
                    slow: last.iter().filter(|(_, slow)| *slow).count() as u64,
                };
                prop_assert_eq!(ring.seen(), expected);
            }
        }
    }

    #[test]
    fn the_sums_match_the_ring_after_threads_wrote_at_once() {
        let ring = LastCalls::new(7);
        thread::scope(|scope| {
            for worker in 0..4u32 {
                let ring = &ring;
                scope.spawn(move || {
                    (0..10_000).for_each(|n| ring.push((n + worker) % 3 == 0, n % 2 == 0));
                });
            }
        });
        let held = |bit| {
            ring.outcomes.iter().filter(|o| o.load(Ordering::Relaxed) & bit != 0).count() as u64
        };
        assert_eq!(ring.seen(), Seen { calls: 7, failed: held(FAILED), slow: held(SLOW) });
    }
}
