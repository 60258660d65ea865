//! Decides what latency to expect of a target: a moving average per target, and one over all of them.
//!
//! Does not know loads or weights, and picks nothing. The rules:
//! - The average is exponentially weighted: each answer counts with `alpha`, all earlier ones with the rest.
//! - A failure counts as longer than it took, or a target that fails at once would look fast.
//! - A target without an answer yet, or not asked for a while, is *due*: it is worth one try while it is idle. As
//!   soon as that try is out it is judged by what is known again, so that only one request is risked.
//! - A target that was never measured is expected to be like the others.

use std::time::Duration;

use super::error::{Check, Error};
use super::slots::BySlot;
use crate::policy::{Event, Outcome};
use crate::target::Target;

/// The longest latency that is believed.
const SECONDS_MAX: f64 = 3_600.0;

/// The shortest latency that is believed: it must not be taken for none.
const SECONDS_MIN: f64 = 1e-9;

/// How latencies are averaged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Averaging {
    /// How much the newest answer counts, above 0 and at most 1.
    pub alpha: f64,
    /// How many times its latency, or the average if that is longer, a failure counts; at least 1.
    pub failure_factor: f64,
    /// After this time without a request a target is tried again, whatever is known of it.
    pub forget_after: Duration,
}

impl Default for Averaging {
    fn default() -> Self {
        Self { alpha: 0.3, failure_factor: 2.0, forget_after: Duration::from_secs(10) }
    }
}

impl Averaging {
    pub(super) fn check(&self, check: &Check) -> Result<(), Error> {
        check.share("alpha", self.alpha)?;
        check.at_least("failure_factor", self.failure_factor, 1.0, "at least 1")?;
        check.span("forget_after", self.forget_after)
    }
}

/// What is known of the latency of every target.
#[derive(Clone, Debug)]
pub(super) struct Latencies {
    averaging: Averaging,
    known: BySlot<Known>,
    /// The average over all targets; none before the first answer.
    typical: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    seconds: Option<f64>,
    /// When a request last started or ended here.
    touched: Duration,
}

impl Latencies {
    pub(super) fn new(averaging: Averaging) -> Self {
        Self { averaging, known: BySlot::default(), typical: None }
    }

    /// Takes over what happened.
    pub(super) fn hear(&mut self, event: &Event<'_>, now: Duration) {
        match event {
            Event::Joined(target) | Event::Left(target) => self.known.reset(target.id),
            Event::Started(target) => self.known.at(target.id).touched = now,
            Event::Finished { target, latency, outcome } => {
                self.known.at(target.id).touched = now;
                self.answered(target, latency.as_secs_f64(), *outcome);
            }
            Event::Changed(_) | Event::Idle(_) => {}
        }
    }

    fn answered(&mut self, target: &Target, seconds: f64, outcome: Outcome) {
        let known = self.known.at(target.id);
        let seconds = match outcome {
            Outcome::Cancelled => return,
            Outcome::Success => seconds,
            Outcome::Failure => {
                self.averaging.failure_factor * seconds.max(known.seconds.unwrap_or_default())
            }
        };
        let seconds = seconds.clamp(SECONDS_MIN, SECONDS_MAX);
        let alpha = self.averaging.alpha;
        let mix = |old: Option<f64>| old.map_or(seconds, |old| old + alpha * (seconds - old));
        known.seconds = Some(mix(known.seconds));
        self.typical = Some(mix(self.typical));
    }

    /// Whether the target is worth one try.
    pub(super) fn is_due(&self, target: &Target, now: Duration) -> bool {
        let known = self.known.get(target.id);
        let silent = now.saturating_sub(known.touched) >= self.averaging.forget_after;
        target.in_flight == 0 && (known.seconds.is_none() || silent)
    }

    /// The average of a target; none before its first answer.
    pub(super) fn seconds(&self, target: &Target) -> Option<f64> {
        self.known.get(target.id).seconds
    }

    /// What a target of which nothing is known will take.
    pub(super) fn typical(&self) -> f64 {
        self.typical.unwrap_or(1.0)
    }
}
