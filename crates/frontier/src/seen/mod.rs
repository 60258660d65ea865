//! Which addresses were found before: a filter in memory in front of exact fingerprints elsewhere.
//!
//! It decides about 64-bit fingerprints, which must be well mixed; it does not know addresses or files. In
//! [`Mode::Exact`] the filter is a cache: what it has not is new, about the rest the store is asked. In [`Mode::Bloom`] the
//! filter is all there is, and [`Seen::losses`] says how many new addresses it has taken for known ones.
//!
//! Most links of a page are known and were met a moment ago, so a small table of exact fingerprints stands before the
//! filter. [`filter`] is one filter, [`chain`] lets it grow, [`trial`] measures it.

pub mod chain;
pub mod filter;
pub mod trial;

use chain::Chain;

/// Fingerprints that are remembered exactly; a power of two.
const RECENT: usize = 1 << 16;

/// Whether the filter is believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// No: exact fingerprints behind it decide.
    #[default]
    Exact,
    /// Yes: an address that it takes for known is lost.
    Bloom,
}

/// How large and how good the filter is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Whether it is believed.
    pub mode: Mode,
    /// How many addresses are expected; with more, it grows.
    pub expected: u64,
    /// The share of new addresses that it may take for known ones.
    pub rate: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { mode: Mode::Exact, expected: 1_000_000, rate: 0.01 }
    }
}

/// What is known of a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It was not there; it is now.
    New,
    /// It was there.
    Known,
    /// The filter cannot tell; exact fingerprints can.
    Ask,
}

/// What was found before.
#[derive(Clone, Debug)]
pub struct Seen {
    mode: Mode,
    chain: Chain,
    recent: Vec<u64>,
    losses: f64,
}

impl Seen {
    /// Nothing was found before.
    pub fn new(settings: Settings) -> Self {
        Self {
            mode: settings.mode,
            chain: Chain::new(settings.expected, settings.rate),
            recent: vec![0; RECENT],
            losses: 0.0,
        }
    }

    /// Whether the filter is believed.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// An address was found. It counts as known from now on, unless the answer is [`Offer::Ask`].
    pub fn offer(&mut self, fingerprint: u64) -> Offer {
        if self.recent[slot(fingerprint)] == fingerprint {
            return Offer::Known;
        }
        if self.chain.contains(fingerprint) {
            return match self.mode {
                Mode::Exact => Offer::Ask,
                Mode::Bloom => Offer::Known,
            };
        }
        if self.mode == Mode::Bloom {
            // For each that is taken as new, so many on average were taken for known.
            let rate = self.chain.rate();
            self.losses += rate / (1.0 - rate).max(f64::MIN_POSITIVE);
        }
        self.remember(fingerprint);
        Offer::New
    }

    /// Whether it may have been found before. Changes nothing.
    pub fn may_contain(&self, fingerprint: u64) -> bool {
        self.recent[slot(fingerprint)] == fingerprint || self.chain.contains(fingerprint)
    }

    /// It is known from elsewhere: the store has it, or it was admitted after the store was asked.
    pub fn know(&mut self, fingerprint: u64) {
        self.recent[slot(fingerprint)] = fingerprint;
    }

    /// It was found before and is put back, when a crawl goes on.
    pub fn remember(&mut self, fingerprint: u64) {
        self.chain.insert(fingerprint);
        self.know(fingerprint);
    }

    /// How many were remembered.
    pub fn len(&self) -> u64 {
        self.chain.len()
    }

    /// Whether nothing was.
    pub fn is_empty(&self) -> bool {
        self.chain.len() == 0
    }

    /// The share of new addresses that the filter takes for known ones, as full as it is.
    pub fn rate(&self) -> f64 {
        self.chain.rate()
    }

    /// So many were lost before, when a crawl goes on.
    pub fn lost_before(&mut self, losses: f64) {
        self.losses = losses;
    }

    /// How many new addresses were lost, estimated; none in [`Mode::Exact`].
    pub fn losses(&self) -> f64 {
        self.losses
    }

    /// What it takes in memory.
    pub fn bytes(&self) -> u64 {
        self.chain.bytes() + (RECENT * size_of::<u64>()) as u64
    }
}

fn slot(fingerprint: u64) -> usize {
    // The high bits choose the block of the filter.
    fingerprint as usize & (RECENT - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(seed: u64, count: usize) -> Vec<u64> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..count).map(|_| random.u64(1..)).collect()
    }

    #[test]
    fn what_the_filter_has_not_is_new_and_about_the_rest_the_store_is_asked() {
        let mut seen = Seen::new(Settings { expected: 1_000, ..Settings::default() });
        let keys = keys(1, 200_000);
        let asked = keys.iter().filter(|key| seen.offer(**key) == Offer::Ask).count();
        assert!((200..4_000).contains(&asked), "{asked} false positives of 200,000");
        assert_eq!(seen.losses(), 0.0);
        let answers: Vec<Offer> = keys.iter().map(|key| seen.offer(*key)).collect();
        assert!(!answers.contains(&Offer::New));
        assert!(answers.contains(&Offer::Known) && answers.contains(&Offer::Ask));
    }

    #[test]
    fn without_a_store_the_estimate_of_losses_is_near_the_truth() {
        let settings = Settings { mode: Mode::Bloom, expected: 100_000, rate: 0.01 };
        let mut seen = Seen::new(settings);
        let lost = keys(2, 400_000).iter().filter(|key| seen.offer(**key) == Offer::Known).count();
        let estimate = seen.losses();
        assert!((lost as f64 - estimate).abs() < 0.2 * estimate, "{lost} lost, {estimate} thought");
        assert!(lost < 4_800, "{lost} lost, the rate is within 1.2 times what was asked for");
    }
}
