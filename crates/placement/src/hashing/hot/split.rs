//! Decides into how many parts a key is split for writing, and how many parts must be read to see all of it.
//!
//! Knows which keys were split, not what is in the parts. Rules: part 0 is the key itself, so a key that was never
//! split needs no special case and a split moves nothing. Writing may shrink at once when a key cools. Reading may
//! not: the parts still hold what was written, until somebody has folded them into part 0 and says so
//! ([`Splits::merged`]). That is why this memory is apart from the counters of hot keys, which forget.
//!
//! Writers and readers must share it: in one process, or by storing the number of parts with part 0. Readers without
//! it must always read as many parts as writers may ever use.
//!
//! At first start nothing is split. If data outlives the process, [`Splits::restore`] the keys that were.

use std::collections::BTreeMap;

use super::keys::SPREAD_MAX;

/// The most keys that are split at once. Above it, hot keys stay whole.
pub const SPLITS_MAX: usize = 1 << 16;

/// The name of a part of a key: `key` itself for part 0, else `key#1`, `key#2` and so on.
pub fn part_name(key: &str, part: usize) -> String {
    if part == 0 { key.to_owned() } else { format!("{key}#{part}") }
}

/// The keys that have more than one part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Splits {
    /// How many parts may hold something, by key.
    parts: BTreeMap<u64, u8>,
}

impl Splits {
    /// Nothing is split.
    pub fn new() -> Self {
        Self::default()
    }

    /// Over how many parts to write a key that is spread this far (see [`super::HotKeys::spread`]). Write to any one
    /// of them, drawn at random.
    pub fn write(&mut self, key: u64, spread: usize) -> usize {
        let spread = spread.clamp(1, SPREAD_MAX);
        if spread > self.read(key) {
            if self.parts.len() >= SPLITS_MAX && !self.parts.contains_key(&key) {
                return 1;
            }
            self.parts.insert(key, spread as u8);
        }
        spread
    }

    /// How many parts to read and merge: as many as were ever written to since the last merge.
    pub fn read(&self, key: u64) -> usize {
        self.parts.get(&key).map_or(1, |parts| usize::from(*parts))
    }

    /// The keys that have more than one part, with the number of parts.
    pub fn iter(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        self.parts.iter().map(|(key, parts)| (*key, usize::from(*parts)))
    }

    /// All parts were folded into part 0, and nobody writes to the others any more.
    pub fn merged(&mut self, key: u64) {
        self.parts.remove(&key);
    }

    /// Takes a key over that was split before a restart.
    pub fn restore(&mut self, key: u64, parts: usize) {
        self.write(key, parts);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn part_zero_is_the_key() {
        assert_eq!(
            [0, 1, 12].map(|part| part_name("likes", part)),
            ["likes", "likes#1", "likes#12"]
        );
    }

    #[test]
    fn keys_beyond_the_limit_stay_whole() {
        let mut splits = Splits::new();
        for key in 0..SPLITS_MAX as u64 {
            assert_eq!(splits.write(key, 2), 2);
        }
        assert_eq!((splits.write(u64::MAX, 4), splits.read(u64::MAX)), (1, 1));
        assert_eq!(splits.write(0, 4), 4);
        splits.merged(1);
        assert_eq!(splits.write(u64::MAX, 4), 4);
    }

    /// A key, how far it is spread, whether it is merged before, and which part is drawn.
    fn any_step() -> impl Strategy<Value = (u64, usize, bool, prop::sample::Index)> {
        (0_u64..3, 0_usize..20, any::<bool>(), any::<prop::sample::Index>())
    }

    proptest! {
        #[test]
        fn every_part_that_was_written_is_read(
            steps in proptest::collection::vec(any_step(), 0..100),
        ) {
            let mut splits = Splits::new();
            let mut stored: BTreeMap<(u64, usize), u64> = BTreeMap::new();
            let mut written = [0_u64; 3];
            for (key, spread, merge, draw) in steps {
                if merge {
                    let all: u64 = (0..splits.read(key)).filter_map(|part| stored.remove(&(key, part))).sum();
                    stored.insert((key, 0), all);
                    splits.merged(key);
                }
                let part = draw.index(splits.write(key, spread));
                *stored.entry((key, part)).or_default() += 1;
                written[key as usize] += 1;
                for key in 0..3 {
                    let sum: u64 = (0..splits.read(key)).filter_map(|part| stored.get(&(key, part))).sum();
                    prop_assert_eq!(sum, written[key as usize]);
                }
            }
        }
    }
}
