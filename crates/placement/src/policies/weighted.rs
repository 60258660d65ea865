//! Decides by turns in proportion to weight: smooth weighted round robin, as in nginx.
//!
//! Does not know loads or speeds. Every target has a balance. A pick adds to each target that fits its weight, takes
//! the one with the highest balance and subtracts from it all that was added. So over a cycle (as many picks as the
//! sum of the weights over their common divisor) each target is picked exactly in proportion, and a heavy target's
//! turns are spread over the cycle instead of following each other.
//!
//! Weights are kept as whole numbers of 1/10,000, so nothing is lost to rounding; a smaller weight counts as
//! 1/10,000. A weight may change at any time: the balance of that target is scaled with it. Balances survive other
//! changes, because starting over each time would starve light targets among restless ones; they are only cut to a
//! bound, so that a debt from the days of a heavy neighbour cannot keep a target waiting.
//!
//! Why: weights that are true need no measuring. At first start all balances are 0 and the heaviest goes first.
//! The rule is from nginx (`ngx_http_upstream_round_robin`, 2012).

use std::time::Duration;

use super::choose;
use super::slots::BySlot;
use crate::policy::{Event, Pick, Policy, Request, View};
use crate::target::{Target, TargetId};

/// One whole weight in the numbers that are counted with.
const SCALE: f64 = 10_000.0;

/// The highest balance that is kept when the targets change, in sums of all weights. Taking always from the fullest
/// of n cups leaves at most the n-th harmonic number in one, which is below 15 for as many targets as there can be.
const BALANCE_MAX: i64 = 16;

/// Takes turns by weight.
#[derive(Clone, Debug, Default)]
pub struct Weighted {
    shares: BySlot<Share>,
    /// The balances were last cut to their bound in this epoch of the view.
    epoch: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    weight: i64,
    balance: i64,
}

impl Weighted {
    /// All balances are 0.
    pub fn new() -> Self {
        Self::default()
    }

    fn weigh(&mut self, target: &Target) {
        let weight = scaled(target);
        let share = self.shares.at(target.id);
        if share.weight != weight && share.weight > 0 {
            let balance = i128::from(share.balance) * i128::from(weight) / i128::from(share.weight);
            share.balance = balance as i64;
        }
        share.weight = weight;
    }

    fn follow(&mut self, view: &View<'_>) {
        if self.epoch == Some(view.epoch) {
            return;
        }
        self.epoch = Some(view.epoch);
        let total: i64 = view.up().map(scaled).sum();
        for target in view.up() {
            self.weigh(target);
            let share = self.shares.at(target.id);
            share.balance = share.balance.clamp(-total, BALANCE_MAX * total);
        }
    }

    /// What each target that fits would get of `count` requests, and how it stands then; `total` is the sum of
    /// their weights. None if a limit is in the way.
    fn quotas(
        &self,
        request: &Request<'_>,
        view: &View<'_>,
        count: u32,
        total: i128,
    ) -> Option<Vec<Quota>> {
        let mut left = count;
        let mut quotas = Vec::new();
        for target in view.fitting(request) {
            let share = self.shares.get(target.id);
            let due = i128::from(share.balance) + i128::from(count) * i128::from(share.weight);
            let given = (due / total).clamp(0, i128::from(left)) as u32;
            left -= given;
            let balance = due - i128::from(given) * total;
            quotas.push(Quota { id: target.id, given, balance });
        }
        // The rest goes to those to whom most is due; it is less than one each, or nearly so.
        while left > 0 {
            quotas.sort_by(|a, b| b.balance.cmp(&a.balance).then(a.id.cmp(&b.id)));
            let served = quotas.len().min(left as usize);
            for quota in &mut quotas[..served] {
                quota.given += 1;
                quota.balance -= total;
            }
            left -= served as u32;
        }
        let has_room = |quota: &Quota| {
            let target = &view.targets[quota.id.slot()];
            let room = target.spec.limit.map(|limit| limit.saturating_sub(target.in_flight));
            room.is_none_or(|room| quota.given <= room)
        };
        quotas.iter().all(has_room).then_some(quotas)
    }
}

struct Quota {
    id: TargetId,
    given: u32,
    balance: i128,
}

impl Policy for Weighted {
    fn name(&self) -> &'static str {
        "weighted"
    }

    fn pick(&mut self, request: &Request<'_>, view: &View<'_>, _now: Duration) -> Pick {
        self.follow(view);
        let mut total = 0;
        for target in view.fitting(request) {
            let share = self.shares.at(target.id);
            share.balance += share.weight;
            total += share.weight;
        }
        let shares = &self.shares;
        let pick = choose::each(request, view, |candidates| {
            let highest = |target: &Target| -(shares.get(target.id).balance as f64);
            candidates.lowest(0, f64::NEG_INFINITY, highest).map(|(_, target)| target.id)
        });
        if let Some(id) = pick.first() {
            self.shares.at(id).balance -= total;
        }
        pick
    }

    fn on_event(&mut self, event: &Event<'_>, _now: Duration) {
        match event {
            Event::Joined(target) => {
                self.shares.reset(target.id);
                self.weigh(target);
            }
            Event::Left(target) => self.shares.reset(target.id),
            Event::Changed(target) => self.weigh(target),
            Event::Started(_) | Event::Finished { .. } | Event::Idle(_) => {}
        }
    }

    fn pick_many(
        &mut self,
        request: &Request<'_>,
        view: &View<'_>,
        count: u32,
        shares: &mut [u32],
        _now: Duration,
    ) -> u32 {
        self.follow(view);
        let weights = view.fitting(request).map(|target| self.shares.get(target.id).weight);
        let total: i128 = weights.map(i128::from).sum();
        if total == 0 {
            return 0;
        }
        let Some(quotas) = self.quotas(request, view, count, total) else {
            return 0;
        };
        for quota in quotas {
            shares[quota.id.slot()] += quota.given;
            self.shares.at(quota.id).balance = quota.balance as i64;
        }
        count
    }
}

fn scaled(target: &Target) -> i64 {
    ((target.spec.weight * SCALE).round() as i64).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Balancer, TargetSpec};

    fn balancer(weights: &[f64]) -> (Balancer<Weighted>, Vec<TargetId>) {
        let mut balancer = Balancer::new(Weighted::new());
        let specs = weights
            .iter()
            .enumerate()
            .map(|(index, weight)| TargetSpec::new(index.to_string()).weight(*weight));
        let ids = specs.map(|spec| balancer.add(spec, Duration::ZERO).unwrap()).collect();
        (balancer, ids)
    }

    fn picks(balancer: &mut Balancer<Weighted>, ids: &[TargetId], count: usize) -> Vec<usize> {
        let mut pick = || balancer.pick(&Request::default(), Duration::ZERO).first().unwrap();
        (0..count)
            .map(|_| pick())
            .map(|id| ids.iter().position(|other| *other == id).unwrap())
            .collect()
    }

    fn counts(picks: &[usize], targets: usize) -> Vec<usize> {
        (0..targets).map(|target| picks.iter().filter(|pick| **pick == target).count()).collect()
    }

    #[test]
    fn the_order_is_that_of_nginx() {
        let (mut balancer, ids) = balancer(&[5.0, 1.0, 1.0]);
        assert_eq!(picks(&mut balancer, &ids, 7), [0, 0, 1, 0, 2, 0, 0]);
    }

    #[test]
    fn fractions_are_exact_over_a_cycle() {
        let (mut balancer, ids) = balancer(&[1.0, 2.0, 0.5]);
        for _ in 0..100 {
            assert_eq!(counts(&picks(&mut balancer, &ids, 7), 3), [2, 4, 1]);
        }
    }

    #[test]
    fn a_light_target_does_not_wait_for_the_debt_of_a_heavy_neighbour() {
        let (mut balancer, ids) = balancer(&[1.0, 1.0, 1_000_000.0]);
        // In the middle of the cycle a light one is picked and owes nearly the whole sum.
        let until_light = (0..1_000_002)
            .find(|_| balancer.pick(&Request::default(), Duration::ZERO).first() != Some(ids[2]));
        assert!(until_light.is_some());
        balancer.remove(ids[2], Duration::ZERO).unwrap();
        let found = counts(&picks(&mut balancer, &ids, 100), 2);
        assert!(found.iter().all(|count| *count >= 30), "{found:?}");
    }

    #[test]
    fn scaling_all_weights_down_does_not_stop_the_turns() {
        let (mut balancer, ids) = balancer(&[1_000_000.0, 1_000_000.0]);
        picks(&mut balancer, &ids, 1);
        for id in &ids {
            balancer.set_weight(*id, 1.0, Duration::ZERO).unwrap();
        }
        assert_eq!(counts(&picks(&mut balancer, &ids, 100), 2), [50, 50]);
    }

    proptest! {
        #[test]
        fn every_cycle_is_exact(weights in prop::collection::vec(1u32..30, 1..8), cycles in 1usize..4) {
            let floats: Vec<f64> = weights.iter().map(|weight| f64::from(*weight)).collect();
            let (mut balancer, ids) = balancer(&floats);
            let cycle: u32 = weights.iter().sum();
            for _ in 0..cycles {
                let found = counts(&picks(&mut balancer, &ids, cycle as usize), ids.len());
                let wanted: Vec<usize> = weights.iter().map(|weight| *weight as usize).collect();
                prop_assert_eq!(found, wanted);
            }
        }

        #[test]
        fn after_any_changes_shares_follow_the_new_weights(
            changes in prop::collection::vec((0usize..4, 1u32..10, 0usize..12), 0..12),
        ) {
            let (mut balancer, ids) = balancer(&[1.0; 4]);
            let mut weights = [1u32; 4];
            for (index, weight, between) in changes {
                picks(&mut balancer, &ids, between);
                balancer.set_weight(ids[index], f64::from(weight), Duration::ZERO).unwrap();
                weights[index] = weight;
            }
            let cycle: u32 = weights.iter().sum();
            let found = counts(&picks(&mut balancer, &ids, 50 * cycle as usize), 4);
            for (count, weight) in found.iter().zip(weights) {
                // What was owed before the changes may add or take a few turns, and no more.
                let wanted = 50 * i64::from(weight);
                prop_assert!((*count as i64 - wanted).abs() <= 3 * i64::from(weight).max(4), "{found:?} {weights:?}");
            }
        }

        #[test]
        fn batches_and_picks_together_are_exact_over_a_cycle(
            weights in prop::collection::vec(1u32..10, 1..6),
            parts in prop::collection::vec(1u32..9, 1..30),
        ) {
            let floats: Vec<f64> = weights.iter().map(|weight| f64::from(*weight)).collect();
            let (mut balancer, ids) = balancer(&floats);
            let cycle: u32 = weights.iter().sum();
            let mut left = cycle * 3;
            for (index, part) in parts.iter().cycle().enumerate() {
                let part = (*part).min(left);
                if index % 3 == 0 {
                    (0..part).for_each(|_| { balancer.assign(&Request::default(), Duration::ZERO); });
                } else {
                    prop_assert_eq!(balancer.assign_many(&Request::default(), part, Duration::ZERO).left, 0);
                }
                left -= part;
                if left == 0 { break; }
            }
            for (id, weight) in ids.iter().zip(weights) {
                prop_assert_eq!(balancer.targets().get(*id).unwrap().in_flight, 3 * weight);
            }
        }
    }
}
