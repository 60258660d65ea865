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
    /// Its key, or the beginning of a long one.
    #[serde(with = "hexadecimals")]
    pub key: Vec<u8>,
    /// The file that it is in.
    pub file: u32,
    /// Where in it.
    pub offset: u64,
}

/// The first record of a range, which need not exist.
pub type Splitter = Sample;

impl Splitter {
    /// Whether a record comes before this.
    pub(super) fn is_after(&self, order: &Order, key: &[u8], position: (u32, u64)) -> bool {
        let compared = order.compare(key, &self.key);
        compared.then_with(|| position.cmp(&(self.file, self.offset))) == Ordering::Less
    }

    fn compare(&self, other: &Self, order: &Order) -> Ordering {
        order
            .compare(&self.key, &other.key)
            .then_with(|| (self.file, self.offset).cmp(&(other.file, other.offset)))
    }
}

/// Cuts into this many ranges with about as many samples each; into fewer if there are not enough samples.
pub fn choose(order: &Order, mut samples: Vec<Sample>, ranges: usize) -> Vec<Splitter> {
    samples.sort_by(|a, b| a.compare(b, order));
    samples.dedup();
    let ranges = ranges.clamp(1, samples.len().max(1));
    (1..ranges).map(|nth| samples[nth * samples.len() / ranges].clone()).collect()
}

mod hexadecimals {
    use std::fmt::Write as _;

    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(2 * bytes.len());
        for byte in bytes {
            // Writing to memory does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        to.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        let digits = text.as_bytes().chunks(2);
        let byte = |digits: &[u8]| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 16).ok()
        };
        let bytes: Option<Vec<u8>> = digits.map(byte).collect();
        bytes.ok_or_else(|| de::Error::custom("a key is not written in hexadecimals"))
    }
}
