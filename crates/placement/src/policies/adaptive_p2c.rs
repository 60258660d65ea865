//! Decides by two random candidates: the better of the two gets the request.
//!
//! Does not know queues at the target or other balancers' requests. Better is the one with the lower cost:
//! (in flight + 1) / weight × slowness × unreliability, where slowness is the average latency to a power, and
//! unreliability grows with the share of failures. The last three make an *adaptive weight* that follows what a
//! target does: it is worked out when an answer comes, not when a request is placed. A candidate that was never
//! measured, or not asked for a while, is tried with one request.
//!
//! Why two: the fullest of n targets then has about ln ln n requests more than the mean instead of ln n / ln ln n
//! (Mitzenmacher, 1996), at the cost of two looks whatever n is, and balancers with the same stale view do not all
//! run to the same target. The power below 1 takes the edge off latencies that differ by chance. At first start it
//! is power of two choices by load.

use std::time::Duration;

use super::choose;
use super::error::{Check, Error};
use super::latency::{Averaging, Latencies};
use super::slots::BySlot;
use crate::policy::{Event, Outcome, Pick, Policy, Request, View};
use crate::target::Target;

const NAME: &str = "adaptive-p2c";

/// The settings of [`AdaptiveP2c`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How latencies and failures are averaged.
    pub averaging: Averaging,
    /// The power of the latency in the cost: 0 leaves it out, 1 counts it in full.
    pub latency_power: f64,
    /// How much the share of failures adds to the cost: with 10, a target that always fails costs 11 times as much.
    pub failure_penalty: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { averaging: Averaging::default(), latency_power: 0.5, failure_penalty: 10.0 }
    }
}

/// Picks the better of two.
#[derive(Clone, Debug)]
pub struct AdaptiveP2c {
    settings: Settings,
    latencies: Latencies,
    adapted: BySlot<Adapted>,
    /// The slowness of a target that was never measured.
    typical: f64,
    rng: fastrand::Rng,
}

#[derive(Clone, Copy, Debug, Default)]
struct Adapted {
    /// The moving share of failures.
    failures: f64,
    /// Slowness times unreliability; none before the first answer.
    factor: Option<f64>,
}

impl AdaptiveP2c {
    /// Checks the settings; candidates are drawn from a generator with this seed.
    pub fn new(settings: Settings, seed: u64) -> Result<Self, Error> {
        let check = Check(NAME);
        settings.averaging.check(&check)?;
        let power = settings.latency_power;
        check.that((0.0..=1.0).contains(&power), "latency_power", power, "from 0 to 1")?;
        check.at_least("failure_penalty", settings.failure_penalty, 0.0, "0 or more")?;
        Ok(Self {
            settings,
            latencies: Latencies::new(settings.averaging),
            adapted: BySlot::default(),
            typical: 1.0,
            rng: fastrand::Rng::with_seed(seed),
        })
    }

    /// The weight of a target as it has adapted: its own weight if it does as well as is typical, more if it does
    /// better.
    pub fn adaptive_weight(&self, target: &Target) -> f64 {
        let factor = self.adapted.get(target.id).factor.unwrap_or(self.typical);
        target.spec.weight * self.typical / factor
    }

    fn cost(&self, target: &Target, now: Duration) -> f64 {
        if self.latencies.is_due(target, now) {
            return 0.0;
        }
        let factor = self.adapted.get(target.id).factor.unwrap_or(self.typical);
        choose::load_with_one_more(target) * factor
    }

    fn adapt(&mut self, target: &Target, outcome: Outcome) {
        let failed = match outcome {
            Outcome::Cancelled => return,
            Outcome::Success => 0.0,
            Outcome::Failure => 1.0,
        };
        let seconds = self.latencies.seconds(target).unwrap_or_else(|| self.latencies.typical());
        let adapted = self.adapted.at(target.id);
        adapted.failures += self.settings.averaging.alpha * (failed - adapted.failures);
        let unreliability = 1.0 + self.settings.failure_penalty * adapted.failures;
        adapted.factor = Some(seconds.powf(self.settings.latency_power) * unreliability);
        self.typical = self.latencies.typical().powf(self.settings.latency_power);
    }
}

impl Policy for AdaptiveP2c {
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
        self.latencies.hear(event, now);
        match event {
            Event::Joined(target) | Event::Left(target) => self.adapted.reset(target.id),
            Event::Finished { target, outcome, .. } => self.adapt(target, *outcome),
            Event::Changed(_) | Event::Started(_) | Event::Idle(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Balancer, TargetId, TargetSpec};

    const MS: Duration = Duration::from_millis(1);

    fn balancer(count: usize) -> (Balancer<AdaptiveP2c>, Vec<TargetId>) {
        let mut balancer = Balancer::new(AdaptiveP2c::new(Settings::default(), 11).unwrap());
        let specs = (0..count).map(|index| TargetSpec::new(index.to_string()));
        let ids = specs.map(|spec| balancer.add(spec, MS).unwrap()).collect();
        (balancer, ids)
    }

    fn answer(balancer: &mut Balancer<AdaptiveP2c>, id: TargetId, ms: u32, outcome: Outcome) {
        balancer.start(id, MS);
        balancer.finish(id, MS * ms, outcome, MS);
    }

    fn weight(balancer: &Balancer<AdaptiveP2c>, id: TargetId) -> f64 {
        balancer.policy().adaptive_weight(balancer.targets().get(id).unwrap())
    }

    #[test]
    fn weights_adapt_to_latency_and_failures_and_recover() {
        let (mut balancer, ids) = balancer(3);
        for _ in 0..30 {
            answer(&mut balancer, ids[0], 10, Outcome::Success);
            answer(&mut balancer, ids[1], 40, Outcome::Success);
            answer(&mut balancer, ids[2], 10, Outcome::Failure);
        }
        let [good, slow, failing] = [0, 1, 2].map(|index| weight(&balancer, ids[index]));
        // Four times the latency to the power of one half is half the weight.
        assert!((good / slow - 2.0).abs() < 0.01, "{good} {slow}");
        assert!(good / failing > 10.0, "{good} {failing}");
        for _ in 0..60 {
            ids.iter().for_each(|id| answer(&mut balancer, *id, 10, Outcome::Success));
        }
        assert!((weight(&balancer, ids[2]) / weight(&balancer, ids[0]) - 1.0).abs() < 0.01);
    }

    #[test]
    fn of_two_targets_the_better_always_wins_and_load_is_shared_by_adaptive_weight() {
        let (mut balancer, ids) = balancer(2);
        for _ in 0..30 {
            answer(&mut balancer, ids[0], 10, Outcome::Success);
            answer(&mut balancer, ids[1], 90, Outcome::Success);
        }
        assert_eq!(balancer.pick(&Request::default(), MS).first(), Some(ids[0]));
        for _ in 0..40 {
            balancer.assign(&Request::default(), MS);
        }
        let load = |id| balancer.targets().get(id).unwrap().in_flight;
        assert_eq!((load(ids[0]), load(ids[1])), (30, 10));
    }

    #[test]
    fn the_fullest_target_stays_close_to_the_mean() {
        let (mut balancer, _) = balancer(100);
        for _ in 0..1_000 {
            balancer.assign(&Request::default(), MS);
        }
        let fullest = balancer.targets().iter().map(|target| target.in_flight).max().unwrap();
        assert!(fullest <= 13, "{fullest} where the mean is 10");
    }

    #[test]
    fn a_target_that_failed_gets_one_try_after_a_while() {
        let (mut balancer, ids) = balancer(2);
        answer(&mut balancer, ids[0], 10, Outcome::Success);
        (0..9).for_each(|_| answer(&mut balancer, ids[1], 10, Outcome::Failure));
        assert_eq!(balancer.pick(&Request::default(), MS).first(), Some(ids[0]));
        let later = Duration::from_secs(20);
        balancer.start(ids[0], later);
        assert_eq!(balancer.assign(&Request::default(), later).first(), Some(ids[1]));
        for _ in 0..5 {
            assert_eq!(balancer.assign(&Request::default(), later).first(), Some(ids[0]));
        }
    }

    #[test]
    fn settings_that_make_no_sense_are_refused_by_name() {
        let sane = Settings::default();
        for (settings, field) in [
            (Settings { latency_power: 1.5, ..sane }, "latency_power"),
            (Settings { latency_power: f64::NAN, ..sane }, "latency_power"),
            (Settings { failure_penalty: -1.0, ..sane }, "failure_penalty"),
        ] {
            let error = AdaptiveP2c::new(settings, 0).unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
    }
}
