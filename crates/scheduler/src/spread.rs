//! Spreads waits by chance, so that tasks which failed together do not come back together.
//!
//! Decides by how much. The generator is the machine's own, seeded from outside; it is not for secrets.

use fastrand::Rng;

/// `value` moved up or down by at most `percent` of itself.
pub(crate) fn spread(random: &mut Rng, value: u64, percent: u8) -> u64 {
    let reach = (u128::from(value) * u128::from(percent) / 100) as u64;
    if reach == 0 {
        return value;
    }
    (value - reach.min(value)).saturating_add(random.u64(..=reach.saturating_mul(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_value_stays_within_its_percentage_and_varies() {
        let mut random = Rng::with_seed(3);
        let values: Vec<u64> = (0..1_000).map(|_| spread(&mut random, 1_000, 20)).collect();
        assert!(values.iter().all(|v| (800..=1_200).contains(v)));
        assert!(values.iter().any(|v| *v < 850) && values.iter().any(|v| *v > 1_150));
        assert_eq!(spread(&mut random, 1_000, 0), 1_000);
        assert_eq!(spread(&mut random, 0, 100), 0);
        assert!(spread(&mut random, u64::MAX, 100) > 0, "the largest value does not overflow");
    }
}
