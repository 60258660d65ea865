//! Decides how uneven a set of loads is, in the usual figures.
//!
//! Does not know what the loads are of: utilisations, queue lengths, keys per node. Loads that are all 0, and a set
//! of fewer than two, are even.

/// How uneven loads are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Imbalance {
    /// How many loads there are.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Their variance, of the whole set (divided by the count).
    pub variance: f64,
    /// The coefficient of variation: standard deviation per mean; 0 is even.
    pub variation: f64,
    /// The fairness index of Jain, Chiu and Hawe (DEC-TR-301, 1984): 1 is even, 1/count is all on one.
    pub jain: f64,
    /// The largest load per mean; 1 is even.
    pub peak_to_mean: f64,
}

impl Imbalance {
    /// Of these loads, which must be 0 or more.
    pub fn of(loads: impl Iterator<Item = f64> + Clone) -> Self {
        let (count, sum, peak) =
            loads.clone().fold((0usize, 0.0, 0.0f64), |(n, sum, peak), load| {
                (n + 1, sum + load, peak.max(load))
            });
        if sum <= 0.0 {
            return Self {
                count,
                mean: 0.0,
                variance: 0.0,
                variation: 0.0,
                jain: 1.0,
                peak_to_mean: 1.0,
            };
        }
        let mean = sum / count as f64;
        // In two passes: the difference of two large sums would lose a small variance.
        let variance = loads.map(|load| (load - mean).powi(2)).sum::<f64>() / count as f64;
        let variation_squared = variance / (mean * mean);
        Self {
            count,
            mean,
            variance,
            variation: variation_squared.sqrt(),
            // (Σx)² / (n·Σx²), with Σx² = n·(variance + mean²).
            jain: 1.0 / (1.0 + variation_squared),
            peak_to_mean: peak / mean,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_sets_have_known_figures() {
        // loads, mean, variance, variation, jain, peak per mean
        let cases: [(&[f64], [f64; 5]); 6] = [
            (&[], [0.0, 0.0, 0.0, 1.0, 1.0]),
            (&[0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 1.0]),
            (&[5.0], [5.0, 0.0, 0.0, 1.0, 1.0]),
            (&[2.0, 2.0, 2.0], [2.0, 0.0, 0.0, 1.0, 1.0]),
            (&[0.0, 0.0, 0.0, 4.0], [1.0, 3.0, 3f64.sqrt(), 0.25, 4.0]),
            (&[1.0, 3.0], [2.0, 1.0, 0.5, 0.8, 1.5]),
        ];
        for (loads, [mean, variance, variation, jain, peak_to_mean]) in cases {
            let count = loads.len();
            let figures = Imbalance { count, mean, variance, variation, jain, peak_to_mean };
            assert_eq!(Imbalance::of(loads.iter().copied()), figures, "{loads:?}");
        }
    }

    proptest! {
        #[test]
        fn the_fairness_index_is_the_one_of_the_paper(
            loads in prop::collection::vec(0.0..1e6f64, 1..50),
        ) {
            let figures = Imbalance::of(loads.iter().copied());
            let sum: f64 = loads.iter().sum();
            let squares: f64 = loads.iter().map(|load| load * load).sum();
            prop_assert!((figures.jain - sum * sum / (loads.len() as f64 * squares)).abs() < 1e-9);
            prop_assert!(figures.jain >= 1.0 / loads.len() as f64 - 1e-9);
            prop_assert!(figures.peak_to_mean <= loads.len() as f64 + 1e-9);
        }
    }
}
