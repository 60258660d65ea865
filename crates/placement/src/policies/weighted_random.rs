//! Decides by chance in proportion to weight: a target of weight 2 is twice as likely as one of weight 1.
//!
//! Does not know loads. The running sums of the weights are built anew when the set of targets or a weight changes;
//! a draw is one binary search in them. If a few draws hit only targets that do not fit, the weights of those that
//! fit are added up and one draw decides.
//!
//! Why: shares follow the weights without a cursor, so many balancers need no common state. Smooth weighted round
//! robin ([`super::Weighted`]) is exact where this is right on average. At first start it is as good as ever.

use std::time::Duration;

use super::choose;
use crate::policy::{Pick, Policy, Request, View};

/// Picks at random, by weight.
#[derive(Clone, Debug)]
pub struct WeightedRandom {
    rng: fastrand::Rng,
    /// The sums hold for this epoch of the view.
    epoch: Option<u64>,
    /// At each position among the targets that are up: the weights up to and with this one.
    sums: Vec<f64>,
}

impl WeightedRandom {
    /// Draws from a generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self { rng: fastrand::Rng::with_seed(seed), epoch: None, sums: Vec::new() }
    }

    fn follow(&mut self, view: &View<'_>) {
        if self.epoch == Some(view.epoch) {
            return;
        }
        self.epoch = Some(view.epoch);
        self.sums.clear();
        let weights = view.up().map(|target| target.spec.weight);
        self.sums.extend(weights.scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        }));
    }
}

impl Policy for WeightedRandom {
    fn name(&self) -> &'static str {
        "weighted-random"
    }

    fn pick(&mut self, request: &Request<'_>, view: &View<'_>, _now: Duration) -> Pick {
        self.follow(view);
        let (rng, sums) = (&mut self.rng, &self.sums);
        let Some(total) = sums.last() else {
            return view.none_fits(request);
        };
        choose::each(request, view, |candidates| {
            let drawn = candidates.try_draws(|| {
                let point = rng.f64() * total;
                sums.partition_point(|sum| *sum <= point).min(sums.len() - 1)
            });
            let drawn = drawn.or_else(|| {
                let fitting: f64 = candidates.iter().map(|target| target.spec.weight).sum();
                let mut point = rng.f64() * fitting;
                let mut last = None;
                for target in candidates.iter() {
                    last = Some(target);
                    point -= target.spec.weight;
                    if point < 0.0 {
                        break;
                    }
                }
                last
            });
            drawn.map(|target| target.id)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Balancer, TargetId, TargetSpec};

    fn shares(balancer: &mut Balancer<WeightedRandom>, ids: &[TargetId], picks: u32) -> Vec<f64> {
        let mut counts = vec![0u32; ids.len()];
        for _ in 0..picks {
            let id = balancer.pick(&Request::default(), Duration::ZERO).first().unwrap();
            counts[ids.iter().position(|other| *other == id).unwrap()] += 1;
        }
        counts.into_iter().map(|count| f64::from(count) / f64::from(picks)).collect()
    }

    #[test]
    fn shares_follow_weights_also_after_a_change_and_when_few_fit() {
        let mut balancer = Balancer::new(WeightedRandom::new(3));
        let ids: Vec<TargetId> = [1.0, 2.0, 0.5, 1_000.0]
            .map(|weight| {
                let spec = TargetSpec::new(weight.to_string()).weight(weight);
                balancer.add(spec, Duration::ZERO).unwrap()
            })
            .into();
        // The heavy one is full, so nearly every draw misses and the fair fallback decides.
        balancer.set_limit(ids[3], Some(0), Duration::ZERO).unwrap();
        let found = shares(&mut balancer, &ids, 14_000);
        for (share, wanted) in found.iter().zip([2.0 / 7.0, 4.0 / 7.0, 1.0 / 7.0, 0.0]) {
            assert!((share - wanted).abs() < 0.03, "{found:?}");
        }
        balancer.set_weight(ids[2], 7.0, Duration::ZERO).unwrap();
        balancer.remove(ids[3], Duration::ZERO).unwrap();
        let found = shares(&mut balancer, &ids, 10_000);
        for (share, wanted) in found.iter().zip([0.1, 0.2, 0.7, 0.0]) {
            assert!((share - wanted).abs() < 0.03, "{found:?}");
        }
    }
}
