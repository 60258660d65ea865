//! The part of a queue that is in memory: packed entries of one band of one host, the first at the front.
//!
//! It grows by little, because there are many of them and most are short; what it does not need is given back.

use super::entry;

/// How many bytes are added at least when it grows.
const GROWTH_BYTES: usize = 32;
/// Or one part in so many of what it has.
const GROWTH_PART: usize = 8;
/// What was taken from the front is given back when there is more of it than this and than what is left.
const TAKEN_BYTES_MAX: usize = 1_024;

/// The head of a queue.
#[derive(Debug)]
pub(super) struct Held {
    bytes: Vec<u8>,
    /// Bytes at the front that were taken.
    taken: u32,
    /// Entries that are left.
    count: u16,
    /// The band.
    pub(super) band: u8,
}

impl Held {
    pub(super) fn new(band: u8) -> Self {
        Self { bytes: Vec::new(), taken: 0, count: 0, band }
    }

    pub(super) fn count(&self) -> u32 {
        u32::from(self.count)
    }

    /// Whether one more entry can be counted.
    pub(super) fn is_full(&self) -> bool {
        self.count == u16::MAX
    }

    /// Adds a packed entry at the end.
    pub(super) fn push(&mut self, packed: &[u8]) {
        let needed = self.bytes.len() + packed.len();
        if needed > self.bytes.capacity() {
            let more = packed.len().max(GROWTH_BYTES).max(self.bytes.len() / GROWTH_PART);
            self.bytes.reserve_exact(more);
        }
        self.bytes.extend_from_slice(packed);
        self.count += 1;
    }

    /// Takes the first entry.
    pub(super) fn pop(&mut self) -> Option<Box<[u8]>> {
        let rest = &self.bytes[self.taken as usize..];
        let length = entry::length(rest).filter(|_| self.count > 0)?;
        let packed = rest[..length].into();
        self.taken += length as u32;
        self.count -= 1;
        let (taken, left) = (self.taken as usize, rest.len() - length);
        if taken > TAKEN_BYTES_MAX && taken > left {
            self.bytes.drain(..taken);
            self.bytes.shrink_to_fit();
            self.taken = 0;
        }
        Some(packed)
    }

    /// What it takes in memory beyond itself.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.capacity() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::Entry;
    use super::*;

    #[test]
    fn entries_leave_in_the_order_in_which_they_came_and_room_is_given_back() {
        let mut held = Held::new(2);
        let paths: Vec<String> = (0..1_000).map(|n| format!("/page/{n}")).collect();
        let packed = |path: &str| {
            let (hops, failed, depth) = (0, 0, 1);
            Entry { depth, hops, failed, is_known: false, is_sitemap: false, path }.packed()
        };
        let mut out = 0;
        for (n, path) in paths.iter().enumerate() {
            held.push(&packed(path));
            if n % 3 == 2 {
                assert_eq!(held.pop().unwrap(), packed(&paths[out]));
                out += 1;
            }
        }
        assert_eq!(held.count(), 1_000 - out as u32);
        let most = held.bytes();
        while let Some(entry) = held.pop() {
            assert_eq!(entry, packed(&paths[out]));
            out += 1;
        }
        assert_eq!((out, held.count()), (1_000, 0));
        assert!(held.bytes() < most / 4, "{} of {most}", held.bytes());
    }
}
