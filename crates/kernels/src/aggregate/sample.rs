//! A sample of different texts that tells how many of them two columns have in common: a theta sketch of Apache
//! DataSketches, which keeps the texts with the least hashes.
//!
//! What HyperLogLog keeps of two columns cannot be compared text by text; two samples by the same hash can.

use datasketches::common::NumStdDev;
use datasketches::theta::{
    CompactThetaSketch, ThetaIntersection, ThetaSketch, ThetaSketchBuilder, ThetaUnionBuilder,
};

use super::bytes::{Damaged, put_bytes, take_bytes};

/// Texts that are kept, as a power of two: 4,096, as many as HyperLogLog has registers here.
const KEPT_LG: u8 = 12;
const SOUND: &str = "the size of the sketch is allowed";
const SAME_SEED: &str = "all sketches here have the same seed";

/// The sample of one column.
#[derive(Debug)]
pub(super) struct Sample {
    rows: ThetaSketch,
    /// What others wrote.
    merged: Option<CompactThetaSketch>,
}

impl Clone for Sample {
    fn clone(&self) -> Self {
        Self { merged: Some(self.whole()), ..Self::new() }
    }
}

impl Sample {
    pub(super) fn new() -> Self {
        let rows = ThetaSketchBuilder::default().lg_k(KEPT_LG).build().expect(SOUND);
        Self { rows, merged: None }
    }

    /// Takes the hash of a text.
    #[inline]
    pub(super) fn add(&mut self, hash: u64) {
        self.rows.update(hash);
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        let merged = self.merged.as_ref().map_or(0, CompactThetaSketch::estimated_size);
        size_of::<Self>() + self.rows.estimated_size() + merged
    }

    /// Appends it: the same bytes in whichever order the texts came.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_bytes(&self.whole().serialize(), out);
    }

    /// Takes in what another one wrote, from the front of `from`.
    pub(super) fn merge(&mut self, from: &mut &[u8]) -> Result<(), Damaged> {
        let other = CompactThetaSketch::deserialize(take_bytes(from)?).map_err(|_| Damaged)?;
        self.merged = Some(match &self.merged {
            None => union([&other]),
            Some(merged) => union([merged, &other]),
        });
        Ok(())
    }

    /// About how many texts are in both samples, and between which numbers that is with 95 % confidence.
    pub(super) fn common(&self, other: &Self) -> (f64, f64, f64) {
        let mut both = ThetaIntersection::default();
        for sample in [self, other] {
            both.update(&sample.whole()).expect(SAME_SEED);
        }
        let both = both.to_sketch(false).expect("it has seen two sketches");
        let bounds = (both.lower_bound(NumStdDev::Two), both.upper_bound(NumStdDev::Two));
        (both.estimate(), bounds.0, bounds.1)
    }

    fn whole(&self) -> CompactThetaSketch {
        let rows = self.rows.compact(false);
        match &self.merged {
            None => union([&rows]),
            Some(merged) => union([merged, &rows]),
        }
    }
}

/// What is in any of them: the least hashes, ascending, and no more of them than are to be kept.
fn union<const N: usize>(sketches: [&CompactThetaSketch; N]) -> CompactThetaSketch {
    let mut union = ThetaUnionBuilder::default().lg_k(KEPT_LG).build().expect(SOUND);
    sketches.into_iter().for_each(|sketch| union.update(sketch).expect(SAME_SEED));
    union.to_sketch(true)
}
