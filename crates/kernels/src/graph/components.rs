//! Which vertices hang together, whatever the direction of edges. The name of a component is its smallest vertex.
//!
//! With all vertices in memory one pass is enough: a forest in which each tree is rooted at its smallest vertex. With ranges,
//! the smallest name that is known moves along edges, both ways, until a pass moves none.

use super::edges;
use super::grid::Sides;

/// Bytes of memory for each vertex: its name, and the size of a component when they are counted.
pub const BYTES_PER_VERTEX: u64 = 8;

/// Joins the trees of a block of edges. At first each vertex is its own parent.
pub fn unite(block: &[u8], parents: &mut [u32]) {
    for (from, to) in edges::plain(block) {
        let (a, b) = (root(parents, from), root(parents, to));
        let (low, high) = if a < b { (a, b) } else { (b, a) };
        parents[high as usize] = low;
    }
}

/// Makes each vertex point at its root.
pub fn flatten(parents: &mut [u32]) {
    // A parent is never larger than its child, so it is flat before it is asked.
    for vertex in 0..parents.len() {
        parents[vertex] = parents[parents[vertex] as usize];
    }
}

fn root(parents: &mut [u32], mut vertex: u32) -> u32 {
    loop {
        let parent = parents[vertex as usize];
        if parent == vertex {
            return vertex;
        }
        let above = parents[parent as usize];
        parents[vertex as usize] = above;
        vertex = above;
    }
}

/// Gives both ends of each edge the smaller of their names; says how many names have changed.
pub fn lower(block: &[u8], sides: &mut Sides<'_, u32>) -> u64 {
    let mut changed = 0;
    match sides {
        Sides::One { values, base } => {
            for (from, to) in edges::plain(block) {
                let (from, to) = ((from - *base) as usize, (to - *base) as usize);
                let (a, b) = (values[from], values[to]);
                if a != b {
                    values[from] = a.min(b);
                    values[to] = a.min(b);
                    changed += 1;
                }
            }
        }
        Sides::Two { from: begins, from_base, to: ends, to_base } => {
            for (from, to) in edges::plain(block) {
                let from = &mut begins[(from - *from_base) as usize];
                let to = &mut ends[(to - *to_base) as usize];
                if *from != *to {
                    let name = (*from).min(*to);
                    (*from, *to) = (name, name);
                    changed += 1;
                }
            }
        }
    }
    changed
}
