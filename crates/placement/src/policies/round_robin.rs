//! Decides by turns: each target that fits gets the next request, one after the other.
//!
//! Does not know weights, loads or speeds. The cursor stands behind the target that was picked last, so a target
//! that is full or down is passed over and its neighbour is not served twice.
//!
//! Why: exact shares from one number. The number is an atomic, so threads that share a fixed list of targets take
//! turns without a lock through [`RoundRobin::next`]. At first start the cursor stands at 0, or where the caller
//! puts it: balancers that start apart do not walk in step.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::choose;
use crate::policy::{Pick, Policy, Request, View};

/// Takes turns.
#[derive(Debug, Default)]
pub struct RoundRobin {
    cursor: AtomicU64,
}

impl RoundRobin {
    /// Starts with the first target.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts with the target at this position, counted round and round.
    pub fn starting_at(position: u64) -> Self {
        Self { cursor: AtomicU64::new(position) }
    }

    /// The next position among `count`, for many threads at once and without a lock; none if `count` is 0.
    ///
    /// The caller sees to it that all positions may be picked: this knows no targets.
    pub fn next(&self, count: usize) -> Option<usize> {
        // Only the number matters, nothing is published with it, so the weakest ordering is enough.
        let turn = self.cursor.fetch_add(1, Ordering::Relaxed);
        turn.checked_rem(count as u64).map(|position| position as usize)
    }

    fn position(&mut self, count: usize) -> usize {
        self.cursor.get_mut().checked_rem(count as u64).map_or(0, |position| position as usize)
    }
}

impl Clone for RoundRobin {
    fn clone(&self) -> Self {
        Self::starting_at(self.cursor.load(Ordering::Relaxed))
    }
}

impl Policy for RoundRobin {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    fn pick(&mut self, request: &Request<'_>, view: &View<'_>, _now: Duration) -> Pick {
        let start = self.position(view.up.len());
        choose::each(request, view, |candidates| {
            let (position, target) = candidates.lowest(start, 0.0, |_| 0.0)?;
            if candidates.is_first() {
                *self.cursor.get_mut() = position as u64 + 1;
            }
            Some(target.id)
        })
    }

    fn pick_many(
        &mut self,
        request: &Request<'_>,
        view: &View<'_>,
        count: u32,
        shares: &mut [u32],
        _now: Duration,
    ) -> u32 {
        let start = self.position(view.up.len());
        let (behind, ahead) = view.up.split_at(start);
        let in_turn = ahead.iter().chain(behind).enumerate();
        let rooms: Vec<(usize, u32, u32)> = in_turn
            .map(|(turn, slot)| (turn, *slot, &view.targets[*slot as usize]))
            .filter(|(_, _, target)| request.fits(target))
            .map(|(turn, slot, target)| (turn, slot, room(target.spec.limit, target.in_flight)))
            .collect();
        let level = level(&rooms, count);
        let mut left = count;
        for (_, slot, room) in &rooms {
            let share = level.min(*room);
            shares[*slot as usize] += share;
            left -= share;
        }
        // Fewer are left than targets with room above the level: these get one more each, in turn.
        for (turn, slot, _) in rooms.iter().filter(|(_, _, room)| *room > level) {
            if left == 0 {
                break;
            }
            shares[*slot as usize] += 1;
            left -= 1;
            *self.cursor.get_mut() = (start + turn + 1) as u64;
        }
        count - left
    }
}

fn room(limit: Option<u32>, in_flight: u32) -> u32 {
    limit.map_or(u32::MAX, |limit| limit.saturating_sub(in_flight))
}

/// The most that every target can get, or its room if that is less, without giving out more than `count`.
fn level(rooms: &[(usize, u32, u32)], count: u32) -> u32 {
    let given =
        |level: u32| -> u64 { rooms.iter().map(|(_, _, room)| u64::from(level.min(*room))).sum() };
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = high - (high - low) / 2;
        if given(middle) <= u64::from(count) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use proptest::prelude::*;

    use super::*;
    use crate::{Balancer, TargetId, TargetSpec};

    fn balancer(limits: &[Option<u32>]) -> (Balancer<RoundRobin>, Vec<TargetId>) {
        let mut balancer = Balancer::new(RoundRobin::new());
        let specs = limits.iter().enumerate().map(|(index, limit)| {
            let spec = TargetSpec::new(index.to_string());
            TargetSpec { limit: *limit, ..spec }
        });
        let ids = specs.map(|spec| balancer.add(spec, Duration::ZERO).unwrap()).collect();
        (balancer, ids)
    }

    #[test]
    fn four_threads_hand_out_every_position_equally_without_a_lock() {
        const TURNS: u32 = 1_000;
        let turns = RoundRobin::new();
        let counts: [AtomicU32; 7] = Default::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..TURNS * 7 {
                        let position = turns.next(7).unwrap();
                        counts[position].fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(counts.map(AtomicU32::into_inner), [4 * TURNS; 7]);
        assert_eq!(turns.next(0), None);
    }

    #[test]
    fn the_neighbour_of_a_full_target_is_not_served_twice() {
        let (mut balancer, ids) = balancer(&[None, Some(1), None]);
        balancer.start(ids[1], Duration::ZERO);
        let picks: Vec<_> = (0..4)
            .map(|_| balancer.assign(&Request::default(), Duration::ZERO).first().unwrap())
            .collect();
        assert_eq!(picks, [ids[0], ids[2], ids[0], ids[2]]);
    }

    #[test]
    fn alternatives_do_not_use_up_turns() {
        let (mut balancer, ids) = balancer(&[None; 4]);
        let request = Request { want: 2, ..Request::default() };
        let firsts: Vec<_> =
            (0..4).map(|_| balancer.pick(&request, Duration::ZERO).first().unwrap()).collect();
        assert_eq!(firsts, ids);
    }

    proptest! {
        #[test]
        fn shares_differ_by_at_most_one(count in 1usize..20, picks in 0u32..200) {
            let (mut balancer, _) = balancer(&vec![None; count]);
            for _ in 0..picks {
                balancer.assign(&Request::default(), Duration::ZERO);
            }
            let loads = || balancer.targets().iter().map(|target| target.in_flight);
            prop_assert!(loads().max().unwrap() - loads().min().unwrap() <= 1);
        }

        #[test]
        fn a_batch_is_split_as_single_picks_would_be(
            limits in prop::collection::vec(prop::option::of(0u32..20), 1..8),
            before in 0u32..20,
            count in 0u32..200,
        ) {
            let (mut batched, _) = balancer(&limits);
            for _ in 0..before {
                batched.assign(&Request::default(), Duration::ZERO);
            }
            let mut single = batched.clone();
            let batch = batched.assign_many(&Request::default(), count, Duration::ZERO);
            let placed: u32 = batch.shares.iter().map(|(_, share)| share).sum();
            prop_assert_eq!(placed + batch.left, count);
            for _ in 0..count {
                single.assign(&Request::default(), Duration::ZERO);
            }
            let load = |balancer: &Balancer<RoundRobin>| -> Vec<u32> {
                balancer.targets().iter().map(|target| target.in_flight).collect()
            };
            prop_assert_eq!(load(&batched), load(&single));
            prop_assert_eq!(
                batched.pick(&Request::default(), Duration::ZERO),
                single.pick(&Request::default(), Duration::ZERO)
            );
        }
    }
}
