//! Decides by two random candidates and their peak-sensitive latency: a target that turns slow is left at once.
//!
//! Does not know why a target is slow. The estimate of a target jumps to any latency above it, and falls towards
//! lower ones as time passes: after `decay` only 37 % of the old value is left. Between answers it falls towards 0,
//! so a target that was left is tried again. The cost is the estimate times the requests that it would have, over
//! its weight. A failure counts as longer than it took, or a target that fails at once would look fast.
//!
//! Why: one slow answer is enough to move traffic away, where a plain average needs several. The price is that noise
//! counts as news: where latencies vary by chance alone, plain counts in flight do better. At first start a target
//! is thought to take `first_latency`. The rule is that of Finagle (Twitter) and the `tower` crate.

use std::time::Duration;

use super::choose;
use super::error::{Check, Error};
use super::slots::BySlot;
use crate::policy::{Event, Outcome, Pick, Policy, Request, View};
use crate::target::Target;

const NAME: &str = "peak-ewma";

/// The longest latency that is believed.
const SECONDS_MAX: f64 = 3_600.0;

/// Added to every estimate, so that loads still count when estimates have fallen to 0.
const SECONDS_MIN: f64 = 1e-9;

/// The settings of [`PeakEwma`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How long it takes until only 37 % of an old estimate is left.
    pub decay: Duration,
    /// What a target is thought to take before its first answer.
    pub first_latency: Duration,
    /// How many times its latency, or the estimate if that is longer, a failure counts; at least 1.
    pub failure_factor: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            decay: Duration::from_secs(10),
            first_latency: Duration::from_millis(30),
            failure_factor: 2.0,
        }
    }
}

/// Picks the one of two that answers sooner.
#[derive(Clone, Debug)]
pub struct PeakEwma {
    settings: Settings,
    decay_seconds: f64,
    estimates: BySlot<Estimate>,
    rng: fastrand::Rng,
}

#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    seconds: f64,
    /// When the estimate was as it is written here.
    stamp: Duration,
}

impl PeakEwma {
    /// Checks the settings; candidates are drawn from a generator with this seed.
    pub fn new(settings: Settings, seed: u64) -> Result<Self, Error> {
        let check = Check(NAME);
        check.span("decay", settings.decay)?;
        check.span("first_latency", settings.first_latency)?;
        check.at_least("failure_factor", settings.failure_factor, 1.0, "at least 1")?;
        Ok(Self {
            settings,
            decay_seconds: settings.decay.as_secs_f64(),
            estimates: BySlot::default(),
            rng: fastrand::Rng::with_seed(seed),
        })
    }

    /// The estimate of a target as it is now.
    pub fn estimate(&self, target: &Target, now: Duration) -> Duration {
        Duration::from_secs_f64(self.seconds(target, now))
    }

    fn seconds(&self, target: &Target, now: Duration) -> f64 {
        let estimate = self.estimates.get(target.id);
        estimate.seconds * self.kept(estimate.stamp, now)
    }

    /// The share of an estimate that is left after the time from `stamp` to `now`.
    fn kept(&self, stamp: Duration, now: Duration) -> f64 {
        (-now.saturating_sub(stamp).as_secs_f64() / self.decay_seconds).exp()
    }

    fn cost(&self, target: &Target, now: Duration) -> f64 {
        (self.seconds(target, now) + SECONDS_MIN) * choose::load_with_one_more(target)
    }

    fn answered(&mut self, target: &Target, latency: Duration, outcome: Outcome, now: Duration) {
        let old = self.estimates.get(target.id);
        let kept = self.kept(old.stamp, now);
        let seconds = match outcome {
            Outcome::Cancelled => return,
            Outcome::Success => latency.as_secs_f64(),
            Outcome::Failure => {
                self.settings.failure_factor * latency.as_secs_f64().max(old.seconds * kept)
            }
        };
        let seconds = seconds.min(SECONDS_MAX);
        let seconds = if seconds > old.seconds * kept {
            seconds
        } else {
            old.seconds * kept + seconds * (1.0 - kept)
        };
        *self.estimates.at(target.id) = Estimate { seconds, stamp: now };
    }
}

impl Policy for PeakEwma {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pick(&mut self, request: &Request<'_>, view: &View<'_>, now: Duration) -> Pick {
        let mut rng = self.rng.clone();
        let pick = choose::each(request, view, |candidates| {
            let cost = |target: &Target| self.cost(target, now);
            candidates.better_of_two(&mut rng, cost).map(|target| target.id)
        });
        self.rng = rng;
        pick
    }

    fn on_event(&mut self, event: &Event<'_>, now: Duration) {
        match event {
            Event::Joined(target) => {
                let seconds = self.settings.first_latency.as_secs_f64();
                *self.estimates.at(target.id) = Estimate { seconds, stamp: now };
            }
            Event::Left(target) => self.estimates.reset(target.id),
            Event::Finished { target, latency, outcome } => {
                self.answered(target, *latency, *outcome, now);
            }
            Event::Changed(_) | Event::Started(_) | Event::Idle(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Balancer, TargetId, TargetSpec};

    const MS: Duration = Duration::from_millis(1);

    fn balancer() -> (Balancer<PeakEwma>, [TargetId; 2]) {
        let mut balancer = Balancer::new(PeakEwma::new(Settings::default(), 2).unwrap());
        let ids =
            ["a", "b"].map(|name| balancer.add(TargetSpec::new(name), Duration::ZERO).unwrap());
        (balancer, ids)
    }

    fn estimate_ms(balancer: &Balancer<PeakEwma>, id: TargetId, now: Duration) -> f64 {
        let target = balancer.targets().get(id).unwrap();
        balancer.policy().estimate(target, now).as_secs_f64() * 1e3
    }

    #[test]
    fn the_estimate_jumps_up_and_falls_with_time() {
        let (mut balancer, [a, _]) = balancer();
        let seconds = Duration::from_secs;
        let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 0.01, "{found}");
        near(estimate_ms(&balancer, a, Duration::ZERO), 30.0);
        balancer.start(a, seconds(0));
        balancer.finish(a, 200 * MS, Outcome::Success, seconds(0));
        near(estimate_ms(&balancer, a, seconds(0)), 200.0);
        near(estimate_ms(&balancer, a, seconds(10)), 200.0 * (-1f64).exp());
        // A lower answer pulls by as much as time has passed: 0.3679 × 200 + 0.6321 × 10.
        balancer.start(a, seconds(0));
        balancer.finish(a, 10 * MS, Outcome::Success, seconds(10));
        near(estimate_ms(&balancer, a, seconds(10)), 79.8970);
        balancer.start(a, seconds(10));
        balancer.finish(a, 900 * MS, Outcome::Cancelled, seconds(10));
        near(estimate_ms(&balancer, a, seconds(10)), 79.8970);
    }

    #[test]
    fn one_slow_answer_moves_traffic_away_and_time_brings_it_back() {
        let (mut balancer, [a, b]) = balancer();
        for (id, ms) in [(a, 10), (b, 10), (a, 500)] {
            balancer.start(id, MS);
            balancer.finish(id, MS * ms, Outcome::Success, MS);
        }
        for _ in 0..10 {
            assert_eq!(balancer.pick(&Request::default(), MS).first(), Some(b));
        }
        // The other one keeps answering in 10 ms, the slow one is forgotten.
        let later = Duration::from_secs(60);
        balancer.start(b, later);
        balancer.finish(b, 10 * MS, Outcome::Success, later);
        assert_eq!(balancer.pick(&Request::default(), later).first(), Some(a));
    }

    #[test]
    fn a_target_that_fails_at_once_does_not_look_fast() {
        let (mut balancer, [a, b]) = balancer();
        for (id, ms, outcome) in
            [(a, 40, Outcome::Success), (b, 40, Outcome::Success), (b, 0, Outcome::Failure)]
        {
            balancer.start(id, MS);
            balancer.finish(id, MS * ms, outcome, MS);
        }
        assert_eq!(balancer.pick(&Request::default(), MS).first(), Some(a));
    }

    #[test]
    fn settings_that_make_no_sense_are_refused_by_name() {
        let sane = Settings::default();
        for (settings, field) in [
            (Settings { decay: Duration::ZERO, ..sane }, "decay"),
            (Settings { first_latency: Duration::ZERO, ..sane }, "first_latency"),
            (Settings { failure_factor: 0.5, ..sane }, "failure_factor"),
        ] {
            let error = PeakEwma::new(settings, 0).unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
    }
}
