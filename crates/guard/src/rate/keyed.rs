//! One bucket per key, in a table of fixed size.
//!
//! A key is known by its hash: the table is a cache of sets of eight places, as in a processor, so it never grows and
//! never allocates. A key that is not in the table has a full bucket. When a set is full, the key whose bucket will be
//! full first makes room: if it is full already, nothing is lost; else that key forgets what it used, which
//! [`Keyed::forgotten`] counts. A table of twice as many places as keys are busy at once hardly ever forgets.
//!
//! Two keys with the same 64-bit hash share a bucket. The hash is the same in every run, so that a run repeats.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::limiter::{Refused, decide};
use super::quota::Quota;
use crate::rolling::nanos;
use crate::setting::{self, Invalid};

/// The most keys that a table may hold.
pub const KEYS_MAX: u32 = 1 << 24;

/// How many keys share a set.
const PLACES: usize = 8;

/// How many locks the table has, at most.
const SHARDS_MAX: usize = 64;

/// A rate limit for each key.
#[derive(Debug)]
pub struct Keyed<K: ?Sized> {
    quota: Quota,
    shards: Box<[Mutex<Box<[Set]>>]>,
    forgotten: AtomicU64,
    key: PhantomData<fn(&K)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Set([Place; PLACES]);

/// A bucket; one that is full and belongs to nobody is all zero.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    hash: u64,
    full_at_ns: u64,
}

impl<K: Hash + ?Sized> Keyed<K> {
    /// A table for at least so many keys; the number is rounded up to a power of two.
    pub fn new(quota: Quota, keys: u32) -> Result<Self, Invalid> {
        setting::count("keys", keys, KEYS_MAX)?;
        let sets = (keys as usize).div_ceil(PLACES).next_power_of_two();
        let shards = sets.min(SHARDS_MAX);
        let shard = || Mutex::new(vec![Set::default(); sets / shards].into_boxed_slice());
        Ok(Self {
            quota,
            shards: (0..shards).map(|_| shard()).collect(),
            forgotten: AtomicU64::new(0),
            key: PhantomData,
        })
    }

    /// What was set for each key.
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Takes one token of this key, or says how long to wait.
    pub fn check(&self, key: &K, now: Duration) -> Result<(), Refused> {
        self.check_cost(key, 1, now)
    }

    /// Takes so many tokens of this key at once, or none.
    pub fn check_cost(&self, key: &K, cost: u32, now: Duration) -> Result<(), Refused> {
        let hash = hash_of(key);
        let now_ns = nanos(now);
        let (high, low) = ((hash >> 32) as usize, (hash & u64::from(u32::MAX)) as usize);
        let mut shard =
            self.shards[high % self.shards.len()].lock().unwrap_or_else(PoisonError::into_inner);
        let sets = shard.len();
        let places = &mut shard[low % sets].0;
        if let Some(place) = places.iter_mut().find(|place| place.hash == hash) {
            place.full_at_ns = decide(&self.quota, place.full_at_ns, cost, now_ns)?;
            return Ok(());
        }
        let full_at_ns = decide(&self.quota, 0, cost, now_ns)?;
        let [first, rest @ ..] = places;
        let place = rest.iter_mut().fold(first, |least, place| {
            if place.full_at_ns < least.full_at_ns { place } else { least }
        });
        if place.full_at_ns > now_ns {
            self.forgotten.fetch_add(1, Ordering::Relaxed);
        }
        *place = Place { hash, full_at_ns };
        Ok(())
    }

    /// How many keys the table holds.
    pub fn capacity(&self) -> usize {
        let sets =
            |shard: &Mutex<Box<[Set]>>| shard.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.shards.iter().map(sets).sum::<usize>() * PLACES
    }

    /// How often a key that had used tokens was dropped to make room. If this grows, the table is too small.
    pub fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Relaxed)
    }
}

/// Never 0, which marks a free place.
fn hash_of<K: Hash + ?Sized>(key: &K) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::limiter::Limiter;
    use super::*;

    fn quota() -> Quota {
        Quota::per_second(10).unwrap().burst(2).unwrap()
    }

    #[test]
    fn keys_do_not_share_tokens() {
        let limits = Keyed::<str>::new(quota(), 100).unwrap();
        let now = Duration::from_secs(1);
        assert!(limits.check("a", now).is_ok() && limits.check("a", now).is_ok());
        assert_eq!(limits.check("a", now), Err(Refused::Wait(Duration::from_millis(100))));
        assert_eq!(limits.check("b", now), Ok(()));
        assert_eq!(limits.check_cost("c", 3, now), Err(Refused::TooCostly { cost: 3, burst: 2 }));
    }

    #[test]
    fn the_table_does_not_grow_and_drops_idle_keys_without_loss() {
        let limits = Keyed::<u64>::new(quota(), 64).unwrap();
        assert_eq!(limits.capacity(), 64);
        for key in 0..10_000u64 {
            // Each key is idle again when the next set of keys comes.
            assert_eq!(limits.check(&key, Duration::from_millis(key * 200)), Ok(()));
        }
        assert_eq!(limits.capacity(), 64);
        assert_eq!(limits.forgotten(), 0);
    }

    #[test]
    fn a_full_table_forgets_the_key_that_used_the_least() {
        let limits = Keyed::<u64>::new(quota(), 8).unwrap();
        let now = Duration::from_secs(1);
        for key in 0..8 {
            limits.check(&key, now).unwrap();
        }
        limits.check_cost(&3, 1, now).unwrap();
        limits.check(&100, now).unwrap();
        assert_eq!(limits.forgotten(), 1);
        assert!(limits.check(&3, now).is_err(), "the busiest key must still be known");
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for keys in [0, KEYS_MAX + 1] {
            assert_eq!(Keyed::<str>::new(quota(), keys).unwrap_err().field, "keys");
        }
    }

    proptest! {
        #[test]
        fn each_key_behaves_as_if_it_had_a_limiter_of_its_own(
            steps in prop::collection::vec((0u64..30, 0u8..20, 1u32..3), 1..300),
        ) {
            let limits = Keyed::<u8>::new(quota(), 1_024).unwrap();
            let mut single: BTreeMap<u8, Limiter> = BTreeMap::new();
            let mut now = Duration::ZERO;
            for (gap, key, cost) in steps {
                now += Duration::from_millis(gap);
                let limiter = single.entry(key).or_insert_with(|| Limiter::new(quota()));
                prop_assert_eq!(limits.check_cost(&key, cost, now), limiter.check_cost(cost, now));
            }
            prop_assert_eq!(limits.forgotten(), 0);
        }
    }
}
