//! Graphs whose edges do not fit in memory, and whose vertices need not either.
//!
//! Edges pass by in blocks of packed numbers, as often as an algorithm needs; in memory are a few numbers for each vertex
//! of one range, or of the two ranges that a block of edges joins. With one range this is the semi-external model; with
//! more the grid of `GridGraph` (Zhu, Han, Chen, USENIX ATC 2015), whose block (i, j) holds the edges from range i to
//! range j.
//!
//! It does not know where edges and numbers lie between two passes, and nothing here counts passes: who drives it does.
//!
//! Reading order: `edges` (lines and packed edges), `bins` (edges by where they end), `grid` (ranges and blocks), then `pagerank`, `components`, `distance`
//! and `degree` with one pass each, `top` (the largest of many).

pub mod bins;
pub mod components;
pub mod degree;
pub mod distance;
pub mod edges;
pub mod grid;
pub mod pagerank;
#[cfg(test)]
mod tests;
pub mod top;
