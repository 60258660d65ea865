//! Edges by where they end: vertices in sixteen ranges of one width, which is a power of two.
//!
//! Whoever adds up what comes into vertices can take the ranges at the same time, each with numbers of its own, and gets the
//! same bits as one after the other: edges that end in the same vertex keep their order. And the numbers of one range
//! stay in the caches of a processor.
//!
//! The width follows from the largest vertex, which is only known in the end: ranges begin narrow, and two become one
//! whenever a larger vertex comes.

use std::ops::Range;

use super::edges;

/// Ranges.
pub const BINS: usize = 16;

/// The power of two that ranges are wide if this is the largest vertex.
pub fn width_log2(last: u32) -> u32 {
    (u32::BITS - last.leading_zeros()).saturating_sub(BINS.ilog2())
}

/// The ranges of narrow bins that make up a wide one.
pub fn within(bin: usize, wide_log2: u32, narrow_log2: u32) -> Range<usize> {
    let wider = wide_log2.saturating_sub(narrow_log2).min(BINS.ilog2());
    let narrow = |bin: usize| (bin << wider).min(BINS);
    narrow(bin)..narrow(bin + 1)
}

/// Packed edges by where they end.
#[derive(Debug)]
pub struct Bins {
    bins: [Vec<u8>; BINS],
    width_log2: u32,
    last: Option<u32>,
    bytes: usize,
}

impl Bins {
    /// No edges.
    pub fn new() -> Self {
        Self { bins: [const { Vec::new() }; BINS], width_log2: 0, last: None, bytes: 0 }
    }

    /// Takes an edge.
    #[inline]
    pub fn push(&mut self, from: u32, to: u32, weight: Option<f32>) {
        let last = from.max(to);
        if last >> self.width_log2 >= BINS as u32 {
            self.widen(width_log2(last));
        }
        self.last = self.last.max(Some(last));
        let bin = &mut self.bins[(to >> self.width_log2) as usize % BINS];
        let before = bin.len();
        edges::pack(from, to, weight, bin);
        self.bytes += bin.len() - before;
    }

    #[cold]
    fn widen(&mut self, width_log2: u32) {
        for bin in 0..BINS {
            for narrow in within(bin, width_log2, self.width_log2).filter(|narrow| *narrow > bin) {
                let edges = std::mem::take(&mut self.bins[narrow]);
                // Nothing is copied to where nothing is: most edges may well be of one range.
                if self.bins[bin].is_empty() {
                    self.bins[bin] = edges;
                } else {
                    self.bins[bin].extend_from_slice(&edges);
                }
            }
        }
        self.width_log2 = width_log2;
    }

    /// The largest vertex so far.
    pub fn last(&self) -> Option<u32> {
        self.last
    }

    /// How wide the ranges are by now: two to the power of this.
    pub fn width_log2(&self) -> u32 {
        self.width_log2
    }

    /// Bytes of all edges that are held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The edges of a range that are held.
    pub fn bin(&self, bin: usize) -> &[u8] {
        &self.bins[bin]
    }

    /// Lets go of all edges; the width stays.
    pub fn clear(&mut self) {
        self.bins.iter_mut().for_each(Vec::clear);
        self.bytes = 0;
    }
}

impl Default for Bins {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn edges_keep_their_order_in_the_range_in_which_they_end(
            edges in prop::collection::vec((any::<u32>(), any::<u32>(), 0u32..32), 0..200),
        ) {
            // Vertices of all sizes, the large ones mostly later.
            let of_size = |(nth, (from, to, shift)): (usize, (u32, u32, u32))| {
                let shift = shift.max(31_u32.saturating_sub(nth as u32 / 4));
                (from >> shift, to >> shift)
            };
            let edges: Vec<(u32, u32)> = edges.into_iter().enumerate().map(of_size).collect();
            let mut bins = Bins::new();
            edges.iter().for_each(|(from, to)| bins.push(*from, *to, None));
            let last = edges.iter().map(|(from, to)| *from.max(to)).max();
            prop_assert_eq!(bins.last(), last);
            prop_assert_eq!(bins.width_log2(), last.map_or(0, width_log2));
            prop_assert_eq!(bins.bytes(), edges.len() * edges::PLAIN_BYTES);
            for bin in 0..BINS {
                let found: Vec<_> = edges::plain(bins.bin(bin)).collect();
                let ends = |edge: &&(u32, u32)| (edge.1 >> bins.width_log2()) as usize == bin;
                let mut wanted: Vec<_> = edges.iter().filter(ends).copied().collect();
                prop_assert_eq!(found.len(), wanted.len());
                // Those that end in the same vertex are in the order in which they came.
                let mut found = found;
                found.sort_by_key(|edge| edge.1);
                wanted.sort_by_key(|edge| edge.1);
                prop_assert_eq!(found, wanted);
            }
        }
    }

    #[test]
    fn ranges_are_as_narrow_as_sixteen_of_them_allow() {
        for (last, width) in [(0, 0), (15, 0), (16, 1), (31, 1), (32, 2), (u32::MAX - 1, 28)] {
            assert_eq!(width_log2(last), width, "{last}");
            assert!((last >> width) < BINS as u32);
        }
        assert_eq!((within(3, 5, 5), within(3, 6, 5), within(9, 6, 5)), (3..4, 6..8, 16..16));
        assert_eq!((within(0, 28, 0), within(1, 28, 0)), (0..16, 16..16));
    }
}
