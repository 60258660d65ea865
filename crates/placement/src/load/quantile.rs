//! Decides what the median, the 95th or any other percentile of many durations is, without keeping them.
//!
//! Knows nothing of time: whoever wants recent values to count more gives them more weight.
//!
//! A histogram whose buckets grow with the value: 32 equal buckets in every power of two, as in HdrHistogram. An
//! answer is off by at most [`RELATIVE_ERROR`], whatever the data looks like. Why not P² (Jain and Chlamtac, CACM
//! 1985), which needs only five markers: it has no error bound, needs the quantiles in advance, cannot be merged and
//! cannot forget. Why not a logarithm per value, as in DDSketch (Masson, Rim and Lee, VLDB 2019), whose error bound
//! and merging this has: the position of the highest bit is cheaper.
//!
//! Memory is bounded by [`BUCKETS_MAX`] buckets; only the span between the smallest and the largest value seen is
//! kept, 256 bytes for each power of two in it. Cold: without a value there is no quantile.

use std::time::Duration;

/// A quantile differs from a true one by at most this part of it. Values under 64 ns are exact.
pub const RELATIVE_ERROR: f64 = 1.0 / 64.0;

/// Longer durations count as this long: about 13 days.
pub const DURATION_MAX: Duration = Duration::from_nanos((1 << OCTAVES_END) - 1);

/// The most buckets that a sketch has.
pub const BUCKETS_MAX: usize = (OCTAVES_END - SPLIT_BITS + 1) as usize * SPLIT;

/// Each power of two is split in 2 to the power of this.
const SPLIT_BITS: u32 = 5;
const SPLIT: usize = 1 << SPLIT_BITS;
const OCTAVES_END: u32 = 50;
/// A bucket with less weight than this beside fresh values of weight 1 is empty: it must not slow down the sums.
const WEIGHT_MIN: f64 = 1e-12;

/// A weighted histogram of durations.
#[derive(Clone, Debug, Default)]
pub struct Sketch {
    /// The number of the first bucket that is kept, a multiple of [`SPLIT`].
    first: usize,
    weights: Vec<f64>,
    total: f64,
}

impl Sketch {
    /// Without values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a value once.
    pub fn record(&mut self, value: Duration) {
        self.record_weighted(value, 1.0);
    }

    /// Counts a value with a weight.
    ///
    /// # Panics
    /// If the weight is not a number above 0.
    pub fn record_weighted(&mut self, value: Duration, weight: f64) {
        assert!(weight > 0.0 && weight.is_finite(), "a weight is a number above 0, not {weight}");
        let bucket = bucket_of(value);
        // A bucket before the first wraps round to a large number, so that one comparison finds both ways out.
        let at = bucket.wrapping_sub(self.first);
        if at < self.weights.len() {
            self.weights[at] += weight;
        } else {
            self.widen(bucket, bucket);
            self.weights[bucket - self.first] += weight;
        }
        self.total += weight;
    }

    /// The sum of the weights: the number of values, if each was counted once.
    pub fn total(&self) -> f64 {
        self.total
    }

    /// The smallest value that is at least as large as this share of all: 0.5 gives the median.
    ///
    /// # Panics
    /// If the share is not from 0 to 1.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        self.quantiles([share])[0]
    }

    /// Several quantiles in one pass; the shares must ascend.
    ///
    /// # Panics
    /// If a share is not from 0 to 1, or smaller than the one before it.
    pub fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [Option<Duration>; N] {
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "shares are from 0 to 1");
        assert!(shares.is_sorted(), "shares ascend");
        let mut answers = [None; N];
        let mut next = 0;
        let mut below = 0.0;
        for (at, weight) in self.weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            below += weight;
            while next < N && below >= shares[next] * self.total {
                answers[next] = Some(middle_of(self.first + at));
                next += 1;
            }
        }
        // The sum of the buckets may fall short of the total by a rounding error: the rest is the largest value.
        let largest = self.weights.iter().rposition(|weight| *weight > 0.0);
        let largest = largest.map(|at| middle_of(self.first + at));
        answers[next..].fill(largest);
        answers
    }

    /// Adds what another sketch has seen, each weight multiplied by `factor`: 1 to count it in full.
    ///
    /// # Panics
    /// If the factor is not a number above 0.
    pub fn merge(&mut self, other: &Self, factor: f64) {
        assert!(factor > 0.0 && factor.is_finite(), "a factor is a number above 0, not {factor}");
        if other.weights.is_empty() {
            return;
        }
        self.widen(other.first, other.first + other.weights.len() - 1);
        let start = other.first - self.first;
        for (mine, theirs) in self.weights[start..].iter_mut().zip(&other.weights) {
            *mine += theirs * factor;
        }
        self.total += other.total * factor;
    }

    /// Multiplies every weight, so that what was seen so far counts less beside what comes.
    ///
    /// # Panics
    /// If the factor is not from 0 to 1.
    pub fn fade(&mut self, factor: f64) {
        assert!((0.0..=1.0).contains(&factor), "a factor is from 0 to 1, not {factor}");
        self.total = 0.0;
        for weight in &mut self.weights {
            *weight *= factor;
            if *weight < WEIGHT_MIN {
                *weight = 0.0;
            }
            self.total += *weight;
        }
    }

    /// Makes room for these buckets, in whole powers of two.
    fn widen(&mut self, low: usize, high: usize) {
        let low = low / SPLIT * SPLIT;
        let end = (high / SPLIT + 1) * SPLIT;
        if self.weights.is_empty() {
            self.first = low;
        }
        if low < self.first {
            let missing = self.first - low;
            self.weights.splice(0..0, std::iter::repeat_n(0.0, missing));
            self.first = low;
        }
        if end > self.first + self.weights.len() {
            self.weights.resize(end - self.first, 0.0);
        }
    }
}

fn bucket_of(value: Duration) -> usize {
    let nanos = nanos(value.min(DURATION_MAX));
    let octave = (nanos | 1).ilog2();
    if octave < SPLIT_BITS {
        return nanos as usize;
    }
    let shift = octave - SPLIT_BITS;
    let within = (nanos >> shift) as usize & (SPLIT - 1);
    (shift as usize + 1) * SPLIT + within
}

fn middle_of(bucket: usize) -> Duration {
    if bucket < SPLIT {
        return Duration::from_nanos(bucket as u64);
    }
    let shift = bucket / SPLIT - 1;
    let low = ((SPLIT + bucket % SPLIT) as u64) << shift;
    let width = 1u64 << shift;
    Duration::from_nanos(low + (width - 1) / 2)
}

/// Cheaper than `as_nanos`, which has 128 bits.
fn nanos(value: Duration) -> u64 {
    value.as_secs() * 1_000_000_000 + u64::from(value.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The values at which `k` of `n` reach the share for the first time.
    fn exact(values: &[u64], share: f64) -> u64 {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let enough = |k: &usize| *k as f64 >= share * sorted.len() as f64;
        sorted[(1..=sorted.len()).find(enough).unwrap() - 1]
    }

    fn is_near(answer: Duration, truth: u64) -> bool {
        let truth = truth.min(nanos(DURATION_MAX)) as f64;
        (nanos(answer) as f64 - truth).abs() <= truth * RELATIVE_ERROR
    }

    fn sketch_of(values: &[u64]) -> Sketch {
        let mut sketch = Sketch::new();
        values.iter().for_each(|value| sketch.record(Duration::from_nanos(*value)));
        sketch
    }

    /// Values over all magnitudes.
    fn values() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(
            (0u32..60, any::<u64>()).prop_map(|(bits, v)| v >> (63 - bits)),
            1..200,
        )
    }

    proptest! {
        #[test]
        fn quantiles_are_within_the_error_bound(values in values(), share in 0.0..=1.0f64) {
            let answer = sketch_of(&values).quantile(share).unwrap();
            let truth = exact(&values, share);
            prop_assert!(is_near(answer, truth), "{answer:?} for {truth}");
        }

        #[test]
        fn several_quantiles_are_those_of_single_questions(values in values()) {
            let sketch = sketch_of(&values);
            let shares = [0.0, 0.5, 0.95, 0.99, 1.0];
            prop_assert_eq!(sketch.quantiles(shares), shares.map(|share| sketch.quantile(share)));
        }

        #[test]
        fn merging_is_the_same_as_recording_all_in_one(a in values(), b in values()) {
            let mut merged = sketch_of(&a);
            merged.merge(&sketch_of(&b), 1.0);
            let all = sketch_of(&[a, b].concat());
            prop_assert_eq!(merged.total(), all.total());
            for share in [0.1, 0.5, 0.9, 0.99] {
                prop_assert_eq!(merged.quantile(share), all.quantile(share));
            }
        }

        #[test]
        fn every_bucket_holds_its_own_middle(bucket in 0..BUCKETS_MAX) {
            prop_assert_eq!(bucket_of(middle_of(bucket)), bucket);
        }
    }

    #[test]
    fn there_are_no_more_buckets_than_the_limit() {
        let sketch = sketch_of(&[0, u64::MAX]);
        assert_eq!(sketch.weights.len(), BUCKETS_MAX);
        assert_eq!(bucket_of(Duration::MAX), BUCKETS_MAX - 1);
    }

    #[test]
    fn an_empty_sketch_has_no_quantile() {
        assert_eq!(Sketch::new().quantile(0.5), None);
        let mut merged = Sketch::new();
        merged.merge(&Sketch::new(), 1.0);
        assert_eq!(merged.quantile(0.5), None);
    }

    #[test]
    fn what_is_faded_counts_less_and_in_the_end_not_at_all() {
        let mut sketch = sketch_of(&[10; 90]);
        sketch.fade(0.1);
        sketch.record_weighted(Duration::from_nanos(50), 10.0);
        assert_eq!(sketch.quantile(0.45), Some(Duration::from_nanos(10)));
        assert_eq!(sketch.quantile(0.5), Some(Duration::from_nanos(50)));
        sketch.fade(1e-20);
        assert_eq!((sketch.total(), sketch.quantile(0.5)), (0.0, None));
    }
}
