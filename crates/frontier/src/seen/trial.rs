//! A measurement of the filter: how much memory so many keys take, and how often it is wrong.
//!
//! Keys are drawn from a seed. It has no clock; who wants to know how long it takes looks at its own.

use super::chain::Chain;

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Trial {
    /// Keys that were added.
    pub keys: u64,
    /// What the filter takes in memory.
    pub bytes: u64,
    /// Bits for each key.
    pub bits_per_key: f64,
    /// Unknown keys that it was asked for.
    pub asked: u64,
    /// Of these, how many it took for known.
    pub wrong: u64,
    /// The share of these.
    pub rate: f64,
    /// The share that the filter expects of itself.
    pub rate_expected: f64,
    /// Known keys, of as many as were asked, that it did not know; must be none.
    pub forgotten: u64,
}

/// Adds so many keys to a filter that was made for them, and asks it for known and unknown ones.
pub fn measure(keys: u64, rate: f64, asked: u64, seed: u64) -> Trial {
    let mut chain = Chain::new(keys, rate);
    (0..keys).for_each(|n| chain.insert(key(seed, n)));
    let step = (keys / asked.max(1)).max(1);
    let known = (0..asked.min(keys)).map(|n| key(seed, n * step % keys.max(1)));
    let forgotten = known.filter(|known| !chain.contains(*known)).count() as u64;
    let wrong = (0..asked).filter(|n| chain.contains(key(seed, keys + n))).count() as u64;
    Trial {
        keys,
        bytes: chain.bytes(),
        bits_per_key: chain.bytes() as f64 * 8.0 / keys.max(1) as f64,
        asked,
        wrong,
        rate: wrong as f64 / asked.max(1) as f64,
        rate_expected: chain.rate(),
        forgotten,
    }
}

/// The `n`-th key: as well mixed as the fingerprint of an address, and unlike all others of the seed.
fn key(seed: u64, n: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(&n.to_le_bytes(), seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_keys_at_one_percent_take_what_a_hundredth_of_the_target_allows() {
        let trial = measure(1_000_000, 0.01, 300_000, 1);
        assert!(trial.bytes <= 1_350_000 && trial.forgotten == 0, "{trial:?}");
        assert!(trial.rate <= 0.01 && trial.rate > 0.006, "{trial:?}");
        assert!((trial.rate - trial.rate_expected).abs() < 0.1 * trial.rate, "{trial:?}");
    }
}
