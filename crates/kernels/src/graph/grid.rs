//! Vertices in ranges of one width, and edges in blocks by the ranges that they join.
//!
//! Decides how many ranges there are: as few as fit in the memory when two of them are in it at a time.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Ranges, at most: their square is the number of blocks.
pub const RANGES_MAX: u32 = 64;

/// How vertices are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grid {
    /// All vertices.
    pub vertices: u32,
    /// Vertices of a range; the last one may have fewer.
    pub width: u32,
    /// Ranges.
    pub ranges: u32,
}

impl Grid {
    /// Cuts so that two ranges fit, or one if that is all there is. Nothing if even [`RANGES_MAX`] ranges do not.
    pub fn new(vertices: u32, bytes_per_vertex: u64, memory: u64) -> Option<Self> {
        let whole = u64::from(vertices) * bytes_per_vertex;
        if whole <= memory {
            return Some(Self { vertices, width: vertices.max(1), ranges: 1 });
        }
        let ranges = u32::try_from((2 * whole).div_ceil(memory.max(1))).ok()?;
        if ranges > RANGES_MAX {
            return None;
        }
        let width = vertices.div_ceil(ranges);
        Some(Self { vertices, width, ranges: vertices.div_ceil(width) })
    }

    /// The range of a vertex.
    #[inline]
    pub fn range_of(&self, vertex: u32) -> u32 {
        vertex / self.width
    }

    /// The block of an edge; blocks are counted by the range in which edges end, then by that in which they begin.
    #[inline]
    pub fn block_of(&self, from: u32, to: u32) -> usize {
        self.block(self.range_of(from), self.range_of(to))
    }

    /// The block of two ranges.
    pub fn block(&self, from: u32, to: u32) -> usize {
        (to * self.ranges + from) as usize
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> usize {
        (self.ranges * self.ranges) as usize
    }

    /// The vertices of a range.
    pub fn bounds(&self, range: u32) -> Range<u32> {
        let start = range * self.width;
        start..(start + self.width).min(self.vertices)
    }
}

/// Numbers of the vertices in which edges begin and end.
#[derive(Debug)]
pub enum Sides<'a, T> {
    /// Both in one range.
    One {
        /// The numbers.
        values: &'a mut [T],
        /// The first vertex.
        base: u32,
    },
    /// In two ranges.
    Two {
        /// Where edges begin.
        from: &'a mut [T],
        /// The first vertex there.
        from_base: u32,
        /// Where they end.
        to: &'a mut [T],
        /// The first vertex there.
        to_base: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_is_as_coarse_as_the_memory_allows() {
        assert_eq!(Grid::new(100, 20, 2_000).unwrap().ranges, 1);
        let grid = Grid::new(100, 20, 1_999).unwrap();
        assert_eq!((grid.ranges, grid.width), (3, 34));
        assert_eq!(grid.bounds(2), 68..100);
        assert_eq!(Grid::new(100, 20, 10), None);
        assert_eq!(Grid::new(0, 20, 0).unwrap().bounds(0), 0..0);
        let covered: Vec<u32> = (0..grid.ranges).flat_map(|range| grid.bounds(range)).collect();
        assert_eq!(covered, (0..100).collect::<Vec<_>>());
        assert!((0..100).all(|vertex| grid.bounds(grid.range_of(vertex)).contains(&vertex)));
        assert_eq!((grid.block_of(99, 0), grid.block_of(0, 99), grid.blocks()), (2, 6, 9));
    }
}
