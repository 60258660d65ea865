//! Decides which of `buckets` numbered buckets a key belongs to, without any memory.
//!
//! Knows no names, no weights and no state. The rule is "A Fast, Minimal Memory, Consistent Hash Algorithm" (Lamping
//! and Veach 2014): a generator seeded with the key says at which numbers of buckets the key would jump to the newest
//! one; the last jump below `buckets` is the answer.
//!
//! Why: for shards that are numbered and only ever grow, or shrink, at the end, it is as even as chance allows, moves
//! the least possible and needs no table that clients must agree on. It is the wrong choice when any node may leave
//! (only the last number can) or when nodes differ in size: use [`super::Ring`] then.

use std::num::NonZeroU32;

/// The bucket of a key, from 0 up to `buckets` − 1. With one bucket more, a key stays or moves to the new bucket.
///
/// ```
/// # use divvy_placement::hashing::{hash_of, jump};
/// # use std::num::NonZeroU32;
/// let (ten, eleven) = (NonZeroU32::new(10).unwrap(), NonZeroU32::new(11).unwrap());
/// let shard = jump(hash_of("user_7"), ten);
/// let later = jump(hash_of("user_7"), eleven);
/// assert!(shard < 10 && (later == shard || later == 10));
/// ```
pub fn jump(hash: u64, buckets: NonZeroU32) -> u32 {
    let mut state = hash;
    let mut bucket = 0_u32;
    loop {
        state = state.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        // The top 31 bits as a fraction of (0, 1]; its inverse is how far the key jumps.
        let draw = ((state >> 33) + 1) as f64;
        let next = f64::from(bucket + 1) * (f64::from(1_u32 << 31) / draw);
        if next >= f64::from(buckets.get()) {
            return bucket;
        }
        bucket = next as u32;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn among(buckets: u32) -> NonZeroU32 {
        NonZeroU32::new(buckets).unwrap()
    }

    #[test]
    fn agrees_with_other_implementations() {
        let known = [(1, 1, 0), (42, 57, 43), (0xDEAD_10CC, 1, 0), (0xDEAD_10CC, 666, 361)];
        for (hash, buckets, bucket) in known.into_iter().chain([(256, 1024, 520)]) {
            assert_eq!(jump(hash, among(buckets)), bucket, "{hash} among {buckets}");
        }
    }

    #[test]
    fn the_largest_number_of_buckets_is_in_range() {
        for hash in 0..1000 {
            assert!(jump(hash, among(u32::MAX)) < u32::MAX);
        }
    }

    #[test]
    fn buckets_are_nearly_equal() {
        let mut counts = [0_u32; 10];
        for key in 0..100_000_u64 {
            counts[jump(super::super::mix(key), among(10)) as usize] += 1;
        }
        for count in counts {
            assert!((9_500..=10_500).contains(&count), "{counts:?}");
        }
    }

    proptest! {
        #[test]
        fn a_key_stays_or_moves_to_the_new_bucket(hash: u64, buckets in 1_u32..100_000) {
            let before = jump(hash, among(buckets));
            let after = jump(hash, among(buckets + 1));
            prop_assert!(before < buckets);
            prop_assert!(after == before || after == buckets, "{before} then {after}");
        }
    }
}
