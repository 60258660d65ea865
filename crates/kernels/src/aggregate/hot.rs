//! Which keys are much of the whole: the frequent-items sketch (Misra-Gries, of Apache DataSketches), by bytes.

use datasketches::frequencies::{ErrorType, FrequentItemsSketch};

/// Size of the sketch: a key with more than 1.4 % of all bytes is never missed.
const SIZE: usize = 256;

/// Bytes by key, roughly.
#[derive(Debug)]
pub struct Hot {
    sketch: FrequentItemsSketch<Vec<u8>>,
}

impl Default for Hot {
    fn default() -> Self {
        Self { sketch: FrequentItemsSketch::new(SIZE).expect("the size is a power of two") }
    }
}

impl Hot {
    /// A key came with so many bytes.
    #[inline]
    pub fn add(&mut self, key: &[u8], bytes: u64) {
        self.sketch.update_with_count_ref(key, bytes);
    }

    /// Bytes of all keys.
    pub fn total(&self) -> u64 {
        self.sketch.total_weight()
    }

    /// Keys that certainly have at least this share of all bytes, with what they have at least, most first.
    pub fn keys(&self, share: f64) -> Vec<(Vec<u8>, u64)> {
        let least = (self.total() as f64 * share) as u64;
        let rows = self.sketch.frequent_items_with_threshold(ErrorType::NoFalsePositives, least);
        let mut keys: Vec<(Vec<u8>, u64)> =
            rows.iter().map(|row| (row.item().clone(), row.lower_bound())).collect();
        keys.sort_unstable_by(|left, right| {
            right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0))
        });
        keys
    }
}
