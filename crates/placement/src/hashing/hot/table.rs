//! Decides where the counter of a key is: a small hash table of fixed size, the same in every run.
//!
//! Knows keys as hashes and counters as numbers. Open addressing with linear probing; a removal closes the gap, so
//! there are no marks of removed entries and the table never has to be rebuilt. At most a quarter of it is in use. Where
//! a key belongs is given by one multiplication (Fibonacci hashing, Knuth 1973), which suits plain numbers too.

use super::super::STREAM_STEP;

const EMPTY: u32 = u32::MAX;
/// Places per key: with fewer, searches for keys that are not there would run long.
const PLACES_PER_KEY: usize = 4;

#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Key and counter; a counter of [`EMPTY`] marks a free place.
    places: Vec<(u64, u32)>,
}

impl Table {
    /// A table for this many keys.
    pub(super) fn new(keys: usize) -> Self {
        Self { places: vec![(0, EMPTY); (keys * PLACES_PER_KEY).next_power_of_two()] }
    }

    pub(super) fn get(&self, key: u64) -> Option<u32> {
        let (held, counter) = self.places[self.find(key)];
        (held == key && counter != EMPTY).then_some(counter)
    }

    /// Enters a key that is not there.
    pub(super) fn insert(&mut self, key: u64, counter: u32) {
        let place = self.find(key);
        debug_assert_eq!(self.places[place].1, EMPTY, "the key is there already");
        self.places[place] = (key, counter);
    }

    /// Removes a key that is there, and moves up those that had to give way to it.
    pub(super) fn remove(&mut self, key: u64) {
        let mut gap = self.find(key);
        debug_assert_ne!(self.places[gap].1, EMPTY, "the key is not there");
        let mut at = gap;
        loop {
            at = self.after(at);
            let (key, counter) = self.places[at];
            if counter == EMPTY {
                break;
            }
            // An entry may move into the gap unless it would then lie before its home.
            let from_home = at.wrapping_sub(self.home(key)) & self.mask();
            let from_gap = at.wrapping_sub(gap) & self.mask();
            if from_home >= from_gap {
                self.places[gap] = self.places[at];
                gap = at;
            }
        }
        self.places[gap].1 = EMPTY;
    }

    pub(super) fn clear(&mut self) {
        self.places.fill((0, EMPTY));
    }

    /// Where the key is, or the free place where it would be.
    fn find(&self, key: u64) -> usize {
        let mut at = self.home(key);
        while self.places[at].1 != EMPTY && self.places[at].0 != key {
            at = self.after(at);
        }
        at
    }

    fn home(&self, key: u64) -> usize {
        // The high bits of the product depend on all bits of the key.
        (key.wrapping_mul(STREAM_STEP) >> (64 - self.places.len().trailing_zeros())) as usize
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & self.mask()
    }

    fn mask(&self) -> usize {
        self.places.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn holds_what_a_map_holds(steps in proptest::collection::vec((0_u64..24, any::<bool>()), 0..400)) {
            let mut table = Table::new(12);
            let mut map: BTreeMap<u64, u32> = BTreeMap::new();
            for (at, (key, add)) in steps.into_iter().enumerate() {
                if map.remove(&key).is_some() {
                    table.remove(key);
                } else if add && map.len() < 12 {
                    table.insert(key, at as u32);
                    map.insert(key, at as u32);
                }
                for key in 0..24 {
                    prop_assert_eq!(table.get(key), map.get(&key).copied());
                }
            }
        }
    }
}
