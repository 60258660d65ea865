//! Decides what is kept of a simulation: response times as quantiles, and where requests went.
//!
//! Times are from the arrival of a request to its answer. Requests that ended in an error are counted and not timed: a
//! quick error is not a quick answer.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest time that is told apart, in microseconds: a day.
const MICROS_MAX: u64 = 86_400_000_000;
/// Digits of a time that are kept: errors stay below half a percent.
const DIGITS: u8 = 2;
/// A queue of this length at the end of the arrivals is called overloaded. In a queue at 85 % load that is stable, one
/// is as long with a chance of one in ten million.
pub const QUEUE_OVERLOADED: usize = 100;

/// What came out.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Times of all requests that are counted.
    pub response: Quantiles,
    /// Times by the moment of arrival, warm-up included.
    pub slices: Vec<Slice>,
    /// Requests that got an answer.
    pub answered: u64,
    /// Requests that ended in an error.
    pub failed: u64,
    /// Requests that no target could take.
    pub shed: u64,
    /// Requests that went to each target.
    pub sent: Vec<u64>,
    /// Targets whose queue had grown beyond all measure when arrivals ended.
    pub overloaded: usize,
    /// When the upset came, if there was one.
    pub upset_at: Option<Duration>,
    /// The share of requests after the upset that went to its target.
    pub sent_to_upset: f64,
}

/// Response times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// Their mean.
    pub mean: Duration,
    /// Half are shorter.
    pub p50: Duration,
    /// 90 % are shorter.
    pub p90: Duration,
    /// 99 % are shorter.
    pub p99: Duration,
    /// 99.9 % are shorter.
    pub p999: Duration,
    /// The longest.
    pub max: Duration,
}

/// Response times of the requests that arrived in a part of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    /// The middle of that part.
    pub at: Duration,
    /// Their times.
    pub response: Quantiles,
    /// The share of them that ended in an error.
    pub failed: f64,
}

impl Outcome {
    /// Whether every queue stayed within bounds.
    pub fn is_stable(&self) -> bool {
        self.overloaded == 0
    }

    /// The share of requests that ended in an error.
    pub fn failed_share(&self) -> f64 {
        let all = self.answered + self.failed + self.shed;
        if all == 0 { 0.0 } else { self.failed as f64 / all as f64 }
    }
}

/// Times that are collected.
pub(super) struct Times(Histogram<u64>);

impl Times {
    pub(super) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, MICROS_MAX, DIGITS).expect("the bounds are sound"))
    }

    pub(super) fn record(&mut self, nanos: u64) {
        self.0.saturating_record((nanos / 1_000).max(1));
    }

    pub(super) fn quantiles(&self) -> Quantiles {
        if self.0.is_empty() {
            return Quantiles::default();
        }
        let at = |quantile| Duration::from_micros(self.0.value_at_quantile(quantile));
        Quantiles {
            mean: Duration::from_secs_f64(self.0.mean() / 1e6),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: Duration::from_micros(self.0.max()),
        }
    }
}
