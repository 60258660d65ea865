//! Decides by the time to get through: what a target has to do over what it can do, as measured.
//!
//! Does not know why a target is fast or slow. What it has to do is what is in flight and what it says is queued,
//! and the new request. What it can do, its *capacity* in requests per second, follows from Little's law (1961): the
//! mean number of requests in a target is their rate times the mean time that each spends there, so the rate is the
//! one over the other. Both means are moving averages, taken when a request ends; the share that succeeds scales the
//! rate, so a target that fails fast has little capacity. The weight of a target counts only until it is measured.
//!
//! Why not the highest rate seen: a target that gets little work shows a low rate and would get less and less. By
//! Little's law a target that handles one request after the other shows its true rate at any load. One that works
//! in parallel shows a lower rate while it is idle, and even then its score is its true latency.
//!
//! At first start targets are taken by weight; as soon as one is measured, the others are thought to be like it, per
//! weight. A target that was not asked for a while counts as not measured, for one request.

use std::time::Duration;

use super::choose;
use super::error::{Check, Error};
use super::slots::BySlot;
use crate::policy::{Event, Outcome, Pick, Policy, Request, View};
use crate::target::Target;

const NAME: &str = "load-aware";

/// The least share of success that capacity is scaled by: a target that always fails must still be measurable.
const SUCCESS_MIN: f64 = 0.01;

/// The shortest latency that is believed.
const SECONDS_MIN: f64 = 1e-9;

/// The settings of [`LoadAware`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How much the newest answer counts, above 0 and at most 1.
    pub alpha: f64,
    /// After this time without a request a target is measured anew.
    pub forget_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { alpha: 0.1, forget_after: Duration::from_secs(10) }
    }
}

/// Picks the target that gets through soonest.
#[derive(Clone, Debug)]
pub struct LoadAware {
    settings: Settings,
    measured: BySlot<Measured>,
    /// Requests per second that a target of weight 1 handles, over all targets; none before the first answer.
    typical: Option<f64>,
    cursor: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    answers: u32,
    /// Mean number of requests in the target.
    present: f64,
    /// Mean time that a request spends there.
    seconds: f64,
    /// Mean share that ends well.
    success: f64,
    touched: Duration,
}

impl Measured {
    fn capacity(&self) -> Option<f64> {
        let rate = self.success.max(SUCCESS_MIN) * self.present / self.seconds;
        (self.answers > 0).then_some(rate)
    }
}

impl LoadAware {
    /// Checks the settings; the seed sets where it starts to look.
    pub fn new(settings: Settings, seed: u64) -> Result<Self, Error> {
        let check = Check(NAME);
        check.share("alpha", settings.alpha)?;
        check.span("forget_after", settings.forget_after)?;
        let cursor = fastrand::Rng::with_seed(seed).u32(..) as usize;
        Ok(Self { settings, measured: BySlot::default(), typical: None, cursor })
    }

    /// The capacity of a target in requests per second, as estimated; none before its first answer.
    pub fn capacity(&self, target: &Target) -> Option<f64> {
        self.measured.get(target.id).capacity()
    }

    fn score(&self, target: &Target, now: Duration) -> f64 {
        let measured = self.measured.get(target.id);
        let silent = now.saturating_sub(measured.touched) >= self.settings.forget_after;
        let forgotten = target.in_flight == 0 && silent;
        let capacity = measured.capacity().filter(|_| !forgotten);
        let capacity = capacity.unwrap_or_else(|| self.typical.unwrap_or(1.0) * target.spec.weight);
        (f64::from(target.in_flight) + f64::from(target.queued) + 1.0) / capacity
    }

    fn measure(&mut self, target: &Target, latency: Duration, outcome: Outcome) {
        let success = match outcome {
            Outcome::Cancelled => return,
            Outcome::Success => 1.0,
            Outcome::Failure => 0.0,
        };
        let measured = self.measured.at(target.id);
        // The mean of the first answers is the plain one, so that the very first does not weigh for long.
        measured.answers = measured.answers.saturating_add(1);
        let alpha = self.settings.alpha.max(1.0 / f64::from(measured.answers));
        let seconds = latency.as_secs_f64().max(SECONDS_MIN);
        let present = f64::from(target.in_flight) + 1.0;
        measured.present += alpha * (present - measured.present);
        measured.seconds += alpha * (seconds - measured.seconds);
        measured.success += alpha * (success - measured.success);
        if let Some(capacity) = measured.capacity() {
            let rate = capacity / target.spec.weight;
            let typical = self.typical.unwrap_or(rate);
            self.typical = Some(typical + self.settings.alpha * (rate - typical));
        }
    }
}

impl Policy for LoadAware {
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
        match event {
            Event::Joined(target) | Event::Left(target) => self.measured.reset(target.id),
            Event::Started(target) => self.measured.at(target.id).touched = now,
            Event::Finished { target, latency, outcome } => {
                self.measured.at(target.id).touched = now;
                self.measure(target, *latency, *outcome);
            }
            Event::Changed(_) | Event::Idle(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Balancer, TargetId, TargetSpec};

    const MS: Duration = Duration::from_millis(1);

    fn balancer(weights: [f64; 2]) -> (Balancer<LoadAware>, [TargetId; 2]) {
        let mut balancer = Balancer::new(LoadAware::new(Settings::default(), 5).unwrap());
        let ids = weights.map(|weight| {
            let name = format!("{weight} {}", balancer.targets().len());
            balancer.add(TargetSpec::new(name).weight(weight), MS).unwrap()
        });
        (balancer, ids)
    }

    fn capacity(balancer: &Balancer<LoadAware>, id: TargetId) -> f64 {
        balancer.policy().capacity(balancer.targets().get(id).unwrap()).unwrap()
    }

    #[test]
    fn a_serial_target_shows_its_true_rate_at_any_load() {
        for queue in [1, 4, 16] {
            let (mut balancer, [a, _]) = balancer([1.0, 1.0]);
            (0..queue).for_each(|_| balancer.start(a, MS));
            // One after the other at 10 ms each: with so many before it, each spends queue × 10 ms there.
            for _ in 0..100 {
                balancer.finish(a, 10 * MS * queue, Outcome::Success, MS);
                balancer.start(a, MS);
            }
            assert!((capacity(&balancer, a) - 100.0).abs() < 1.0, "{queue}");
        }
    }

    #[test]
    fn load_settles_in_proportion_to_measured_capacity() {
        let (mut balancer, [fast, slow]) = balancer([1.0, 1.0]);
        for (id, ms) in [(fast, 10), (slow, 30)] {
            balancer.start(id, MS);
            balancer.finish(id, MS * ms, Outcome::Success, MS);
        }
        for _ in 0..40 {
            balancer.assign(&Request::default(), MS);
        }
        let load = |id| balancer.targets().get(id).unwrap().in_flight;
        assert_eq!((load(fast), load(slow)), (30, 10));
    }

    #[test]
    fn a_reported_queue_counts_and_weights_count_until_measured() {
        let (mut balancer, [light, heavy]) = balancer([1.0, 3.0]);
        for _ in 0..40 {
            balancer.assign(&Request::default(), MS);
        }
        let load =
            |balancer: &Balancer<LoadAware>, id| balancer.targets().get(id).unwrap().in_flight;
        assert_eq!((load(&balancer, light), load(&balancer, heavy)), (10, 30));
        balancer.set_queued(heavy, 30, MS).unwrap();
        for _ in 0..10 {
            assert_eq!(balancer.assign(&Request::default(), MS).first(), Some(light));
        }
    }

    #[test]
    fn a_target_that_fails_fast_has_little_capacity_and_is_tried_again_later() {
        let (mut balancer, [good, bad]) = balancer([1.0, 1.0]);
        for _ in 0..200 {
            for (id, ms, outcome) in [(good, 20, Outcome::Success), (bad, 1, Outcome::Failure)] {
                balancer.start(id, MS);
                balancer.finish(id, MS * ms, outcome, MS);
            }
        }
        assert!(capacity(&balancer, bad) < capacity(&balancer, good));
        assert_eq!(balancer.pick(&Request::default(), MS).first(), Some(good));
        let later = Duration::from_secs(20);
        balancer.start(good, later);
        assert_eq!(balancer.assign(&Request::default(), later).first(), Some(bad));
        // The try is out: the failing target is judged by what is known again.
        assert_eq!(balancer.assign(&Request::default(), later).first(), Some(good));
    }

    #[test]
    fn settings_that_make_no_sense_are_refused_by_name() {
        let sane = Settings::default();
        for (settings, field) in [
            (Settings { alpha: f64::NAN, ..sane }, "alpha"),
            (Settings { alpha: 2.0, ..sane }, "alpha"),
            (Settings { forget_after: Duration::ZERO, ..sane }, "forget_after"),
        ] {
            let error = LoadAware::new(settings, 0).unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
    }
}
