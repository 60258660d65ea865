//! Decides how much a target can bear: requests per second and requests at once, with how sure that is.
//!
//! Sees only the requests that succeed, and when; it does not probe. Little's law (Little, 1961) joins the two
//! figures: requests at once = requests per second × seconds per request. Under the knee, more requests at once give
//! more throughput at the same latency; over it the same throughput at a higher latency. So, as in BBR (Cardwell and
//! others, ACM Queue 2016), the capacity is the highest throughput, and the places are that throughput times the
//! latency of calm times.
//!
//! Rules, per interval with enough successes:
//! - the calm latency is the lowest tenth of the intervals' means (not the lowest: chance makes single ones too low);
//! - an interval is *saturated* if its mean latency is `saturation_ratio` times the calm one, or if the target was at
//!   its limit nearly all the time;
//! - a saturated interval measures the capacity, so the estimate follows it up and down; any other only shows that at
//!   least this much is possible, so the estimate follows it up only;
//! - confidence comes from saturated intervals alone and fades with `memory`.
//!
//! Why this way: nothing must be set per target, and a target that turns slower is found out at its next saturation.
//! Weakness: after an overload that lasts much longer than `memory` the calm latency is forgotten, and the places are
//! overestimated until it is calm again. Cold: no estimate before the first full interval; then a lower bound with a
//! confidence of 0.

use std::time::Duration;

use super::decay::Decay;
use super::error::{self, Error};
use super::quantile::Sketch;

/// The share of the intervals whose mean latency counts as calm.
const CALM_SHARE: f64 = 0.1;
/// At its limit for this share of the successes: the limit is what holds the target back.
const FULL_SHARE: f64 = 0.9;
/// With this many saturated intervals the confidence is a half.
const PROOFS_HALF: f64 = 2.0;

/// What can be set.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The least length of an interval.
    pub interval: Duration,
    /// The fewest successes of an interval; it is prolonged until it has them.
    pub successes_min: u32,
    /// How many times the calm latency means saturation.
    pub saturation_ratio: f64,
    /// How far the estimate moves to a new measurement, from 0 (not at all) to 1 (wholly).
    pub gain: f64,
    /// After this long, what was measured counts half.
    pub memory: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            successes_min: 100,
            saturation_ratio: 2.0,
            gain: 0.3,
            memory: Duration::from_secs(600),
        }
    }
}

impl Settings {
    /// Refuses settings that mean nothing.
    pub fn check(&self) -> Result<(), Error> {
        error::some_time("capacity.interval", self.interval)?;
        error::count(
            "capacity.successes_min",
            self.successes_min as usize,
            1..=1_000_000,
            "1 to 1,000,000",
        )?;
        error::above_one("capacity.saturation_ratio", self.saturation_ratio)?;
        error::share("capacity.gain", self.gain)?;
        error::some_time("capacity.memory", self.memory)
    }
}

/// What a target can bear.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Successes per second.
    pub requests_per_second: f64,
    /// Requests at once: beyond this, they only wait.
    pub slots: u32,
    /// 0: only a lower bound; near 1: seen at saturation often and recently.
    pub confidence: f64,
    /// The mean latency when it is calm.
    pub calm_latency: Duration,
    /// Whether the last interval was saturated.
    pub saturated: bool,
}

impl Estimate {
    /// The part of the capacity that is free at this rate, from 0 to 1.
    pub fn headroom(&self, requests_per_second: f64) -> f64 {
        (1.0 - requests_per_second / self.requests_per_second).clamp(0.0, 1.0)
    }
}

/// Estimates the capacity of one target.
#[derive(Clone, Debug)]
pub struct Estimator {
    settings: Settings,
    open: Option<Interval>,
    /// The mean latencies of the intervals.
    latencies: Sketch,
    decay: Decay,
    /// Saturated intervals, weighted.
    proofs: f64,
    rate: Option<f64>,
    saturated: bool,
}

#[derive(Clone, Debug)]
struct Interval {
    from: Duration,
    successes: u32,
    at_limit: u32,
    latency_seconds: f64,
}

impl Interval {
    fn starting(from: Duration) -> Self {
        Self { from, successes: 0, at_limit: 0, latency_seconds: 0.0 }
    }
}

impl Estimator {
    /// Refuses settings that mean nothing.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        Ok(Self::checked(settings))
    }

    /// As [`Estimator::new`], with settings that are known to be good.
    pub(super) fn checked(settings: Settings) -> Self {
        let decay = Decay::new(settings.memory);
        Self {
            settings,
            open: None,
            latencies: Sketch::new(),
            decay,
            proofs: 0.0,
            rate: None,
            saturated: false,
        }
    }

    /// Takes in a success. `at_limit` says whether the target could not have had more in flight.
    pub fn succeeded(&mut self, latency: Duration, at_limit: bool, now: Duration) {
        // The first success only opens the interval: counting it too would count one gap too few.
        let Some(interval) = &mut self.open else {
            self.open = Some(Interval::starting(now));
            return;
        };
        interval.successes += 1;
        interval.at_limit += u32::from(at_limit);
        interval.latency_seconds += latency.as_secs_f64();
        let is_long = now.saturating_sub(interval.from) >= self.settings.interval;
        if is_long && interval.successes >= self.settings.successes_min {
            let full = std::mem::replace(interval, Interval::starting(now));
            self.close(&full, now);
        }
    }

    /// What the target can bear; `limit` is the most that it may have in flight.
    pub fn estimate(&self, limit: Option<u32>, now: Duration) -> Option<Estimate> {
        let requests_per_second = self.rate?;
        let calm_latency = self.latencies.quantile(CALM_SHARE)?;
        let places = (requests_per_second * calm_latency.as_secs_f64()).round().max(1.0) as u32;
        let proofs = self.proofs * self.decay.scale(now);
        Some(Estimate {
            requests_per_second,
            slots: places.min(limit.unwrap_or(u32::MAX)),
            confidence: proofs / (proofs + PROOFS_HALF),
            calm_latency,
            saturated: self.saturated,
        })
    }

    fn close(&mut self, interval: &Interval, now: Duration) {
        if let Some(factor) = self.decay.advance(now) {
            self.latencies.fade(factor);
            self.proofs *= factor;
        }
        let successes = f64::from(interval.successes);
        let mean_seconds = interval.latency_seconds / successes;
        self.latencies.record_weighted(Duration::from_secs_f64(mean_seconds), self.decay.weight());
        let calm = self.latencies.quantile(CALM_SHARE).expect("a value was recorded just now");
        let is_slow = mean_seconds >= calm.as_secs_f64() * self.settings.saturation_ratio;
        self.saturated = is_slow || f64::from(interval.at_limit) >= FULL_SHARE * successes;
        if self.saturated {
            self.proofs += self.decay.weight();
        }
        let measured = successes / now.saturating_sub(interval.from).as_secs_f64();
        let known = self.rate.unwrap_or(measured);
        let follows = self.saturated || measured > known;
        self.rate =
            Some(if follows { known + self.settings.gain * (measured - known) } else { known });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BinaryHeap;

    use super::*;

    /// A target with some places, and a queue before them: when a request that comes at `at` ends.
    struct Server {
        free_at: BinaryHeap<std::cmp::Reverse<Duration>>,
        random: fastrand::Rng,
    }

    impl Server {
        fn new(places: usize) -> Self {
            let free_at = std::iter::repeat_n(std::cmp::Reverse(Duration::ZERO), places).collect();
            Self { free_at, random: fastrand::Rng::with_seed(7) }
        }

        /// A random time with this mean.
        fn exponential(&mut self, mean: Duration) -> Duration {
            mean.mul_f64(-(1.0 - self.random.f64()).ln())
        }

        fn ends(&mut self, at: Duration, service: Duration) -> Duration {
            let free = self.free_at.pop().unwrap().0;
            let end = free.max(at) + service;
            self.free_at.push(std::cmp::Reverse(end));
            end
        }
    }

    /// Sends requests at this rate for a while and tells the estimator.
    fn drive(
        estimator: &mut Estimator,
        server: &mut Server,
        service: Duration,
        rate: f64,
        span: std::ops::Range<u64>,
    ) {
        let mut at = Duration::from_secs(span.start);
        let mut ends = Vec::new();
        while at < Duration::from_secs(span.end) {
            let service = server.exponential(service);
            ends.push((server.ends(at, service), at));
            at += server.exponential(Duration::from_secs_f64(1.0 / rate));
        }
        ends.sort();
        for (end, start) in ends {
            estimator.succeeded(end - start, false, end);
        }
    }

    #[test]
    fn the_estimate_converges_on_a_simulated_server() {
        for (places, service_ms) in [(1usize, 5u64), (4, 20), (16, 50)] {
            let service = Duration::from_millis(service_ms);
            let true_rate = places as f64 / service.as_secs_f64();
            let mut estimator = Estimator::new(Settings::default()).unwrap();
            let mut server = Server::new(places);
            drive(&mut estimator, &mut server, service, true_rate * 0.3, 0..60);
            let calm = estimator.estimate(None, Duration::from_secs(60)).unwrap();
            assert!(calm.confidence < 0.4, "{places} places, no overload: {calm:?}");
            assert!(calm.requests_per_second < true_rate * 0.6, "{calm:?}");

            drive(&mut estimator, &mut server, service, true_rate * 1.5, 60..100);
            let now = Duration::from_secs(100);
            let estimate = estimator.estimate(None, now).unwrap();
            let ratio = estimate.requests_per_second / true_rate;
            assert!((0.9..1.1).contains(&ratio), "{places} places: {estimate:?}, {ratio}");
            let off = f64::from(estimate.slots) / places as f64;
            assert!((0.75..1.5).contains(&off), "{places} places: {estimate:?}");
            assert!(estimate.confidence > 0.8 && estimate.saturated, "{estimate:?}");
            assert!(estimate.headroom(true_rate * 0.5) > 0.4);
        }
    }

    #[test]
    fn a_target_that_turns_slower_is_found_out_when_it_is_saturated() {
        let service = Duration::from_millis(20);
        let mut estimator = Estimator::new(Settings::default()).unwrap();
        let mut server = Server::new(4);
        drive(&mut estimator, &mut server, service, 60.0, 0..60);
        drive(&mut estimator, &mut server, service, 300.0, 60..90);
        // The queue of the overload is gone before the target turns slower.
        let mut server = Server::new(4);
        drive(&mut estimator, &mut server, service * 2, 150.0, 200..260);
        let estimate = estimator.estimate(None, Duration::from_secs(260)).unwrap();
        assert!((85.0..115.0).contains(&estimate.requests_per_second), "{estimate:?}");
    }

    #[test]
    fn a_target_at_its_limit_is_saturated_although_it_stays_quick() {
        let mut estimator = Estimator::new(Settings::default()).unwrap();
        for step in 0..1_000u32 {
            estimator.succeeded(Duration::from_millis(40), true, Duration::from_millis(10) * step);
        }
        let estimate = estimator.estimate(Some(4), Duration::from_secs(10)).unwrap();
        assert!((99.0..101.0).contains(&estimate.requests_per_second), "{estimate:?}");
        assert_eq!(estimate.slots, 4);
        assert!(estimate.confidence > 0.7);
        let much_later = Duration::from_secs(10) + Settings::default().memory * 10;
        assert!(estimator.estimate(Some(4), much_later).unwrap().confidence < 0.01);
    }

    #[test]
    fn there_is_no_estimate_before_the_first_full_interval() {
        let mut estimator = Estimator::new(Settings::default()).unwrap();
        for step in 0..100 {
            estimator.succeeded(Duration::from_millis(1), false, Duration::from_secs(step));
        }
        assert_eq!(estimator.estimate(None, Duration::from_secs(100)), None);
        estimator.succeeded(Duration::from_millis(1), false, Duration::from_secs(100));
        assert_eq!(estimator.estimate(None, Duration::from_secs(100)).unwrap().slots, 1);
    }

    #[test]
    fn nonsense_is_refused() {
        let bad = [
            Settings { interval: Duration::ZERO, ..Settings::default() },
            Settings { successes_min: 0, ..Settings::default() },
            Settings { saturation_ratio: 1.0, ..Settings::default() },
            Settings { gain: f64::NAN, ..Settings::default() },
            Settings { memory: Duration::ZERO, ..Settings::default() },
        ];
        for settings in bad {
            let error = Estimator::new(settings).unwrap_err();
            assert!(error.to_string().contains("`capacity."), "{error}");
        }
    }
}
