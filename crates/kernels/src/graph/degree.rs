//! How many edges begin and end in each vertex.

use super::edges;

/// Bytes of memory for each vertex, both numbers together.
pub const BYTES_PER_VERTEX: u64 = 8;

/// Counts the edges of a block that begin in each vertex of a range.
pub fn count_out(block: &[u8], edge_bytes: usize, counts: &mut [u32], base: u32) {
    count(block, edge_bytes, 0, counts, base);
}

/// Counts the edges of a block that end in each vertex of a range.
pub fn count_in(block: &[u8], edge_bytes: usize, counts: &mut [u32], base: u32) {
    count(block, edge_bytes, 4, counts, base);
}

#[inline]
fn count(block: &[u8], edge_bytes: usize, at: usize, counts: &mut [u32], base: u32) {
    assert!(edge_bytes == edges::PLAIN_BYTES || edge_bytes == edges::WEIGHTED_BYTES);
    for edge in block.chunks_exact(edge_bytes) {
        let vertex = u32::from_le_bytes([edge[at], edge[at + 1], edge[at + 2], edge[at + 3]]);
        let count = &mut counts[(vertex - base) as usize];
        *count = count.saturating_add(1);
    }
}
