//! Decides by key: the hash of the key modulo the number of targets that are up names the target.
//!
//! Does not know weights or loads, and keeps nothing per key. If the target of a key does not fit (it is full,
//! excluded or unable), the next one in order that fits is taken; alternatives are the ones after it. Requests
//! without a key take turns.
//!
//! Why: the cheapest way to keep equal keys together, right when the set of targets hardly ever changes. When a
//! target comes, goes or changes its state, nearly all keys move: of n targets only about one key in n + 1 stays.
//! Use a ring of [`crate::hashing`] where that matters. At first start it is as good as ever.

use std::time::Duration;

use super::RoundRobin;
use super::choose;
use crate::policy::{Pick, Policy, Request, View};

/// Picks by the hash of the key.
#[derive(Clone, Debug, Default)]
pub struct Hash {
    keyless: RoundRobin,
}

impl Hash {
    /// Requests without a key start with the first target.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests without a key start with the target at this position.
    pub fn starting_at(position: u64) -> Self {
        Self { keyless: RoundRobin::starting_at(position) }
    }
}

impl Policy for Hash {
    fn name(&self) -> &'static str {
        "hash"
    }

    fn pick(&mut self, request: &Request<'_>, view: &View<'_>, now: Duration) -> Pick {
        let Some(key) = request.key else {
            return self.keyless.pick(request, view, now);
        };
        let home = key.checked_rem(view.up.len() as u64).unwrap_or_default() as usize;
        choose::each(request, view, |candidates| {
            candidates.lowest(home, 0.0, |_| 0.0).map(|(_, target)| target.id)
        })
    }

    fn pick_many(
        &mut self,
        request: &Request<'_>,
        view: &View<'_>,
        count: u32,
        shares: &mut [u32],
        now: Duration,
    ) -> u32 {
        match request.key {
            None => self.keyless.pick_many(request, view, count, shares, now),
            Some(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hashing::hash_of;
    use crate::{Balancer, TargetId, TargetSpec};

    fn balancer(count: usize) -> (Balancer<Hash>, Vec<TargetId>) {
        let mut balancer = Balancer::new(Hash::new());
        let ids = (0..count)
            .map(|index| balancer.add(TargetSpec::new(index.to_string()), Duration::ZERO).unwrap())
            .collect();
        (balancer, ids)
    }

    fn home(balancer: &mut Balancer<Hash>, key: u64) -> TargetId {
        balancer.pick(&Request::keyed(key), Duration::ZERO).first().unwrap()
    }

    #[test]
    fn equal_keys_meet_and_requests_without_a_key_take_turns() {
        let (mut balancer, ids) = balancer(5);
        for key in 0..100 {
            assert_eq!(home(&mut balancer, key), ids[key as usize % 5]);
        }
        let turns: Vec<_> = (0..5)
            .map(|_| balancer.assign(&Request::default(), Duration::ZERO).first().unwrap())
            .collect();
        assert_eq!(turns, ids);
    }

    #[test]
    fn a_full_home_sends_the_key_to_its_neighbour_until_there_is_room() {
        let (mut balancer, ids) = balancer(3);
        balancer.set_limit(ids[1], Some(0), Duration::ZERO).unwrap();
        assert_eq!(home(&mut balancer, 1), ids[2]);
        balancer.set_limit(ids[1], None, Duration::ZERO).unwrap();
        assert_eq!(home(&mut balancer, 1), ids[1]);
    }

    #[test]
    fn nearly_all_keys_move_when_a_target_joins() {
        let (mut balancer, _) = balancer(9);
        let keys: Vec<u64> = (0..10_000u32).map(|key| hash_of(key.to_le_bytes())).collect();
        let before: Vec<TargetId> = keys.iter().map(|key| home(&mut balancer, *key)).collect();
        balancer.add(TargetSpec::new("new"), Duration::ZERO).unwrap();
        let stayed = keys.iter().zip(before).filter(|(key, id)| home(&mut balancer, **key) == *id);
        let share = stayed.count() as f64 / keys.len() as f64;
        assert!((0.07..0.13).contains(&share), "{share}");
    }
}
