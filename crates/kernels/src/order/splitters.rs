//! Where the ranges of the result are cut, from a sample of the input.
//!
//! A splitter is a key and a position in the input. Records with the very key of a splitter go to the one range or the
//! other by where they stand in the input: so no key is too frequent to be spread, and the order of the input among
//! equal keys is kept.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::layout::Order;

/// A record that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Its key.
    pub key: Vec<u8>,
    /// The piece of the input that it is in.
    pub part: u32,
    /// Where in it.
    pub offset: u64,
}

/// The first record of a range, which need not exist.
pub type Splitter = Sample;

impl Splitter {
    /// Whether a record comes before this.
    pub(super) fn is_after(&self, order: &Order, key: &[u8], position: (u32, u64)) -> bool {
        let compared = order.compare(key, &self.key);
        compared.then_with(|| position.cmp(&(self.part, self.offset))) == Ordering::Less
    }

    fn compare(&self, other: &Self, order: &Order) -> Ordering {
        order
            .compare(&self.key, &other.key)
            .then_with(|| (self.part, self.offset).cmp(&(other.part, other.offset)))
    }
}

/// Cuts into this many ranges with about as many samples each; into fewer if there are not enough samples.
pub fn choose(order: &Order, mut samples: Vec<Sample>, ranges: usize) -> Vec<Splitter> {
    samples.sort_by(|a, b| a.compare(b, order));
    samples.dedup();
    let ranges = ranges.clamp(1, samples.len().max(1));
    (1..ranges).map(|nth| samples[nth * samples.len() / ranges].clone()).collect()
}
