//! Decides what is asked for: calm, then heat on one key in a hundred, then calm again.
//!
//! In the heat, a set share of all requests goes to a few keys. How it is spread among them is the profile: by
//! popularity, as with celebrities (the k-th gets 1/k of what the first gets), or evenly.

use std::time::Duration;

/// Keys in all.
pub(super) const KEYS: usize = 10_000;
/// Keys that become hot: one in a hundred.
pub(super) const HOT_KEYS: usize = KEYS / 100;
/// The share of all requests that goes to them.
pub(super) const HOT_SHARE: f64 = 0.9;

/// How the heat is spread among the hot keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Profile {
    /// The k-th gets 1/k of what the first gets.
    Celebrities,
    /// All get the same.
    Even,
}

/// When the heat begins and ends, and when everything ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) heat_from: Duration,
    pub(super) heat_to: Duration,
    pub(super) end: Duration,
}

impl Times {
    /// Whether it is hot at this moment.
    pub(super) fn is_hot(&self, now: Duration) -> bool {
        (self.heat_from..self.heat_to).contains(&now)
    }
}

/// A source of requests.
pub(super) struct Traffic {
    times: Times,
    /// The share of requests up to and including each hot key, by number.
    cumulated: Vec<f64>,
    read_share: f64,
    gap: Duration,
    now: Duration,
    random: fastrand::Rng,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) at: Duration,
    /// The number of the key; those below [`HOT_KEYS`] are the ones that become hot.
    pub(super) key: usize,
    pub(super) is_read: bool,
}

impl Traffic {
    /// Requests with a mean gap; all chance is from the seed, so that every way faces the same ones.
    pub(super) fn new(
        profile: Profile,
        times: Times,
        read_share: f64,
        gap: Duration,
        seed: u64,
    ) -> Self {
        let mut sum = 0.0;
        let cumulated = shares(profile).into_iter().map(|share| {
            sum += share;
            sum
        });
        let cumulated = cumulated.collect();
        let random = fastrand::Rng::with_seed(seed);
        Self { times, cumulated, read_share, gap, now: Duration::ZERO, random }
    }

    fn key(&mut self) -> usize {
        let draw = self.random.f64();
        let any = self.random.usize(..KEYS);
        if !self.times.is_hot(self.now) {
            return any;
        }
        let hot = self.cumulated.partition_point(|sum| *sum <= draw);
        if hot < HOT_KEYS { hot } else { HOT_KEYS + any % (KEYS - HOT_KEYS) }
    }
}

impl Iterator for Traffic {
    type Item = Ask;

    fn next(&mut self) -> Option<Ask> {
        self.now += self.gap.mul_f64(-(1.0 - self.random.f64()).ln());
        if self.now >= self.times.end {
            return None;
        }
        let key = self.key();
        let is_read = self.random.f64() < self.read_share;
        Some(Ask { at: self.now, key, is_read })
    }
}

/// The share of all requests that each hot key gets in the heat, by number.
pub(super) fn shares(profile: Profile) -> Vec<f64> {
    let part = |key: usize| match profile {
        Profile::Celebrities => 1.0 / (key + 1) as f64,
        Profile::Even => 1.0,
    };
    let sum: f64 = (0..HOT_KEYS).map(part).sum();
    (0..HOT_KEYS).map(|key| HOT_SHARE * part(key) / sum).collect()
}

/// The name of a key.
pub(super) fn name(key: usize) -> String {
    format!("post_{key}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_heat_nine_in_ten_are_for_one_key_in_a_hundred() {
        let second = Duration::from_secs(1);
        let times = Times { heat_from: second, heat_to: second * 3, end: second * 4 };
        let gap = Duration::from_micros(50);
        let asks: Vec<Ask> = Traffic::new(Profile::Celebrities, times, 0.3, gap, 1).collect();
        assert!((75_000..85_000).contains(&asks.len()), "{}", asks.len());
        assert!(asks.is_sorted_by_key(|ask| ask.at));
        let share = |hot: bool, matches: &dyn Fn(&Ask) -> bool| {
            let asks = asks.iter().filter(|ask| times.is_hot(ask.at) == hot);
            asks.clone().filter(|ask| matches(ask)).count() as f64 / asks.count() as f64
        };
        assert!((share(true, &|ask| ask.key < HOT_KEYS) - HOT_SHARE).abs() < 0.01);
        assert!((share(false, &|ask| ask.key < HOT_KEYS) - 0.01).abs() < 0.005);
        let first = shares(Profile::Celebrities)[0];
        assert!((share(true, &|ask| ask.key == 0) - first).abs() < 0.01);
        assert!((share(true, &|ask| ask.is_read) - 0.3).abs() < 0.02);
    }
}
