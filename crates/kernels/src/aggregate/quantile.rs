//! Quantiles and histograms: of all numbers, or of how many numbers fell into each of many buckets.
//!
//! A bucket is all floats whose first bits are the same, so that its ends differ by a fixed share of its value, as in an
//! HDR histogram, for the whole range of floats and both signs. Which bucket a number belongs to is a shift; the order
//! of numbers does not matter; two sets of buckets are merged by adding. A quantile is then known to within its bucket,
//! always, not only probably. How rough quantiles are made of them is told in `rough`.

use super::bytes::{Damaged, put_number, take_number};
use super::table::Table;

/// Bits of a float that tell the bucket of a quantile: sign, exponent, 7 of the fraction.
const QUANTILE_BITS: u32 = 19;
/// Bits of a float that tell the bucket of a histogram: sign and exponent, so that buckets end at powers of two.
const HISTOGRAM_BITS: u32 = 12;
/// How far two numbers in the bucket of a quantile are apart at most, as a share of their value.
pub(super) const WIDTH: f64 = 1.0 / 128.0;

/// Numbers by bucket.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    bits: u32,
    counts: Table,
    numbers: u64,
}

impl Buckets {
    /// Buckets for quantiles.
    pub(super) const fn fine() -> Self {
        Self { bits: QUANTILE_BITS, counts: Table::new(), numbers: 0 }
    }

    /// Buckets that end at powers of two.
    pub(super) const fn coarse() -> Self {
        Self { bits: HISTOGRAM_BITS, counts: Table::new(), numbers: 0 }
    }

    /// Adds a number.
    #[inline]
    pub(super) fn add(&mut self, number: f64) {
        self.put(bucket(number, self.bits), 1);
    }

    /// Adds numbers that are sorted.
    pub(super) fn add_sorted(&mut self, numbers: &[f64]) {
        let bits = self.bits;
        for same in numbers.chunk_by(|left, right| bucket(*left, bits) == bucket(*right, bits)) {
            self.put(bucket(same[0], bits), same.len() as u64);
        }
    }

    #[inline]
    fn put(&mut self, bucket: u32, count: u64) {
        self.numbers += count;
        *self.counts.value(&bucket.to_be_bytes()) += count;
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.counts.memory()
    }

    /// From, up to, and how many, of every bucket that is not empty, ascending.
    pub(super) fn ranges(&self) -> Vec<(f64, f64, u64)> {
        let range = |(bucket, count)| {
            let first = u64::from(bucket) << (64 - self.bits);
            let last = first | ((1 << (64 - self.bits)) - 1);
            (float(first), float(last), count)
        };
        self.sorted().into_iter().map(range).collect()
    }

    fn sorted(&self) -> Vec<(u32, u64)> {
        let mut sorted = Vec::with_capacity(self.counts.len());
        self.counts.for_each(|key, count| {
            let bytes = key.first_chunk::<4>().copied().unwrap_or_default();
            sorted.push((u32::from_be_bytes(bytes), count));
        });
        sorted.sort_unstable();
        sorted
    }

    /// How many numbers there are.
    pub(super) fn numbers(&self) -> u64 {
        self.numbers
    }

    /// Appends them.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let sorted = self.sorted();
        put_number(sorted.len() as u64, out);
        let mut last = 0;
        for (bucket, count) in sorted {
            put_number(u64::from(bucket - last), out);
            put_number(count, out);
            last = bucket;
        }
    }

    /// Adds what was written.
    pub(super) fn merge(&mut self, from: &mut &[u8]) -> Result<(), Damaged> {
        let mut bucket = 0_u32;
        for _ in 0..take_number(from)? {
            let step = u32::try_from(take_number(from)?).map_err(|_| Damaged)?;
            bucket = bucket.checked_add(step).ok_or(Damaged)?;
            self.put(bucket, take_number(from)?);
        }
        Ok(())
    }
}

/// A quantile of sorted numbers, between two of them where it falls between them.
pub(super) fn of_sorted(numbers: &[f64], share: f64) -> Option<f64> {
    let rank = share * numbers.len().checked_sub(1)? as f64;
    let (below, above) = (numbers.get(rank.floor() as usize)?, numbers.get(rank.ceil() as usize)?);
    Some(below + (above - below) * rank.fract())
}

/// The bucket of a number, of which so many bits tell.
#[inline]
fn bucket(number: f64, bits: u32) -> u32 {
    (ordered(number) >> (64 - bits)) as u32
}

/// Bits that are ordered as the floats are.
#[inline]
fn ordered(number: f64) -> u64 {
    let bits = number.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

fn float(ordered: u64) -> f64 {
    f64::from_bits(if ordered >> 63 == 1 { ordered & !(1 << 63) } else { !ordered })
}
