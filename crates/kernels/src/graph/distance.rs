//! The shortest way from one vertex to all others: Bellman and Ford, with passes over all edges until none is of use.
//!
//! Distances improve in place, so a pass may go many steps. The result does not depend on the order of edges: rounding
//! keeps order, so there is one least solution.

use super::edges;
use super::grid::Sides;

/// Bytes of memory for each vertex.
pub const BYTES_PER_VERTEX: u64 = 8;

/// Shortens distances along edges of length 1; says how many.
pub fn relax_plain(block: &[u8], sides: &mut Sides<'_, f64>) -> u64 {
    relax(edges::plain(block).map(|(from, to)| (from, to, 1.0)), sides)
}

/// Shortens distances along edges that have lengths; says how many.
pub fn relax_weighted(block: &[u8], sides: &mut Sides<'_, f64>) -> u64 {
    relax(edges::weighted(block), sides)
}

#[inline]
fn relax(edges: impl Iterator<Item = (u32, u32, f32)>, sides: &mut Sides<'_, f64>) -> u64 {
    let mut changed = 0;
    match sides {
        Sides::One { values, base } => {
            for (from, to, length) in edges {
                let distance = values[(from - *base) as usize] + f64::from(length);
                let known = &mut values[(to - *base) as usize];
                if distance < *known {
                    *known = distance;
                    changed += 1;
                }
            }
        }
        Sides::Two { from: begins, from_base, to: ends, to_base } => {
            for (from, to, length) in edges {
                let distance = begins[(from - *from_base) as usize] + f64::from(length);
                let known = &mut ends[(to - *to_base) as usize];
                if distance < *known {
                    *known = distance;
                    changed += 1;
                }
            }
        }
    }
    changed
}
