//! Decides by load: the target that would have the fewest requests in flight for its weight with one more.
//!
//! Does not know latency or errors. The score is (in flight + 1) / weight, so of idle targets the heavier goes
//! first and a target of weight 2 carries twice as much. All targets are looked at, from the one behind the last
//! pick on: equal ones take turns. An idle target of the highest weight cannot be beaten and ends the search.
//!
//! Why: with one balancer the counts are true, and joining the shortest queue is then close to the best that can be
//! done (Winston, 1977). With many balancers each sees only its own requests: prefer join-idle there. At first
//! start it is round robin, from a place that the seed sets so that several balancers do not walk in step.

use std::time::Duration;

use super::choose;
use crate::policy::{Pick, Policy, Request, View};

/// Picks the least loaded.
#[derive(Clone, Debug)]
pub struct LeastConnections {
    cursor: usize,
    /// The floor holds for this epoch of the view.
    epoch: Option<u64>,
    /// The score of an idle target of the highest weight.
    floor: f64,
}

impl LeastConnections {
    /// Starts to look at a place that the seed sets.
    pub fn new(seed: u64) -> Self {
        let cursor = fastrand::Rng::with_seed(seed).u32(..) as usize;
        Self { cursor, epoch: None, floor: 0.0 }
    }

    fn follow(&mut self, view: &View<'_>) {
        if self.epoch == Some(view.epoch) {
            return;
        }
        self.epoch = Some(view.epoch);
        let heaviest = view.up().map(|target| target.spec.weight).fold(0.0, f64::max);
        self.floor = 1.0 / heaviest;
    }
}

impl Policy for LeastConnections {
    fn name(&self) -> &'static str {
        "least-connections"
    }

    fn pick(&mut self, request: &Request<'_>, view: &View<'_>, _now: Duration) -> Pick {
        self.follow(view);
        let score = choose::load_with_one_more;
        let (pick, next) = choose::lowest_in_turn(request, view, self.cursor, self.floor, score);
        self.cursor = next;
        pick
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Balancer, TargetId, TargetSpec};

    fn balancer(weights: &[f64]) -> (Balancer<LeastConnections>, Vec<TargetId>) {
        let mut balancer = Balancer::new(LeastConnections::new(1));
        let specs = weights
            .iter()
            .enumerate()
            .map(|(index, weight)| TargetSpec::new(index.to_string()).weight(*weight));
        let ids = specs.map(|spec| balancer.add(spec, Duration::ZERO).unwrap()).collect();
        (balancer, ids)
    }

    #[test]
    fn idle_targets_take_turns_so_that_none_is_favoured() {
        let (mut balancer, ids) = balancer(&[1.0; 5]);
        let mut counts = [0; 5];
        for _ in 0..50 {
            let id = balancer.pick(&Request::default(), Duration::ZERO).first().unwrap();
            counts[ids.iter().position(|other| *other == id).unwrap()] += 1;
        }
        assert_eq!(counts, [10; 5]);
    }

    #[test]
    fn loads_settle_in_proportion_to_weight() {
        let (mut balancer, ids) = balancer(&[1.0, 2.0, 4.0]);
        for _ in 0..70 {
            balancer.assign(&Request::default(), Duration::ZERO);
        }
        let loads = ids.iter().map(|id| balancer.targets().get(*id).unwrap().in_flight);
        assert_eq!(loads.collect::<Vec<_>>(), [10, 20, 40]);
    }

    proptest! {
        #[test]
        fn the_pick_is_a_minimum(
            weights in prop::collection::vec(1u8..5, 1..10),
            loads in prop::collection::vec(0u32..6, 10),
        ) {
            let floats: Vec<f64> = weights.iter().map(|weight| f64::from(*weight)).collect();
            let (mut balancer, ids) = balancer(&floats);
            for (id, load) in ids.iter().zip(loads) {
                (0..load).for_each(|_| balancer.start(*id, Duration::ZERO));
            }
            for _ in 0..20 {
                let id = balancer.pick(&Request::default(), Duration::ZERO).first().unwrap();
                let score = |id: TargetId| {
                    choose::load_with_one_more(balancer.targets().get(id).unwrap())
                };
                prop_assert!(ids.iter().all(|other| score(id) <= score(*other)));
                balancer.start(id, Duration::ZERO);
            }
        }
    }
}
