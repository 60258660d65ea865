//! Records in memory, to be sorted by partition and key. Equal keys keep the order in which they came.

use super::table::prefix;

/// Records of key and value.
#[derive(Clone, Debug, Default)]
pub struct Records {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    partition: u32,
    key: u32,
    value: u32,
    prefix: u64,
    start: usize,
}

impl Records {
    /// Adds a record.
    ///
    /// # Panics
    /// If the key or the value has 4 GiB or more.
    #[inline]
    pub fn push(&mut self, partition: u32, key: &[u8], value: &[u8]) {
        let length =
            |bytes: &[u8]| u32::try_from(bytes.len()).expect("a record has less than 4 GiB");
        let (start, prefix) = (self.bytes.len(), prefix(key));
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.places.push(Place {
            partition,
            key: length(key),
            value: length(value),
            prefix,
            start,
        });
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes of memory in use.
    #[inline]
    pub fn memory(&self) -> usize {
        self.bytes.len() + self.places.len() * size_of::<Place>()
    }

    /// Puts them into order.
    pub fn sort(&mut self) {
        let bytes = &self.bytes;
        self.places.sort_unstable_by(|left, right| {
            (left.partition, left.prefix)
                .cmp(&(right.partition, right.prefix))
                .then_with(|| left.key(bytes).cmp(right.key(bytes)))
                .then(left.start.cmp(&right.start))
        });
    }

    /// Partition, key and value of each.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u8], &[u8])> {
        self.places.iter().map(|place| {
            let value = &self.bytes[place.start + place.key as usize..][..place.value as usize];
            (place.partition, place.key(&self.bytes), value)
        })
    }

    /// Forgets all records and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }
}

impl Place {
    fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start..][..self.key as usize]
    }
}
