//! Skewed choices: the nth most frequent of some things is chosen in proportion to 1 / n^skew.
//!
//! Alias tables after Walker (1977): one random number, one look.

/// A skewed choice.
pub struct Zipf {
    /// For each place: how much of it is its own, of 2^32, and whose the rest is.
    places: Vec<(u32, u32)>,
}

impl Zipf {
    /// Among so many things, at least one.
    pub fn new(count: u32, skew: f64) -> Self {
        let count = count.max(1) as usize;
        let weights: Vec<f64> = (1..=count).map(|nth| (nth as f64).powf(-skew)).collect();
        let scale = count as f64 / weights.iter().sum::<f64>();
        let mut shares: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..count as u32).partition(|nth| shares[*nth as usize] < 1.0);
        let mut places: Vec<(u32, u32)> = (0..count as u32).map(|nth| (u32::MAX, nth)).collect();
        while let (Some(less), Some(more)) = (small.pop(), large.pop()) {
            let share = shares[less as usize];
            places[less as usize] = ((share * f64::from(u32::MAX)) as u32, more);
            shares[more as usize] -= 1.0 - share;
            if shares[more as usize] < 1.0 { small.push(more) } else { large.push(more) }
        }
        Self { places }
    }

    /// One of them, from 0; the most frequent is 0.
    #[inline]
    pub fn choose(&self, chance: &mut fastrand::Rng) -> u32 {
        let random = chance.u64(..);
        let at = ((random >> 32) * self.places.len() as u64) >> 32;
        let (own, other) = self.places[at as usize];
        if random as u32 <= own { at as u32 } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_are_those_of_the_law() {
        let zipf = Zipf::new(100, 1.0);
        let mut chance = fastrand::Rng::with_seed(1);
        let mut counts = [0u32; 100];
        (0..200_000).for_each(|_| counts[zipf.choose(&mut chance) as usize] += 1);
        let sum: f64 = (1..=100).map(|nth| 1.0 / f64::from(nth)).sum();
        for nth in [0, 1, 9, 49] {
            let wanted = 200_000.0 / sum / (nth as f64 + 1.0);
            let found = f64::from(counts[nth]);
            assert!((found / wanted - 1.0).abs() < 0.15, "{nth}: {found} {wanted}");
        }
        assert_eq!(Zipf::new(0, 1.0).choose(&mut chance), 0);
    }
}
