//! Consistent hashing: equal keys stay together, and few of them move when targets come and go.
//!
//! Reading order: [`ring`] (nodes with weights on a circle: the choice for almost everything), [`bounded`] (the same
//! with a cap on each node's load), [`maglev`] and [`jump()`] (the alternatives, each with its reason), [`distribution`]
//! and [`redistribution`] (what a placement does to real keys, before and after a change), [`hot`] (keys that are too
//! heavy for one node), [`policy`] (the ring as a [`crate::Policy`]).
//!
//! | | memory | lookup | balance | moved on a change | weights | nodes may leave |
//! |---|---|---|---|---|---|---|
//! | [`Ring`] | 20 to 28 bytes per point | O(1) | ±8 % at 150 points, ±3 % at 1,000 | the least possible | yes | any |
//! | [`Maglev`] | 4 bytes per slot | O(1), one read | ±1 slot | a little more than the least | yes | any, by a rebuild |
//! | [`jump()`] | none | O(log n) | exact but for chance | the least possible | no | only the last |
//!
//! Every placement depends on names, weights and the hash alone, so processes that agree on those agree on owners.
//! Nothing here knows what a key means, where it is stored or who moves it.

pub mod bounded;
pub mod distribution;
pub mod hot;
pub mod maglev;
pub mod policy;
pub mod redistribution;
pub mod ring;

mod error;
mod jump;
mod node;

pub use bounded::BoundedRing;
pub use distribution::Distribution;
pub use error::Error;
pub use jump::jump;
pub use maglev::Maglev;
pub use node::{NODES_MAX, Node};
pub use policy::RingPolicy;
pub use redistribution::{Change, Redistribution, simulate_redistribution};
pub use ring::Ring;

/// The step between the seeds of one stream of numbers: 2^64 divided by the golden ratio, as in SplitMix64.
const STREAM_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The hash of a key, the same in every run, version and machine: XXH3, 64 bits.
pub fn hash_of(key: impl AsRef<[u8]>) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key.as_ref())
}

/// Spreads a number over all 64 bits, one to one: the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
///
/// Rings and tables apply it to what they are asked for, so that a plain number (a user's id) is as good as a hash.
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Number `at` of the stream that belongs to `base`. Within one stream no number comes twice.
fn stream(base: u64, at: u64) -> u64 {
    mix(base.wrapping_add(STREAM_STEP.wrapping_mul(at.wrapping_add(1))))
}

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guides/hashing.md")]
mod guide {}
