//! Decides by chance: every target that fits is equally likely.
//!
//! Does not know weights, loads or history; it keeps nothing but its generator.
//!
//! Why: the yardstick that every other policy has to beat, and the only one that many balancers can use without
//! herding and without any state. Its weakness is known: with n requests on n targets the fullest one has about
//! ln n / ln ln n of them (Raab and Steger, 1998). At first start it is as good as ever.

use std::time::Duration;

use super::choose;
use crate::policy::{Pick, Policy, Request, View};

/// Picks at random.
#[derive(Clone, Debug)]
pub struct Random {
    rng: fastrand::Rng,
}

impl Random {
    /// Draws from a generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self { rng: fastrand::Rng::with_seed(seed) }
    }
}

impl Policy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn pick(&mut self, request: &Request<'_>, view: &View<'_>, _now: Duration) -> Pick {
        choose::each(request, view, |candidates| {
            candidates.any(&mut self.rng).map(|target| target.id)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Balancer, TargetSpec};

    #[test]
    fn each_target_that_fits_is_equally_likely_even_if_few_fit() {
        // With 2 of 40 left, most draws miss: the fair fallback decides.
        for down in [0, 38] {
            let mut balancer = Balancer::new(Random::new(7));
            let mut ids = Vec::new();
            for index in 0..40 {
                let spec = TargetSpec::new(index.to_string()).limit(100_000);
                ids.push(balancer.add(spec, Duration::ZERO).unwrap());
            }
            for id in &ids[..down] {
                balancer.set_limit(*id, Some(0), Duration::ZERO).unwrap();
            }
            let left = (40 - down) as u32;
            for _ in 0..1_000 * left {
                balancer.assign(&Request::default(), Duration::ZERO);
            }
            for id in &ids[down..] {
                let share = balancer.targets().get(*id).unwrap().in_flight;
                assert!((850..1_150).contains(&share), "{share} of 1000 with {left} left");
            }
        }
    }
}
