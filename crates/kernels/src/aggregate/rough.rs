//! Quantiles of more numbers than can be kept: between which numbers each certainly is, and about where.
//!
//! Few numbers are kept as they are, and their quantiles are exact. What is more goes into buckets of `quantile`, which bound a
//! quantile always, and into a t-digest of Apache DataSketches, which says where between the bounds it is. Times and ids lie
//! close together far from zero, often all in one bucket: there only the digest tells them apart. It promises nothing by
//! itself, and neither KLL nor REQ would do: the library tosses coins for them that nobody can repeat.
//!
//! Numbers leave for both in steps of a fixed size, and what waits for its step is written as it is. So it does not matter to
//! the answer how often a state was written and read again on the way, as happens when a stream is resumed.

use datasketches::tdigest::TDigestMut;

use super::bytes::{
    Damaged, put_bytes, put_float, put_number, take_bytes, take_float, take_number,
};
use super::quantile::{Buckets, of_sorted};

/// Numbers that are kept as they are at most.
pub(super) const KEPT_MAX: usize = 256;
/// How fine the digest is: about 200 means with their weights, within about half a percent of the rank in the middle and
/// finer towards the ends.
const FINENESS: u16 = 100;

/// What is kept of the numbers of a group.
#[derive(Clone, Debug)]
pub(super) struct Rough {
    kept: Vec<f64>,
    buckets: Buckets,
    digest: TDigestMut,
}

impl Rough {
    pub(super) fn new() -> Self {
        Self { kept: Vec::new(), buckets: Buckets::fine(), digest: digest() }
    }

    /// Adds a number, which is finite.
    #[inline]
    pub(super) fn add(&mut self, number: f64) {
        self.kept.push(number);
        if self.kept.len() > KEPT_MAX {
            self.put_away();
        }
    }

    /// Puts what is kept into buckets and digest. In order, because the digest sorts what it gets, and has nothing to do
    /// then; and because numbers of the same bucket are added at once.
    fn put_away(&mut self) {
        self.kept.sort_unstable_by(f64::total_cmp);
        self.buckets.add_sorted(&self.kept);
        let mut step = digest();
        self.kept.drain(..).for_each(|number| step.update(number));
        self.digest.merge(&step);
    }

    /// Bytes of memory behind it.
    pub(super) fn memory(&self) -> usize {
        let kept = self.kept.capacity() * size_of::<f64>();
        size_of::<Self>() + kept + self.buckets.memory() + self.digest.estimated_size()
    }

    /// A quantile: an estimate, and between which numbers the exact one certainly is.
    pub(super) fn quantile(&self, share: f64) -> Option<(f64, f64, f64)> {
        let mut all = self.clone();
        if all.buckets.numbers() == 0 {
            all.kept.sort_unstable_by(f64::total_cmp);
            let exact = of_sorted(&all.kept, share)?;
            return Some((exact, exact, exact));
        }
        all.put_away();
        let rank = share * (all.buckets.numbers() - 1) as f64;
        let ranges = all.buckets.ranges();
        let (below, low, _) = all.at(&ranges, rank.floor());
        let (above, _, high) = all.at(&ranges, rank.ceil());
        Some((below + (above - below) * rank.fract(), low, high))
    }

    /// The number of this rank, from 0: an estimate, and between which numbers it is. All numbers are in the digest.
    fn at(&mut self, ranges: &[(f64, f64, u64)], rank: f64) -> (f64, f64, f64) {
        const SOME: &str = "there are numbers in the digest";
        let mut before = 0_u64;
        let holds = |range: &&(f64, f64, u64)| {
            before += range.2;
            before as f64 > rank
        };
        let range = ranges.iter().find(holds).or_else(|| ranges.last());
        let (from, to, _) = *range.expect("there are numbers in the buckets");
        let low = from.max(self.digest.min_value().expect(SOME));
        let high = to.min(self.digest.max_value().expect(SOME));
        let middle = ((rank + 0.5) / self.buckets.numbers() as f64).min(1.0);
        let estimate = self.digest.quantile(middle).expect("it is a share").expect(SOME);
        (estimate.clamp(low, high), low, high)
    }

    /// Appends it.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_number(self.kept.len() as u64, out);
        self.kept.iter().for_each(|number| put_float(*number, out));
        self.buckets.write(out);
        put_bytes(&self.digest.clone().serialize(), out);
    }

    /// Takes in what another one wrote, from the front of `from`.
    pub(super) fn merge(&mut self, from: &mut &[u8]) -> Result<(), Damaged> {
        let mut kept = Vec::new();
        for _ in 0..take_number(from)? {
            kept.push(take_float(from)?);
        }
        self.buckets.merge(from)?;
        let digest = TDigestMut::deserialize(take_bytes(from)?).map_err(|_| Damaged)?;
        if self.digest.is_empty() {
            // As it is: to merge it with nothing would make it coarser.
            self.digest = digest;
        } else {
            self.digest.merge(&digest);
        }
        if self.digest.total_weight() != self.buckets.numbers() {
            return Err(Damaged);
        }
        kept.into_iter().for_each(|number| self.add(number));
        Ok(())
    }
}

fn digest() -> TDigestMut {
    TDigestMut::new(FINENESS).expect("the size of the sketch is allowed")
}
