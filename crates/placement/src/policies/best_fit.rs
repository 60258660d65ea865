//! Decides by score: how well a target matches what is needed, how long its queue is, and how it did before.
//!
//! Does not know latency. Only targets that can do what the request needs are scored:
//!
//! > score = skill match − queue length / 10 + success rate × history weight − cost terms
//!
//! - *Skill match* is the mean of needed over offered amounts: 1 where a target offers just what is needed, less
//!   where it could do more, so that rare abilities stay free for those who need them. Without needs it is 1.
//! - *Queue length* is what is in flight and what the target says is queued.
//! - *Success rate* is a moving average per target; 1 before the first answer, so that new targets are tried.
//! - *Price* is `price_hour / speed` and *energy* is `(watts_busy − watts_idle) / speed`: what the work costs there
//!   beyond what the target costs when it does nothing. Their weights are 0 unless set.
//!
//! Targets with equal scores take turns. Why: work that needs special abilities cannot be placed by load alone, and
//! a sum of terms with weights can be read and explained. At first start match and queue decide.

use std::time::Duration;

use super::choose;
use super::error::{Check, Error};
use super::slots::BySlot;
use crate::policy::{Event, Outcome, Pick, Policy, Request, View};
use crate::target::Target;

const NAME: &str = "best-fit";

/// The settings of [`BestFit`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How much the success rate counts, from 0 to 1.
    pub history_weight: f64,
    /// How much the newest answer counts in the success rate, above 0 and at most 1.
    pub alpha: f64,
    /// A queue of this length costs as much as a perfect match is worth.
    pub queue_scale: f64,
    /// How much price per speed counts; 0 leaves it out.
    pub price_weight: f64,
    /// How much energy per speed counts; 0 leaves it out.
    pub energy_weight: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            history_weight: 0.3,
            alpha: 0.1,
            queue_scale: 10.0,
            price_weight: 0.0,
            energy_weight: 0.0,
        }
    }
}

/// Picks the best match.
#[derive(Clone, Debug)]
pub struct BestFit {
    settings: Settings,
    /// The moving share of failures, so that 0 is the right start.
    failures: BySlot<f64>,
    cursor: usize,
}

impl BestFit {
    /// Checks the settings; the seed sets where it starts to look.
    pub fn new(settings: Settings, seed: u64) -> Result<Self, Error> {
        let check = Check(NAME);
        let history = settings.history_weight;
        check.that((0.0..=1.0).contains(&history), "history_weight", history, "from 0 to 1")?;
        check.share("alpha", settings.alpha)?;
        let scale = settings.queue_scale;
        check.that(scale.is_finite() && scale > 0.0, "queue_scale", scale, "above 0")?;
        check.at_least("price_weight", settings.price_weight, 0.0, "0 or more")?;
        check.at_least("energy_weight", settings.energy_weight, 0.0, "0 or more")?;
        let cursor = fastrand::Rng::with_seed(seed).u32(..) as usize;
        Ok(Self { settings, failures: BySlot::default(), cursor })
    }

    /// The success rate of a target, from 0 to 1.
    pub fn success_rate(&self, target: &Target) -> f64 {
        1.0 - self.failures.get(target.id)
    }

    /// The score of a target for a request that it can take: the highest is picked.
    pub fn score(&self, request: &Request<'_>, target: &Target) -> f64 {
        let settings = &self.settings;
        let queue = f64::from(target.in_flight) + f64::from(target.queued);
        let mut score = skill_match(request, target) - queue / settings.queue_scale
            + self.success_rate(target) * settings.history_weight;
        // A target that costs nothing must not lose by a speed that was never set, nor by 0 times infinity.
        let cost = &target.spec.cost;
        if settings.price_weight > 0.0 && cost.price_hour > 0.0 {
            score -= settings.price_weight * cost.price_hour / cost.speed;
        }
        let watts = cost.watts_busy - cost.watts_idle;
        if settings.energy_weight > 0.0 && watts > 0.0 {
            score -= settings.energy_weight * watts / cost.speed;
        }
        score
    }
}

/// The mean of needed over offered amounts; 1 if nothing is needed.
fn skill_match(request: &Request<'_>, target: &Target) -> f64 {
    if request.needs.is_empty() {
        return 1.0;
    }
    let matches = request.needs.iter().map(|(name, needed)| {
        let offered = target.spec.capabilities.get(*name).copied().unwrap_or_default();
        if offered > 0.0 { (needed / offered).clamp(0.0, 1.0) } else { 1.0 }
    });
    matches.sum::<f64>() / request.needs.len() as f64
}

impl Policy for BestFit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pick(&mut self, request: &Request<'_>, view: &View<'_>, _now: Duration) -> Pick {
        let score = |target: &Target| -self.score(request, target);
        let (pick, next) =
            choose::lowest_in_turn(request, view, self.cursor, f64::NEG_INFINITY, score);
        self.cursor = next;
        pick
    }

    fn on_event(&mut self, event: &Event<'_>, _now: Duration) {
        match event {
            Event::Joined(target) | Event::Left(target) => self.failures.reset(target.id),
            Event::Finished { target, outcome, .. } => {
                let failed = match outcome {
                    Outcome::Cancelled => return,
                    Outcome::Success => 0.0,
                    Outcome::Failure => 1.0,
                };
                let failures = self.failures.at(target.id);
                *failures += self.settings.alpha * (failed - *failures);
            }
            Event::Changed(_) | Event::Started(_) | Event::Idle(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Cost;
    use crate::{Balancer, TargetId, TargetSpec};

    const NOW: Duration = Duration::ZERO;

    fn balancer(settings: Settings) -> Balancer<BestFit> {
        Balancer::new(BestFit::new(settings, 8).unwrap())
    }

    fn score(balancer: &Balancer<BestFit>, request: &Request<'_>, id: TargetId) -> f64 {
        balancer.policy().score(request, balancer.targets().get(id).unwrap())
    }

    #[test]
    fn the_score_is_the_formula() {
        // Needs; offered gpu and ram; in flight; queued; failures of 1 answer; score.
        type Row = (&'static [(&'static str, f64)], [f64; 2], u32, u32, bool, f64);
        let rows: [Row; 7] = [
            (&[], [1.0, 1.0], 0, 0, false, 1.0 + 0.3),
            (&[("gpu", 1.0)], [1.0, 9.0], 0, 0, false, 1.0 + 0.3),
            (&[("gpu", 1.0)], [4.0, 9.0], 0, 0, false, 0.25 + 0.3),
            (&[("gpu", 1.0), ("ram", 8.0)], [2.0, 8.0], 0, 0, false, 0.75 + 0.3),
            (&[], [1.0, 1.0], 3, 2, false, 1.0 - 0.5 + 0.3),
            (&[], [1.0, 1.0], 0, 0, true, 1.0 + 0.9 * 0.3),
            (&[("gpu", 0.0)], [0.0, 1.0], 15, 0, true, 1.0 - 1.5 + 0.9 * 0.3),
        ];
        for (needs, [gpu, ram], in_flight, queued, failed, wanted) in rows {
            let mut balancer = balancer(Settings::default());
            let spec = TargetSpec::new("a").capability("gpu", gpu).capability("ram", ram);
            let id = balancer.add(spec, NOW).unwrap();
            if failed {
                balancer.start(id, NOW);
                balancer.finish(id, NOW, Outcome::Failure, NOW);
            }
            (0..in_flight).for_each(|_| balancer.start(id, NOW));
            balancer.set_queued(id, queued, NOW).unwrap();
            let request = Request { needs, ..Request::default() };
            let found = score(&balancer, &request, id);
            assert!((found - wanted).abs() < 1e-9, "{found}, not {wanted}, for {needs:?}");
        }
    }

    #[test]
    fn rare_abilities_stay_free_until_the_queue_is_long() {
        let mut balancer = balancer(Settings::default());
        let small = balancer.add(TargetSpec::new("small").capability("gpu", 1.0), NOW).unwrap();
        let large = balancer.add(TargetSpec::new("large").capability("gpu", 2.0), NOW).unwrap();
        let plain = balancer.add(TargetSpec::new("plain"), NOW).unwrap();
        let request = Request { needs: &[("gpu", 1.0)], ..Request::default() };
        let picks: Vec<_> =
            (0..8).map(|_| balancer.assign(&request, NOW).first().unwrap()).collect();
        // The match is worth 0.5 more, which is a queue of 5.
        assert_eq!(picks[..5], [small; 5]);
        assert!(picks.contains(&large) && !picks.contains(&plain));
        let request = Request { needs: &[("gpu", 2.0)], ..Request::default() };
        assert_eq!(balancer.pick(&request, NOW).first(), Some(large));
    }

    #[test]
    fn price_and_energy_count_when_they_are_given_a_weight() {
        let dear = Cost { price_hour: 4.0, speed: 1.0, ..Cost::default() };
        let hungry = Cost { watts_idle: 100.0, watts_busy: 300.0, ..Cost::default() };
        let sane = Settings::default();
        for (cost, settings, difference) in [
            (dear, sane, 0.0),
            (dear, Settings { price_weight: 0.1, ..sane }, 0.4),
            (Cost { speed: 2.0, ..dear }, Settings { price_weight: 0.1, ..sane }, 0.2),
            (hungry, sane, 0.0),
            (hungry, Settings { energy_weight: 0.001, ..sane }, 0.2),
        ] {
            let mut balancer = balancer(settings);
            let cheap = balancer.add(TargetSpec::new("cheap"), NOW).unwrap();
            let other = balancer.add(TargetSpec::new("other").cost(cost), NOW).unwrap();
            let request = Request::default();
            let found = score(&balancer, &request, cheap) - score(&balancer, &request, other);
            assert!((found - difference).abs() < 1e-9, "{found}, not {difference}");
        }
    }

    #[test]
    fn settings_that_make_no_sense_are_refused_by_name() {
        let sane = Settings::default();
        for (settings, field) in [
            (Settings { history_weight: 1.5, ..sane }, "history_weight"),
            (Settings { alpha: 0.0, ..sane }, "alpha"),
            (Settings { queue_scale: 0.0, ..sane }, "queue_scale"),
            (Settings { price_weight: f64::NAN, ..sane }, "price_weight"),
            (Settings { energy_weight: -1.0, ..sane }, "energy_weight"),
        ] {
            let error = BestFit::new(settings, 0).unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
    }
}
