//! The machine's own random numbers: SplitMix64 (Steele, Lea, Flood 2014). Not for secrets.

#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// `value` moved up or down by at most `percent` of itself.
    pub(crate) fn spread(&mut self, value: u64, percent: u8) -> u64 {
        let reach = (u128::from(value) * u128::from(percent) / 100) as u64;
        if reach == 0 {
            return value;
        }
        let width = reach.saturating_mul(2).saturating_add(1);
        (value - reach.min(value)).saturating_add(self.next() % width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_value_stays_within_its_percentage_and_varies() {
        let mut random = Random::seeded(3);
        let values: Vec<u64> = (0..1_000).map(|_| random.spread(1_000, 20)).collect();
        assert!(values.iter().all(|v| (800..=1_200).contains(v)));
        assert!(values.iter().any(|v| *v < 850) && values.iter().any(|v| *v > 1_150));
        assert_eq!(random.spread(1_000, 0), 1_000);
        assert_eq!(random.spread(0, 100), 0);
    }
}
