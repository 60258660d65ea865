//! Decides on which worker a task from outside is placed.
//!
//! Knows the lengths of the queues, not the tasks. Lengths are those that the workers last told, so a choice may be
//! a few tasks out of date, which costs nothing but a theft. Two choices instead of one make the longest queue
//! exponentially shorter (Mitzenmacher, *The power of two choices in randomized load balancing*, 2001). At first
//! start all queues are empty: the lower index wins for `LeastLoaded`, chance decides for the others.
//!
//! Random numbers come from a counter that is mixed (SplitMix64), so that threads need no generator each and one
//! submitter gets the same choices for the same seed.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use divvy_placement::hashing::jump;

use crate::options::{Options, Placement};
use crate::shared::Shared;

/// Where a task goes.
pub(crate) enum Place {
    Shared,
    Worker(usize),
}

/// The state of the placement.
pub(crate) struct Placer {
    placement: Placement,
    turn: CachePadded<AtomicUsize>,
    chance: CachePadded<AtomicU64>,
}

impl Placer {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            placement: options.placement,
            turn: CachePadded::new(AtomicUsize::new(0)),
            chance: CachePadded::new(AtomicU64::new(mix(options.seed))),
        }
    }

    #[inline]
    pub(crate) fn place(&self, shared: &Shared) -> Place {
        let workers = shared.active();
        let turn = || self.turn.fetch_add(1, Ordering::Relaxed);
        Place::Worker(match self.placement {
            Placement::Shared => return Place::Shared,
            Placement::RoundRobin => turn() % workers,
            Placement::LeastLoaded => {
                (0..workers).min_by_key(|worker| load_of(shared, *worker)).unwrap_or(0)
            }
            Placement::TwoChoices => self.two_choices(shared, 0, workers),
            Placement::Hierarchical => {
                let groups = shared.options.groups.min(workers);
                let (from, to) = group(turn() % groups, groups, workers);
                self.two_choices(shared, from, to)
            }
        })
    }

    fn two_choices(&self, shared: &Shared, from: usize, to: usize) -> usize {
        let random = self.random();
        let count = to - from;
        let first = from + below(random as u32, count);
        if count < 2 {
            return first;
        }
        // The second is drawn from the others.
        let step = 1 + below((random >> 32) as u32, count - 1);
        let second = from + (first - from + step) % count;
        if load_of(shared, second) < load_of(shared, first) { second } else { first }
    }

    fn random(&self) -> u64 {
        mix(self.chance.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed))
    }
}

/// What waits at a worker, and one more if it is awake.
fn load_of(shared: &Shared, worker: usize) -> usize {
    let waiting = shared.slots[worker].queues.len_published();
    waiting + usize::from(!shared.parking.is_asleep(worker))
}

/// A number below `count` from 32 random bits.
fn below(random: u32, count: usize) -> usize {
    ((u64::from(random) * count as u64) >> 32) as usize
}

/// The finisher of SplitMix64.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The workers of a group: from, to. Groups differ by at most one worker.
pub(crate) fn group(index: usize, groups: usize, workers: usize) -> (usize, usize) {
    (index * workers / groups, (index + 1) * workers / groups)
}

/// The group that a worker is in.
pub(crate) fn group_of(worker: usize, groups: usize, workers: usize) -> usize {
    // The inverse of `group`: the last group that begins at or before the worker.
    ((worker + 1) * groups - 1) / workers
}

/// The worker at which tasks of a key belong. When a pool of n grows by one, one key in n + 1 moves, and all of those
/// move to the new worker; workers leave from the end, so the same holds when it shrinks.
pub(crate) fn home_of(key: u64, workers: usize) -> usize {
    let workers = u32::try_from(workers).ok().and_then(NonZeroU32::new);
    jump(mix(key), workers.unwrap_or(NonZeroU32::MIN)) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_worker_is_in_exactly_its_group(workers in 1_usize..200, groups in 1_usize..200) {
            let groups = groups.min(workers);
            for index in 0..groups {
                let (from, to) = group(index, groups, workers);
                prop_assert!(from < to);
                for worker in from..to {
                    prop_assert_eq!(group_of(worker, groups, workers), index);
                }
            }
            prop_assert_eq!(group(groups - 1, groups, workers).1, workers);
        }

        #[test]
        fn a_key_moves_only_to_the_new_worker(key: u64, workers in 1_usize..100) {
            let (before, after) = (home_of(key, workers), home_of(key, workers + 1));
            prop_assert!(before < workers);
            prop_assert!(after == before || after == workers);
        }

        #[test]
        fn a_draw_is_below_its_count(random: u32, count in 1_usize..1000) {
            prop_assert!(below(random, count) < count);
        }
    }

    #[test]
    fn keys_spread_evenly() {
        let mut counts = [0_u32; 10];
        for key in 0..10_000 {
            counts[home_of(key, 10)] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
