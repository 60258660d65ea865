//! Decides which keys are remembered: the ones that were used most recently, up to a fixed number.
//!
//! Knows nothing of targets. Keys are 64-bit hashes. Entries lie in one vector that never grows beyond the number
//! set; chains through it serve as buckets, and a list through it holds the order of use. Every operation costs the
//! same however many keys there are, and nothing is allocated once the table is full.

/// The end of a chain or list.
const NONE: u32 = u32::MAX;

/// A bounded map from key to value that forgets what was not used longest.
#[derive(Clone, Debug)]
pub(super) struct Recent<T> {
    capacity: usize,
    /// The first entry of each bucket; a power of two of them.
    buckets: Vec<u32>,
    entries: Vec<Entry<T>>,
    newest: u32,
    oldest: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    key: u64,
    value: T,
    /// The next entry of the same bucket.
    chain: u32,
    newer: u32,
    older: u32,
}

impl<T: Copy> Recent<T> {
    /// A table for up to `capacity` keys.
    ///
    /// # Panics
    /// If `capacity` is 0 or does not fit in 31 bits.
    pub(super) fn new(capacity: usize) -> Self {
        assert!(capacity > 0 && capacity < 1 << 31, "callers check how many keys there may be");
        Self {
            capacity,
            buckets: vec![NONE; capacity.next_power_of_two()],
            entries: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    /// How many keys are remembered.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The value of a key, which counts as a use.
    pub(super) fn get(&mut self, key: u64) -> Option<T> {
        let index = self.find(key)?;
        self.unlink(index);
        self.link_newest(index);
        Some(self.entries[index as usize].value)
    }

    /// Remembers a value, which counts as a use. Returns the key that was forgotten for it.
    pub(super) fn insert(&mut self, key: u64, value: T) -> Option<u64> {
        if let Some(index) = self.find(key) {
            self.entries[index as usize].value = value;
            self.unlink(index);
            self.link_newest(index);
            return None;
        }
        let bucket = self.bucket(key);
        let fresh = Entry { key, value, chain: NONE, newer: NONE, older: NONE };
        let (index, forgotten) = if self.entries.len() < self.capacity {
            self.entries.push(fresh);
            (self.entries.len() as u32 - 1, None)
        } else {
            let index = self.oldest;
            let forgotten = self.entries[index as usize].key;
            self.unlink(index);
            self.unchain(index);
            self.entries[index as usize] = fresh;
            (index, Some(forgotten))
        };
        self.entries[index as usize].chain = self.buckets[bucket];
        self.buckets[bucket] = index;
        self.link_newest(index);
        forgotten
    }

    fn bucket(&self, key: u64) -> usize {
        // Keys may be small numbers instead of hashes: the multiplication spreads them over the high bits.
        let spread = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        spread as usize & (self.buckets.len() - 1)
    }

    fn find(&self, key: u64) -> Option<u32> {
        let mut index = self.buckets[self.bucket(key)];
        while index != NONE && self.entries[index as usize].key != key {
            index = self.entries[index as usize].chain;
        }
        (index != NONE).then_some(index)
    }

    fn unchain(&mut self, index: u32) {
        let Entry { key, chain, .. } = self.entries[index as usize];
        let bucket = self.bucket(key);
        if self.buckets[bucket] == index {
            self.buckets[bucket] = chain;
            return;
        }
        let mut before = self.buckets[bucket];
        while self.entries[before as usize].chain != index {
            before = self.entries[before as usize].chain;
        }
        self.entries[before as usize].chain = chain;
    }

    fn unlink(&mut self, index: u32) {
        let Entry { newer, older, .. } = self.entries[index as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, index: u32) {
        let older = std::mem::replace(&mut self.newest, index);
        let entry = &mut self.entries[index as usize];
        entry.newer = NONE;
        entry.older = older;
        match older {
            NONE => self.oldest = index,
            older => self.entries[older as usize].newer = index,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_answers_as_a_plain_list_in_order_of_use_would(
            capacity in 1usize..9,
            steps in prop::collection::vec((any::<bool>(), 0u64..14, any::<u8>()), 0..200),
        ) {
            let mut table = Recent::new(capacity);
            // The reference: newest first.
            let mut list: Vec<(u64, u8)> = Vec::new();
            for (insert, key, value) in steps {
                let known = list.iter().position(|(other, _)| *other == key);
                if insert {
                    if let Some(position) = known {
                        list.remove(position);
                    }
                    list.insert(0, (key, value));
                    let forgotten = (list.len() > capacity).then(|| list.pop().unwrap().0);
                    prop_assert_eq!(table.insert(key, value), forgotten);
                } else {
                    let entry = known.map(|position| list.remove(position));
                    list.splice(0..0, entry);
                    prop_assert_eq!(table.get(key), entry.map(|(_, value)| value));
                }
                prop_assert_eq!(table.len(), list.len());
            }
        }
    }
}
