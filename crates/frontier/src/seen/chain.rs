//! A filter that grows: a full one stays as it is, and a larger one with a tighter rate is put behind it.
//!
//! The first filter gets most of the rate, because most crawls never need a second; each further one halves what is left,
//! so that all together never pass it (P. Almeida et al., *Scalable Bloom Filters*, 2007).

use super::filter::Filter;

/// What the first filter gets of the rate.
const FIRST_SHARE: f64 = 0.8;
/// The least that a filter is made for.
const CAPACITY_MIN: u64 = 4_096;
/// After so many keys the estimate of the rate is made anew.
const ESTIMATE_EVERY: u64 = 4_096;

/// Filters, the oldest first; only the last one grows.
#[derive(Clone, Debug)]
pub struct Chain {
    filters: Vec<Filter>,
    rate_left: f64,
    rate: f64,
    len: u64,
}

impl Chain {
    /// A chain for so many keys at first, that takes at most this share of others for known, however long it gets.
    pub fn new(expected: u64, rate: f64) -> Self {
        let first = Filter::new(expected.max(CAPACITY_MIN), rate * FIRST_SHARE);
        Self { filters: vec![first], rate_left: rate * (1.0 - FIRST_SHARE), rate: 0.0, len: 0 }
    }

    /// Adds a key.
    pub fn insert(&mut self, key: u64) {
        if self.last().is_full() {
            self.rate_left /= 2.0;
            let larger = Filter::new(self.last().capacity() * 2, self.rate_left);
            self.filters.push(larger);
        }
        self.filters.last_mut().expect("a chain has a filter").insert(key);
        self.len += 1;
        if self.len.is_multiple_of(ESTIMATE_EVERY) {
            let passed: f64 = self.filters.iter().map(|filter| 1.0 - filter.rate()).product();
            self.rate = 1.0 - passed;
        }
    }

    /// Whether the key may have been added; never no for one that was. The newest filter is the largest and is asked
    /// first.
    pub fn contains(&self, key: u64) -> bool {
        self.filters.iter().rev().any(|filter| filter.contains(key))
    }

    /// How many keys were added.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether no key was added.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many filters there are.
    pub fn filters(&self) -> usize {
        self.filters.len()
    }

    /// What it takes in memory.
    pub fn bytes(&self) -> u64 {
        self.filters.iter().map(Filter::bytes).sum()
    }

    /// The share of unknown keys that are taken for known, as full as it is; a little old.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    fn last(&self) -> &Filter {
        self.filters.last().expect("a chain has a filter")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_keeps_its_rate_when_it_grows_thirtyfold() {
        let mut chain = Chain::new(10_000, 0.01);
        let mut random = fastrand::Rng::with_seed(4);
        let keys: Vec<u64> = (0..300_000).map(|_| random.u64(..)).collect();
        keys.iter().for_each(|key| chain.insert(*key));
        assert_eq!((chain.filters(), chain.len()), (5, 300_000));
        assert!(keys.iter().all(|key| chain.contains(*key)));
        let wrong = (0..200_000).filter(|_| chain.contains(random.u64(..))).count();
        let measured = wrong as f64 / 200_000.0;
        assert!(measured <= 0.01 && measured > 0.004, "{measured}");
        assert!(
            (measured - chain.rate()).abs() < 0.2 * measured,
            "{measured} for {}",
            chain.rate()
        );
    }
}
