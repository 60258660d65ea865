//! How much may pass: a rate and a burst.

use std::time::Duration;

use crate::rolling::nanos;
use crate::setting::{self, Invalid};

/// The shortest time between two tokens: ten million per second. Times are whole nanoseconds, rounded up, so below
/// this the rate would be off by more than a hundredth.
pub const INTERVAL_MIN: Duration = Duration::from_nanos(100);

/// So many per so much time, and so many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    interval_ns: u64,
    burst: u32,
}

impl Quota {
    /// `count` in each `period`, evenly; the burst is `count` as well.
    pub fn new(count: u32, period: Duration) -> Result<Self, Invalid> {
        setting::count("count", count, u32::MAX)?;
        setting::span("period", period)?;
        let count_max = nanos(period) / nanos(INTERVAL_MIN);
        if u64::from(count) > count_max {
            let expected = format!("at most {count_max} in a period of {period:?}");
            return Err(Invalid::new("count", count, expected));
        }
        let interval_ns = nanos(period).div_ceil(u64::from(count));
        Self { interval_ns, burst: 1 }.burst(count)
    }

    /// So many per second, and as many at once.
    pub fn per_second(count: u32) -> Result<Self, Invalid> {
        Self::new(count, Duration::from_secs(1))
    }

    /// So many per minute, and as many at once.
    pub fn per_minute(count: u32) -> Result<Self, Invalid> {
        Self::new(count, Duration::from_secs(60))
    }

    /// The same rate with this many at once.
    pub fn burst(self, burst: u32) -> Result<Self, Invalid> {
        setting::count("burst", burst, u32::MAX)?;
        let fill = u128::from(self.interval_ns) * u128::from(burst);
        if fill > setting::SPAN_MAX.as_nanos() {
            return Err(Invalid::new("burst", burst, "no more than the rate gives in a year"));
        }
        Ok(Self { burst, ..self })
    }

    /// The time between two tokens.
    pub fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval_ns)
    }

    /// How many may pass at once.
    pub fn burst_size(&self) -> u32 {
        self.burst
    }

    /// How long an empty bucket takes to be full.
    pub(super) fn fill_ns(&self) -> u64 {
        self.interval_ns * u64::from(self.burst)
    }

    /// How far a request of this cost moves the bucket. It fits if the cost is within the burst.
    pub(super) fn cost_ns(&self, cost: u32) -> u64 {
        self.interval_ns * u64::from(cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_by_name() {
        let quota = Quota::per_second(10).unwrap();
        let table = [
            ("count", Quota::per_second(0)),
            ("count", Quota::per_second(10_000_001)),
            ("period", Quota::new(1, Duration::ZERO)),
            ("burst", quota.burst(0)),
            ("burst", quota.burst(u32::MAX)),
        ];
        for (field, result) in table {
            assert_eq!(result.unwrap_err().field, field);
        }
    }

    #[test]
    fn the_interval_is_rounded_up_so_that_the_rate_is_never_exceeded() {
        assert_eq!(Quota::per_second(3).unwrap().interval(), Duration::from_nanos(333_333_334));
        assert_eq!(Quota::per_minute(60).unwrap().interval(), Duration::from_secs(1));
        assert_eq!(Quota::per_second(10_000_000).unwrap().interval(), INTERVAL_MIN);
    }
}
