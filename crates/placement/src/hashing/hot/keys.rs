//! Decides when a key is hot and over how many owners to spread it.
//!
//! Knows how often keys are asked for, not which node is loaded: a key can be hot on an idle cluster, and a node can
//! be loaded without a hot key. Rules, with `share` the part of all requests that one owner should bear for one key:
//!
//! - A key is hot when its certain count is at least `count_min` and more than `share` of all requests.
//! - It is spread over 2, 4, 8 … owners, up to `owners_max`: so many that each bears at most `share`. Steps of two
//!   keep the number steady, and owners are only added behind those that serve the key already.
//! - It is spread less when half of what would call for the present step is not reached any more, so that a key at the
//!   edge does not flutter, and is cold when fewer than 2 owners are left.
//! - Counts halve at each `window`, so heat fades within a few windows after the requests stop.
//!
//! Why certain counts on the way up and estimates on the way down: a key that merely took over a large counter never
//! becomes hot, and a hot key is not dropped because of an error in its favour.
//!
//! At first start nothing is hot until one key was asked for `count_min` times.

use std::time::Duration;

use super::super::error::Error;
use super::super::ring::OWNERS_INLINE;
use super::space_saving::{Counter, KEYS_MAX, SpaceSaving};

/// The most owners over which a key is spread.
pub const SPREAD_MAX: usize = OWNERS_INLINE;

/// After so many halvings nothing is left of any count.
const FADES_MAX: u128 = 64;

/// When a key is hot and what is done about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How many keys are counted at once.
    pub keys: usize,
    /// The part of all requests above which a key is hot, and which each of its owners should bear at most. Above
    /// 1 / `keys`, or keys could be hot and have no counter.
    pub share: f64,
    /// Requests for a key within about two windows below which it is never hot.
    pub count_min: u64,
    /// After this time a request counts half.
    pub window: Duration,
    /// The most owners over which a key is spread, from 2 to [`SPREAD_MAX`].
    pub owners_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            keys: 128,
            share: 0.02,
            count_min: 100,
            window: Duration::from_secs(10),
            owners_max: 8,
        }
    }
}

impl Settings {
    fn check(&self) -> Result<(), Error> {
        if self.keys < 2 || self.keys > KEYS_MAX {
            let cure = format!("it must be from 2 to {KEYS_MAX}");
            return Err(Error::setting("keys", self.keys, cure));
        }
        let least = 1.0 / self.keys as f64;
        if !(self.share > least && self.share < 1.0) {
            let cure = format!("it must lie between 1 / `keys`, which is {least}, and 1");
            return Err(Error::setting("share", self.share, cure));
        }
        if self.count_min == 0 {
            return Err(Error::setting("count_min", 0, "it must be at least 1; 100 is usual"));
        }
        if self.window.is_zero() {
            return Err(Error::setting("window", "0 s", "it must be longer than 0 s"));
        }
        if !(2..=SPREAD_MAX).contains(&self.owners_max) {
            let cure = format!("it must be from 2 to {SPREAD_MAX}");
            return Err(Error::setting("owners_max", self.owners_max, cure));
        }
        Ok(())
    }

    /// The spread that a count calls for, given the present one, of which 0 means that there was none.
    fn spread_for(&self, counter: Counter, before: u8, total: u64) -> u8 {
        let most = self.owners_max as u8;
        let per_owner = (self.share * total as f64).max(1.0);
        let mut wanted = 1;
        if counter.sure() >= self.count_min {
            while wanted < most && counter.sure() as f64 > per_owner * f64::from(wanted) {
                wanted = (wanted * 2).min(most);
            }
        }
        let mut kept = if counter.count < self.count_min / 2 { 1 } else { before };
        // A spread of r was called for by more than r / 2 shares; it is kept down to half of that.
        while kept > 1 && counter.count as f64 <= per_owner * f64::from(kept) / 4.0 {
            kept /= 2;
        }
        wanted.max(kept)
    }
}

/// A key that is hot now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HotKey {
    /// Its count.
    pub counter: Counter,
    /// Its estimated part of all requests, from 0 to 1.
    pub share: f64,
    /// Over how many owners it is spread.
    pub spread: usize,
}

/// Finds hot keys in a stream of requests and says how far to spread each.
#[derive(Clone, Debug)]
pub struct HotKeys {
    settings: Settings,
    /// The present spread of each key is kept as its mark.
    counts: SpaceSaving,
    faded_at: Option<Duration>,
}

impl HotKeys {
    /// Nothing is hot yet.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        Ok(Self { settings, counts: SpaceSaving::new(settings.keys)?, faded_at: None })
    }

    /// Counts a request for a key and says over how many owners it is spread: 1 if it is not hot.
    pub fn record(&mut self, key: u64, now: Duration) -> usize {
        self.fade_until(now);
        let settings = self.settings;
        let renew = |counter, before, total| settings.spread_for(counter, before, total);
        usize::from(self.counts.record_marked(key, renew).1)
    }

    /// Over how many owners a key is spread, without counting a request: 1 if it is not hot.
    pub fn spread(&self, key: u64) -> usize {
        let (settings, total) = (self.settings, self.counts.total());
        let spread = |(counter, before)| usize::from(settings.spread_for(counter, before, total));
        self.counts.marked(key).map_or(1, spread)
    }

    /// The keys that are hot, hottest first.
    pub fn hot(&self) -> impl Iterator<Item = HotKey> + '_ {
        let (settings, total) = (self.settings, self.counts.total());
        self.counts.top_marked().filter_map(move |(counter, before)| {
            let spread = usize::from(settings.spread_for(counter, before, total));
            let share = counter.count as f64 / total as f64;
            (spread > 1).then_some(HotKey { counter, share, spread })
        })
    }

    /// The counts beneath.
    pub fn counts(&self) -> &SpaceSaving {
        &self.counts
    }

    /// Lets time pass without a request, so that what is reported has faded.
    pub fn fade_until(&mut self, now: Duration) {
        let since = *self.faded_at.get_or_insert(now);
        let passed = now.saturating_sub(since);
        if passed < self.settings.window {
            return;
        }
        let windows = passed.as_nanos() / self.settings.window.as_nanos();
        if windows >= FADES_MAX {
            self.counts.clear();
            self.faded_at = Some(now);
            return;
        }
        for _ in 0..windows {
            self.counts.fade();
        }
        self.faded_at = Some(since + self.settings.window * windows as u32);
    }
}

/// Draws two of `count` owners and gives the one with the lower load; the first drawn if they are equal ("The Power of
/// Two Choices in Randomized Load Balancing", Mitzenmacher 2001). 0 if there are fewer than two.
pub fn two_choices(random: &mut fastrand::Rng, count: usize, load: impl Fn(usize) -> f64) -> usize {
    if count < 2 {
        return 0;
    }
    let first = random.usize(..count);
    // One of the others: the numbers from the first on are shifted by one.
    let other = random.usize(..count - 1);
    let second = if other < first { other } else { other + 1 };
    if load(second) < load(first) { second } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn keys() -> HotKeys {
        HotKeys::new(Settings { count_min: 50, ..Settings::default() }).unwrap()
    }

    /// A thousand requests of which `percent` % are for key 7, at one moment.
    fn ask(keys: &mut HotKeys, percent: u64, now: Duration) {
        for at in 0..1_000_u64 {
            let key = if at % 100 < percent { 7 } else { 1_000 + at * 7_919 };
            keys.record(key, now);
        }
    }

    #[test]
    fn the_spread_follows_the_share_of_the_key() {
        for (percent, spread) in [(1, 1), (3, 2), (7, 4), (15, 8), (90, 8)] {
            let mut keys = keys();
            (0..10).for_each(|_| ask(&mut keys, percent, SECOND));
            assert_eq!(keys.spread(7), spread, "at {percent} %");
            assert_eq!(keys.spread(1_000), 1);
            assert_eq!(keys.hot().count(), usize::from(spread > 1));
        }
    }

    #[test]
    fn a_key_cools_when_its_requests_stop_and_not_at_once() {
        let mut keys = keys();
        ask(&mut keys, 50, SECOND);
        assert_eq!(keys.spread(7), 8);
        let spreads: Vec<usize> = (1..9)
            .map(|window| {
                ask(&mut keys, 0, SECOND * 10 * window + SECOND);
                keys.spread(7)
            })
            .collect();
        assert_eq!(spreads, [8, 8, 4, 2, 1, 1, 1, 1]);
        assert_eq!(keys.hot().count(), 0);
    }

    #[test]
    fn a_share_at_the_edge_does_not_flutter() {
        let mut keys = keys();
        (0..5).for_each(|_| ask(&mut keys, 3, SECOND));
        assert_eq!(keys.spread(7), 2);
        for round in 1..40_u32 {
            // Just below the share that made it hot, just above, and so on.
            ask(&mut keys, if round % 2 == 0 { 3 } else { 1 }, SECOND * round);
            assert_eq!(keys.spread(7), 2, "in round {round}");
        }
    }

    #[test]
    fn few_requests_make_nothing_hot() {
        let mut keys = keys();
        assert!((0..49).all(|_| keys.record(7, SECOND) == 1));
        assert!(keys.record(7, SECOND) > 1);
    }

    #[test]
    fn a_key_that_took_over_a_large_counter_is_not_hot() {
        let settings = Settings { keys: 2, share: 0.6, count_min: 10, ..Settings::default() };
        let mut keys = HotKeys::new(settings).unwrap();
        for key in 0..1_000 {
            assert_eq!(keys.record(key, SECOND), 1, "key {key}");
        }
    }

    #[test]
    fn a_count_that_is_not_certain_makes_nothing_hot() {
        let settings = Settings { keys: 10, share: 0.11, count_min: 20, ..Settings::default() };
        let mut keys = HotKeys::new(settings).unwrap();
        (0..100).for_each(|at| assert_eq!(keys.record(at % 10, SECOND), 1));
        // It goes on from a count of 10, so its estimate is 20 when only 10 are certain.
        (0..19).for_each(|_| assert_eq!(keys.record(99, SECOND), 1));
        assert_eq!(keys.record(99, SECOND), 2);
    }

    #[test]
    fn a_long_silence_forgets_everything_and_time_may_stand_still() {
        let mut keys = keys();
        ask(&mut keys, 50, SECOND * 100);
        keys.fade_until(SECOND * 50);
        assert_eq!(keys.counts().total(), 1_000);
        keys.fade_until(SECOND * 100_000);
        assert_eq!((keys.counts().total(), keys.spread(7)), (0, 1));
    }

    #[test]
    fn nonsense_is_refused_with_the_field() {
        let good = Settings::default();
        let cases = [
            ("`keys`", Settings { keys: 1, ..good }),
            ("`share`", Settings { share: 0.001, ..good }),
            ("`share`", Settings { share: 1.0, ..good }),
            ("`share`", Settings { share: f64::NAN, ..good }),
            ("`count_min`", Settings { count_min: 0, ..good }),
            ("`window`", Settings { window: Duration::ZERO, ..good }),
            ("`owners_max`", Settings { owners_max: 1, ..good }),
            ("`owners_max`", Settings { owners_max: 17, ..good }),
        ];
        for (field, settings) in cases {
            let error = HotKeys::new(settings).unwrap_err();
            assert!(error.to_string().starts_with(field), "{error}");
        }
    }

    #[test]
    fn of_two_owners_the_less_loaded_is_chosen_and_all_are_drawn() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut drawn = [0; 4];
        for _ in 0..4_000 {
            drawn[two_choices(&mut random, 4, |_| 0.0)] += 1;
        }
        assert!(drawn.iter().all(|times| (800..1_200).contains(times)), "{drawn:?}");
        let busiest = |at: usize| if at == 2 { 1.0 } else { 0.0 };
        assert!((0..1_000).all(|_| two_choices(&mut random, 4, busiest) != 2));
        assert_eq!(two_choices(&mut random, 1, busiest), 0);
        assert_eq!(two_choices(&mut random, 0, busiest), 0);
    }
}
