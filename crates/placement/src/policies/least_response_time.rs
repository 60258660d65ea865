//! Decides by the latency to expect: the moving average of a target, times the requests it would have, over its
//! weight.
//!
//! Does not know queues at the target or other balancers' requests. All targets are looked at; equal ones take
//! turns. A target that was never measured, or not asked for a while, is tried first, with one request only; until
//! its answer is there, it counts as like the others. Failures count as slow. With `count_in_flight` off, the
//! average alone decides, as in the textbook: every request then goes to the fastest target until it is slow.
//!
//! Why: it sees targets that are slow or far away, which counts in flight show only later. At first start each
//! target gets one request, then the others are spread by load until answers come. The average is that of Roberts
//! (1959).

use std::time::Duration;

use super::choose;
use super::error::{Check, Error};
use super::latency::{Averaging, Latencies};
use crate::policy::{Event, Pick, Policy, Request, View};
use crate::target::Target;

const NAME: &str = "least-response-time";

/// The settings of [`LeastResponseTime`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How latencies are averaged.
    pub averaging: Averaging,
    /// Whether the requests in flight count too.
    pub count_in_flight: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { averaging: Averaging::default(), count_in_flight: true }
    }
}

/// Picks the target with the lowest expected latency.
#[derive(Clone, Debug)]
pub struct LeastResponseTime {
    settings: Settings,
    latencies: Latencies,
    cursor: usize,
}

impl LeastResponseTime {
    /// Checks the settings; the seed sets where it starts to look.
    pub fn new(settings: Settings, seed: u64) -> Result<Self, Error> {
        settings.averaging.check(&Check(NAME))?;
        let cursor = fastrand::Rng::with_seed(seed).u32(..) as usize;
        Ok(Self { settings, latencies: Latencies::new(settings.averaging), cursor })
    }

    /// The average latency of a target; none before its first answer.
    pub fn average(&self, target: &Target) -> Option<Duration> {
        self.latencies.seconds(target).map(Duration::from_secs_f64)
    }

    fn score(&self, target: &Target, now: Duration) -> f64 {
        if self.latencies.is_due(target, now) {
            return 0.0;
        }
        let known = self.latencies.seconds(target);
        let seconds = known.unwrap_or_else(|| self.latencies.typical());
        // Before the first answer only the load can tell targets apart.
        if self.settings.count_in_flight || known.is_none() {
            return seconds * choose::load_with_one_more(target);
        }
        seconds / target.spec.weight
    }
}

impl Policy for LeastResponseTime {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pick(&mut self, request: &Request<'_>, view: &View<'_>, now: Duration) -> Pick {
        let score = |target: &Target| self.score(target, now);
        let (pick, next) = choose::lowest_in_turn(request, view, self.cursor, 0.0, score);
        self.cursor = next;
        pick
    }

    fn on_event(&mut self, event: &Event<'_>, now: Duration) {
        self.latencies.hear(event, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Outcome;
    use crate::{Balancer, TargetId, TargetSpec};

    const MS: Duration = Duration::from_millis(1);

    fn balancer(settings: Settings) -> (Balancer<LeastResponseTime>, [TargetId; 3]) {
        let mut balancer = Balancer::new(LeastResponseTime::new(settings, 5).unwrap());
        let ids = ["a", "b", "c"].map(|name| balancer.add(TargetSpec::new(name), MS).unwrap());
        (balancer, ids)
    }

    fn run(balancer: &mut Balancer<LeastResponseTime>, id: TargetId, ms: u32, outcome: Outcome) {
        balancer.start(id, MS);
        balancer.finish(id, MS * ms, outcome, MS);
    }

    fn pick(balancer: &mut Balancer<LeastResponseTime>, now: Duration) -> TargetId {
        balancer.pick(&Request::default(), now).first().unwrap()
    }

    #[test]
    fn the_average_follows_alpha_and_cancelled_requests_say_nothing() {
        let (mut balancer, [a, ..]) = balancer(Settings::default());
        let average = |balancer: &Balancer<LeastResponseTime>| {
            balancer.policy().average(balancer.targets().get(a).unwrap()).unwrap().as_micros()
        };
        for (ms, outcome, wanted) in [
            (100, Outcome::Success, 100_000),
            (200, Outcome::Success, 130_000),
            (900, Outcome::Cancelled, 130_000),
            // A quick failure counts as twice the average: 0.7 × 130 + 0.3 × 260.
            (1, Outcome::Failure, 169_000),
        ] {
            run(&mut balancer, a, ms, outcome);
            assert!(average(&balancer).abs_diff(wanted) <= 1, "{wanted}");
        }
    }

    #[test]
    fn every_untested_target_is_tried_first_and_with_one_request_only() {
        let (mut balancer, ids) = balancer(Settings::default());
        run(&mut balancer, ids[0], 1, Outcome::Success);
        let mut tried: Vec<TargetId> =
            (0..2).map(|_| balancer.assign(&Request::default(), MS).first().unwrap()).collect();
        tried.sort();
        assert_eq!(tried, ids[1..]);
        // Both tries are out: the third request goes to the one that has answered.
        assert_eq!(pick(&mut balancer, MS), ids[0]);
    }

    #[test]
    fn the_fastest_is_picked_until_its_load_outweighs_its_speed() {
        let (mut balancer, ids) = balancer(Settings::default());
        for (id, ms) in ids.into_iter().zip([10, 35, 100]) {
            run(&mut balancer, id, ms, Outcome::Success);
        }
        let picks: Vec<TargetId> =
            (0..4).map(|_| balancer.assign(&Request::default(), MS).first().unwrap()).collect();
        assert_eq!(picks, [ids[0], ids[0], ids[0], ids[1]]);
    }

    #[test]
    fn without_counting_in_flight_the_average_alone_decides() {
        let settings = Settings { count_in_flight: false, ..Settings::default() };
        let (mut balancer, ids) = balancer(settings);
        for (id, ms) in ids.into_iter().zip([10, 35, 100]) {
            run(&mut balancer, id, ms, Outcome::Success);
        }
        for _ in 0..20 {
            assert_eq!(balancer.assign(&Request::default(), MS).first(), Some(ids[0]));
        }
    }

    #[test]
    fn a_slow_target_is_tried_again_after_a_while() {
        let (mut balancer, ids) = balancer(Settings::default());
        for (id, ms) in ids.into_iter().zip([10, 10, 5_000]) {
            run(&mut balancer, id, ms, Outcome::Success);
        }
        let later = Duration::from_secs(9);
        for id in &ids[..2] {
            balancer.start(*id, later);
            balancer.finish(*id, 10 * MS, Outcome::Success, later);
        }
        assert_ne!(pick(&mut balancer, later), ids[2]);
        let later = Duration::from_secs(11);
        assert_eq!(balancer.assign(&Request::default(), later).first(), Some(ids[2]));
        assert_ne!(pick(&mut balancer, later), ids[2]);
    }

    #[test]
    fn settings_that_make_no_sense_are_refused_by_name() {
        let sane = Averaging::default();
        for (averaging, field) in [
            (Averaging { alpha: 0.0, ..sane }, "alpha"),
            (Averaging { alpha: 1.1, ..sane }, "alpha"),
            (Averaging { alpha: f64::NAN, ..sane }, "alpha"),
            (Averaging { failure_factor: 0.9, ..sane }, "failure_factor"),
            (Averaging { failure_factor: f64::INFINITY, ..sane }, "failure_factor"),
            (Averaging { forget_after: Duration::ZERO, ..sane }, "forget_after"),
        ] {
            let settings = Settings { averaging, ..Settings::default() };
            let error = LeastResponseTime::new(settings, 0).unwrap_err().to_string();
            assert!(error.contains(field) && error.contains("must be"), "{error}");
        }
    }
}
