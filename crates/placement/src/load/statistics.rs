//! Decides what is known of one target from the events about it.
//!
//! Knows nothing of other targets and judges nothing: [`super::health`] does. Totals count since the target joined.
//! The mean, the quantiles and the error rate are of the recent past: what is older than a half-life counts half
//! (an exponentially weighted average over time, not over requests, so that a quiet hour does not keep an old storm
//! alive).
//!
//! Rules: only successes have a latency, since a target that refuses at once would else look quick; requests that
//! were called off count as neither good nor bad. Cold: without finished requests there is no mean and no quantile,
//! and the error rate is 0 with an evidence of 0.

use std::time::Duration;

use super::decay::Decay;
use super::error::{self, Error};
use super::quantile::Sketch;
use crate::policy::{Event, Outcome};

/// After this long an observation counts half, if nothing else is set.
pub const HALF_LIFE_DEFAULT: Duration = Duration::from_secs(30);

/// What is known of one target.
#[derive(Clone, Debug)]
pub struct Statistics {
    requests: u64,
    errors: u64,
    cancelled: u64,
    active: u32,
    last_error_at: Option<Duration>,
    last_success_at: Option<Duration>,
    decay: Decay,
    recent_good: f64,
    recent_bad: f64,
    recent_seconds: f64,
    latencies: Sketch,
}

/// The figures of one target at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Requests that were started here.
    pub requests: u64,
    /// Requests that failed by the fault of the target.
    pub errors: u64,
    /// Requests that were called off.
    pub cancelled: u64,
    /// Requests in flight.
    pub active: u32,
    /// The recent share of failures among what finished; 0 if nothing did.
    pub error_rate: f64,
    /// How many fresh observations the recent past is worth: the less, the less the other figures mean.
    pub evidence: f64,
    /// The recent mean latency of successes.
    pub mean: Option<Duration>,
    /// Half of the recent successes were at least as fast as this.
    pub p50: Option<Duration>,
    /// 95 % of the recent successes were at least as fast as this.
    pub p95: Option<Duration>,
    /// 99 % of the recent successes were at least as fast as this.
    pub p99: Option<Duration>,
    /// When a request failed last.
    pub last_error_at: Option<Duration>,
    /// When a request succeeded last.
    pub last_success_at: Option<Duration>,
}

impl Statistics {
    /// Without observations. After `half_life` an observation counts half.
    pub fn new(half_life: Duration) -> Result<Self, Error> {
        error::some_time("half_life", half_life)?;
        Ok(Self::checked(half_life))
    }

    /// As [`Statistics::new`], with a half-life that is known to be good.
    pub(super) fn checked(half_life: Duration) -> Self {
        Self {
            requests: 0,
            errors: 0,
            cancelled: 0,
            active: 0,
            last_error_at: None,
            last_success_at: None,
            decay: Decay::new(half_life),
            recent_good: 0.0,
            recent_bad: 0.0,
            recent_seconds: 0.0,
            latencies: Sketch::new(),
        }
    }

    /// Takes in an event about this target. The caller sees to it that it is about this target.
    pub fn observe(&mut self, event: &Event<'_>, now: Duration) {
        match event {
            Event::Joined(target) | Event::Changed(target) | Event::Idle(target) => {
                self.active = target.in_flight;
            }
            Event::Left(_) => self.active = 0,
            Event::Started(target) => {
                self.active = target.in_flight;
                self.requests += 1;
            }
            Event::Finished { target, latency, outcome } => {
                self.active = target.in_flight;
                self.finished(*latency, *outcome, now);
            }
        }
    }

    /// The quantile of the recent latencies; 0.5 is the median.
    ///
    /// # Panics
    /// If the share is not from 0 to 1.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        self.latencies.quantile(share)
    }

    /// All figures.
    pub fn summary(&self, now: Duration) -> Summary {
        let recent = self.recent_good + self.recent_bad;
        let mean = self.recent_seconds / self.recent_good;
        let [p50, p95, p99] = self.latencies.quantiles([0.5, 0.95, 0.99]);
        Summary {
            requests: self.requests,
            errors: self.errors,
            cancelled: self.cancelled,
            active: self.active,
            error_rate: if recent > 0.0 { self.recent_bad / recent } else { 0.0 },
            evidence: recent * self.decay.scale(now),
            mean: (self.recent_good > 0.0).then(|| Duration::from_secs_f64(mean)),
            p50,
            p95,
            p99,
            last_error_at: self.last_error_at,
            last_success_at: self.last_success_at,
        }
    }

    fn finished(&mut self, latency: Duration, outcome: Outcome, now: Duration) {
        if let Some(factor) = self.decay.advance(now) {
            self.recent_good *= factor;
            self.recent_bad *= factor;
            self.recent_seconds *= factor;
            self.latencies.fade(factor);
        }
        let weight = self.decay.weight();
        match outcome {
            Outcome::Success => {
                self.last_success_at = Some(now);
                self.recent_good += weight;
                self.recent_seconds += weight * latency.as_secs_f64();
                self.latencies.record_weighted(latency, weight);
            }
            Outcome::Failure => {
                self.errors += 1;
                self.last_error_at = Some(now);
                self.recent_bad += weight;
            }
            Outcome::Cancelled => self.cancelled += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{Target, TargetSpec, Targets};

    const HALF_LIFE: Duration = Duration::from_secs(10);

    fn target() -> Target {
        let mut targets = Targets::new();
        let id = targets.add(TargetSpec::new("a")).unwrap();
        targets.get(id).unwrap().clone()
    }

    fn finish(statistics: &mut Statistics, millis: u64, outcome: Outcome, now: Duration) {
        let target = target();
        let latency = Duration::from_millis(millis);
        statistics.observe(&Event::Started(&target), now);
        statistics.observe(&Event::Finished { target: &target, latency, outcome }, now);
    }

    #[test]
    fn totals_and_last_times_are_counted_by_outcome() {
        let mut statistics = Statistics::new(HALF_LIFE).unwrap();
        let outcomes = [Outcome::Success, Outcome::Failure, Outcome::Success, Outcome::Cancelled];
        for (second, outcome) in outcomes.into_iter().enumerate() {
            finish(&mut statistics, 10, outcome, Duration::from_secs(second as u64));
        }
        let summary = statistics.summary(Duration::from_secs(3));
        assert_eq!((summary.requests, summary.errors, summary.cancelled), (4, 1, 1));
        assert_eq!(summary.last_error_at, Some(Duration::from_secs(1)));
        assert_eq!(summary.last_success_at, Some(Duration::from_secs(2)));
        assert!((summary.error_rate - 0.33).abs() < 0.02, "{}", summary.error_rate);
    }

    #[test]
    fn only_successes_have_a_latency() {
        let mut statistics = Statistics::new(HALF_LIFE).unwrap();
        finish(&mut statistics, 1, Outcome::Failure, Duration::ZERO);
        finish(&mut statistics, 1, Outcome::Cancelled, Duration::ZERO);
        assert_eq!(statistics.summary(Duration::ZERO).p50, None);
        assert_eq!(statistics.summary(Duration::ZERO).mean, None);
        finish(&mut statistics, 64, Outcome::Success, Duration::ZERO);
        let summary = statistics.summary(Duration::ZERO);
        assert_eq!(summary.mean, Some(Duration::from_millis(64)));
        assert!(summary.p99.unwrap() >= Duration::from_millis(63));
    }

    #[test]
    fn the_recent_past_outweighs_what_is_old() {
        // After 100 half-lives the sums have been brought back to a small scale; after 10 they have not.
        for (half_lives, evidence) in [(10, 10.2), (100, 10.0)] {
            let mut statistics = Statistics::new(HALF_LIFE).unwrap();
            (0..100).for_each(|_| finish(&mut statistics, 1_000, Outcome::Failure, Duration::ZERO));
            (0..100).for_each(|_| finish(&mut statistics, 1_000, Outcome::Success, Duration::ZERO));
            let later = HALF_LIFE * half_lives;
            (0..10).for_each(|_| finish(&mut statistics, 10, Outcome::Success, later));
            let summary = statistics.summary(later);
            assert!(summary.p95.unwrap() < Duration::from_millis(11), "{summary:?}");
            assert!(summary.mean.unwrap() < Duration::from_millis(30), "{summary:?}");
            assert!(summary.error_rate < 0.01, "{summary:?}");
            assert!((summary.evidence - evidence).abs() < 0.1, "{summary:?}");
            assert_eq!(summary.errors, 100);
        }
    }

    #[test]
    fn evidence_fades_while_nothing_happens() {
        let mut statistics = Statistics::new(HALF_LIFE).unwrap();
        (0..8).for_each(|_| finish(&mut statistics, 1, Outcome::Success, Duration::ZERO));
        for (half_lives, evidence) in [(0, 8.0), (1, 4.0), (3, 1.0), (1_000, 0.0)] {
            let summary = statistics.summary(HALF_LIFE * half_lives);
            assert!((summary.evidence - evidence).abs() < 1e-9, "{half_lives}: {summary:?}");
        }
    }

    #[test]
    fn a_half_life_of_nothing_is_refused() {
        let error = Statistics::new(Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("`half_life`"), "{error}");
    }
}
