//! One bucket, shared by all who hold a reference to it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::quota::Quota;
use crate::rolling::nanos;

/// A request that may not pass now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It would pass after this time, if nothing else passes before.
    #[error("the rate limit is reached; try again in {0:?}")]
    Wait(Duration),
    /// It never passes.
    #[error(
        "a cost of {cost} is more than the burst of {burst}; split the request or raise the burst"
    )]
    TooCostly {
        /// What it costs.
        cost: u32,
        /// What a full bucket holds.
        burst: u32,
    },
}

impl Refused {
    /// How long to wait; nothing if waiting does not help.
    pub fn wait(&self) -> Option<Duration> {
        match self {
            Self::Wait(wait) => Some(*wait),
            Self::TooCostly { .. } => None,
        }
    }
}

/// A rate limit in one word of memory.
#[derive(Debug)]
pub struct Limiter {
    quota: Quota,
    /// When the bucket will be full again, in nanoseconds.
    full_at_ns: AtomicU64,
}

impl Limiter {
    /// A full bucket.
    pub fn new(quota: Quota) -> Self {
        Self { quota, full_at_ns: AtomicU64::new(0) }
    }

    /// What was set.
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Takes one token, or says how long to wait.
    pub fn check(&self, now: Duration) -> Result<(), Refused> {
        self.check_cost(1, now)
    }

    /// Takes so many tokens at once, or none.
    pub fn check_cost(&self, cost: u32, now: Duration) -> Result<(), Refused> {
        let now_ns = nanos(now);
        let mut full_at_ns = self.full_at_ns.load(Ordering::Relaxed);
        loop {
            let next_ns = decide(&self.quota, full_at_ns, cost, now_ns)?;
            match self.full_at_ns.compare_exchange_weak(
                full_at_ns,
                next_ns,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(current) => full_at_ns = current,
            }
        }
    }

    /// Whether [`Limiter::check_cost`] would pass at that time; takes nothing.
    pub fn peek(&self, cost: u32, at: Duration) -> Result<(), Refused> {
        let full_at_ns = self.full_at_ns.load(Ordering::Relaxed);
        decide(&self.quota, full_at_ns, cost, nanos(at)).map(drop)
    }

    /// How many tokens are there now.
    pub fn available(&self, now: Duration) -> u32 {
        let missing_ns = self.full_at_ns.load(Ordering::Relaxed).saturating_sub(nanos(now));
        let missing = missing_ns.div_ceil(self.quota.cost_ns(1));
        self.quota.burst_size().saturating_sub(u32::try_from(missing).unwrap_or(u32::MAX))
    }
}

/// The rule: move on the moment at which the bucket is full, unless that moment would then be further away than a full
/// bucket takes.
pub(super) fn decide(
    quota: &Quota,
    full_at_ns: u64,
    cost: u32,
    now_ns: u64,
) -> Result<u64, Refused> {
    let burst = quota.burst_size();
    if cost > burst {
        return Err(Refused::TooCostly { cost, burst });
    }
    let next_ns = full_at_ns.max(now_ns).saturating_add(quota.cost_ns(cost));
    let allowed_ns = now_ns.saturating_add(quota.fill_ns());
    if next_ns > allowed_ns {
        return Err(Refused::Wait(Duration::from_nanos(next_ns - allowed_ns)));
    }
    Ok(next_ns)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let limiter = Limiter::new(Quota::per_second(10).unwrap().burst(3).unwrap());
        let now = ms(5_000);
        assert_eq!(limiter.available(now), 3);
        for _ in 0..3 {
            assert_eq!(limiter.check(now), Ok(()));
        }
        assert_eq!(limiter.check(now), Err(Refused::Wait(ms(100))));
        assert_eq!(limiter.check(now + ms(60)), Err(Refused::Wait(ms(40))));
        assert_eq!(limiter.peek(1, now + ms(100)), Ok(()));
        assert_eq!(limiter.check(now + ms(100)), Ok(()));
        assert_eq!(limiter.available(now + ms(100)), 0);
        assert_eq!(limiter.available(now + ms(299)), 1);
        assert_eq!(limiter.available(now + ms(10_000)), 3);
    }

    #[test]
    fn costs_are_taken_whole_or_not_at_all() {
        let limiter = Limiter::new(Quota::per_second(10).unwrap().burst(5).unwrap());
        assert_eq!(limiter.check_cost(4, ms(0)), Ok(()));
        assert_eq!(limiter.check_cost(2, ms(0)), Err(Refused::Wait(ms(100))));
        assert_eq!(limiter.check_cost(1, ms(0)), Ok(()));
        let refused = limiter.check_cost(6, ms(0)).unwrap_err();
        assert_eq!(refused, Refused::TooCostly { cost: 6, burst: 5 });
        assert_eq!(refused.wait(), None);
    }

    #[test]
    fn threads_together_get_no_more_than_the_burst() {
        let limiter = Limiter::new(Quota::per_second(1).unwrap().burst(1_000).unwrap());
        let passed: usize = thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| (0..1_000).filter(|_| limiter.check(ms(0)).is_ok()).count())
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert_eq!(passed, 1_000);
    }

    #[test]
    fn a_clock_that_counts_from_1970_fits() {
        let limiter = Limiter::new(Quota::per_second(1).unwrap());
        let now = Duration::from_secs(1_800_000_000);
        assert_eq!(limiter.check(now), Ok(()));
        assert_eq!(limiter.check(now), Err(Refused::Wait(Duration::from_secs(1))));
        assert_eq!(limiter.check(now + Duration::from_secs(1)), Ok(()));
    }

    proptest! {
        #[test]
        fn no_window_gets_more_than_burst_and_rate(
            count in 1u32..50,
            burst in 1u32..20,
            steps in prop::collection::vec((0u64..40_000_000, 1u32..4), 1..300),
        ) {
            let quota = Quota::per_second(count).unwrap().burst(burst).unwrap();
            let limiter = Limiter::new(quota);
            let mut now = Duration::ZERO;
            let mut passed: Vec<(Duration, u32)> = Vec::new();
            for (gap, cost) in steps {
                now += Duration::from_nanos(gap);
                if limiter.check_cost(cost, now).is_ok() {
                    passed.push((now, cost));
                }
            }
            for (first, (from, _)) in passed.iter().enumerate() {
                let mut sum = 0;
                for (to, cost) in &passed[first..] {
                    sum += u64::from(*cost);
                    let allowed = u64::from(burst)
                        + ((*to - *from).as_nanos() / quota.interval().as_nanos()) as u64;
                    prop_assert!(sum <= allowed, "{sum} passed in {:?}, at most {allowed}", *to - *from);
                }
            }
        }

        #[test]
        fn a_caller_that_waits_as_told_passes(
            count in 1u32..1_000,
            burst in 1u32..20,
            gaps in prop::collection::vec(0u64..50_000_000, 1..100),
        ) {
            let limiter = Limiter::new(Quota::per_second(count).unwrap().burst(burst).unwrap());
            let mut now = Duration::ZERO;
            for gap in gaps {
                now += Duration::from_nanos(gap);
                if let Err(refused) = limiter.check(now) {
                    now += refused.wait().unwrap();
                    prop_assert_eq!(limiter.check(now), Ok(()));
                }
            }
        }
    }
}
