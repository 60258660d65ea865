//! What is known of a dependency, and what makes a rung impossible.
//!
//! What is not known forbids nothing: a rung is left for a reason, never for the lack of one.

use std::time::Duration;

use crate::setting::{Invalid, require};

/// What is known of a dependency at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Signals {
    /// Whether its breaker is open.
    pub breaker_open: bool,
    /// How long it takes; a high quantile says more than a mean.
    pub latency: Option<Duration>,
    /// How busy it or the way to it is, where 1 is as much as it can do.
    pub load: Option<f64>,
    /// Which share of the calls fails.
    pub error_rate: Option<f64>,
}

/// What makes a rung impossible.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Condition {
    /// The breaker is open.
    BreakerOpen,
    /// It takes longer than this.
    LatencyAbove(Duration),
    /// It is busier than this.
    LoadAbove(f64),
    /// A larger share of calls fails than this.
    ErrorRateAbove(f64),
}

impl Condition {
    /// Whether it holds, with its threshold multiplied by `relief`.
    pub(super) fn holds(&self, signals: &Signals, relief: f64) -> bool {
        match *self {
            Self::BreakerOpen => signals.breaker_open,
            Self::LatencyAbove(most) => {
                signals.latency.is_some_and(|latency| latency > most.mul_f64(relief))
            }
            Self::LoadAbove(most) => signals.load.is_some_and(|load| load > most * relief),
            Self::ErrorRateAbove(most) => {
                signals.error_rate.is_some_and(|rate| rate > most * relief)
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), Invalid> {
        match *self {
            Self::BreakerOpen => Ok(()),
            Self::LatencyAbove(most) => require(!most.is_zero(), "latency_above", most, "above 0"),
            Self::LoadAbove(most) => require(
                most > 0.0 && most.is_finite(),
                "load_above",
                most,
                "above 0; 1 is as much as it can do",
            ),
            Self::ErrorRateAbove(most) => {
                require(most > 0.0 && most < 1.0, "error_rate_above", most, "above 0 and below 1")
            }
        }
    }
}
