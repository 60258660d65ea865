//! A hash table from keys of bytes to a number each, for many small keys: no allocation per key, one cache line per
//! look-up of a key up to 16 bytes.
//!
//! Open addressing with linear probing. A slot of 32 bytes holds a short key whole; of a longer one the hash, and where it
//! is in one long list of bytes. Nothing can be removed but everything.

use super::hash::{SHORT, mix, unwords, words};

/// Slots of the smallest table that holds something.
const SLOTS_MIN: usize = 8;

/// From keys to numbers.
#[derive(Clone, Debug, Default)]
pub struct Table {
    slots: Vec<Slot>,
    keys: usize,
    long: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// One more than the bytes of the key; 0 is a free slot.
    length: u32,
    /// Of a short key its words; of a long one its hash, and where it is.
    first: u64,
    second: u64,
    value: u64,
}

impl Table {
    /// An empty table without memory.
    pub const fn new() -> Self {
        Self { slots: Vec::new(), keys: 0, long: Vec::new() }
    }

    /// An empty table with room for so many keys.
    pub fn with_room(keys: usize) -> Self {
        let slots = (keys * 3 / 2).next_power_of_two().max(SLOTS_MIN);
        Self { slots: vec![Slot::default(); slots], keys: 0, long: Vec::new() }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keys
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.long.capacity()
    }

    /// The number of a key, which is 0 when the key is new.
    #[inline]
    pub fn value(&mut self, key: &[u8]) -> &mut u64 {
        self.entry(key).0
    }

    /// The number of a key, and whether the key is new.
    #[inline]
    pub fn entry(&mut self, key: &[u8]) -> (&mut u64, bool) {
        // A table is at most three quarters full.
        if self.keys * 4 >= self.slots.len() * 3 {
            self.grow();
        }
        let length = u32::try_from(key.len() + 1).expect("a key has less than 4 GiB");
        let mask = self.slots.len() - 1;
        if let Some((first, second)) = words(key) {
            let mut at = mix(first, second, key.len()) as usize & mask;
            loop {
                let slot = self.slots[at];
                if slot.length == length && slot.first == first && slot.second == second {
                    return (&mut self.slots[at].value, false);
                }
                if slot.length == 0 {
                    self.keys += 1;
                    self.slots[at] = Slot { length, first, second, value: 0 };
                    return (&mut self.slots[at].value, true);
                }
                at = (at + 1) & mask;
            }
        }
        self.long_entry(key, length)
    }

    fn long_entry(&mut self, key: &[u8], length: u32) -> (&mut u64, bool) {
        let first = xxhash_rust::xxh3::xxh3_64(key);
        let mask = self.slots.len() - 1;
        let mut at = mix(first, 0, key.len()) as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.length == length && slot.first == first && self.long_key(&slot) == key {
                return (&mut self.slots[at].value, false);
            }
            if slot.length == 0 {
                self.keys += 1;
                let second = self.long.len() as u64;
                self.long.extend_from_slice(key);
                self.slots[at] = Slot { length, first, second, value: 0 };
                return (&mut self.slots[at].value, true);
            }
            at = (at + 1) & mask;
        }
    }

    /// Whether a key is there.
    pub fn has(&self, key: &[u8]) -> bool {
        let short = words(key);
        let (first, second) = short.unwrap_or_else(|| (xxhash_rust::xxh3::xxh3_64(key), 0));
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = mix(first, second, key.len()) as usize & mask;
        while let Some(slot) = self.slots.get(at)
            && slot.length > 0
        {
            let same = slot.length as usize == key.len() + 1 && slot.first == first;
            let rest = || match short {
                Some(_) => slot.second == second,
                None => self.long_key(slot) == key,
            };
            if same && rest() {
                return true;
            }
            at = (at + 1) & mask;
        }
        false
    }

    fn long_key(&self, slot: &Slot) -> &[u8] {
        &self.long[slot.second as usize..][..slot.length as usize - 1]
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(SLOTS_MIN);
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); size]);
        let mask = size - 1;
        for slot in old.into_iter().filter(|slot| slot.length > 0) {
            let length = slot.length as usize - 1;
            let second = if length > SHORT { 0 } else { slot.second };
            let mut at = mix(slot.first, second, length) as usize & mask;
            while self.slots[at].length != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
        }
    }

    /// Every key with its number, in no order that means anything.
    pub fn for_each(&self, mut take: impl FnMut(&[u8], u64)) {
        let mut key = Vec::with_capacity(SHORT);
        for slot in self.slots.iter().filter(|slot| slot.length > 0) {
            let length = slot.length as usize - 1;
            if length > SHORT {
                take(self.long_key(slot), slot.value);
            } else {
                key.clear();
                unwords(slot.first, slot.second, length, &mut key);
                take(&key, slot.value);
            }
        }
    }

    /// Every key with its number, in the order of partitions and, within one, of keys.
    pub fn sorted(&self, partitions: u32) -> Sorted {
        let mut sorted = Sorted { bytes: Vec::new(), places: Vec::with_capacity(self.keys) };
        self.for_each(|key, value| {
            sorted.push(super::hash::partition(key, partitions), key, value)
        });
        sorted.sort();
        sorted
    }

    /// Forgets all keys, and keeps the memory of a table that is not much larger than it has to be.
    pub fn clear(&mut self) {
        if self.slots.len() > 8 * SLOTS_MIN && self.keys * 8 < self.slots.len() {
            *self = Self::new();
            return;
        }
        self.slots.fill(Slot::default());
        self.long.clear();
        self.keys = 0;
    }
}

/// Keys in the order of their partitions and bytes, each with a number.
#[derive(Clone, Debug, Default)]
pub struct Sorted {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    partition: u32,
    length: u32,
    /// The first eight bytes; almost always they decide.
    prefix: u64,
    start: usize,
    value: u64,
}

impl Sorted {
    fn push(&mut self, partition: u32, key: &[u8], value: u64) {
        let (start, length) = (self.bytes.len(), key.len() as u32);
        self.bytes.extend_from_slice(key);
        self.places.push(Place { partition, length, prefix: prefix(key), start, value });
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.places.sort_unstable_by(|left, right| {
            (left.partition, left.prefix)
                .cmp(&(right.partition, right.prefix))
                .then_with(|| left.key(bytes).cmp(right.key(bytes)))
        });
    }

    /// Partition, key and number of each, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u8], u64)> {
        self.places.iter().map(|place| (place.partition, place.key(&self.bytes), place.value))
    }
}

impl Place {
    fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start..][..self.length as usize]
    }
}

/// The first eight bytes of a key as a number that is ordered as they are.
#[inline]
pub(super) fn prefix(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
}
