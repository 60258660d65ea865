//! The largest of many: values and who has them, in a fixed order.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Keeps so many of the largest values. Of equal ones the smaller vertex is kept.
#[derive(Clone, Debug)]
pub struct Top {
    size: usize,
    /// The least of them is on top.
    heap: BinaryHeap<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    value: f64,
    vertex: u32,
}

impl Top {
    /// Keeps this many.
    pub fn new(size: usize) -> Self {
        Self { size, heap: BinaryHeap::with_capacity(size + 1) }
    }

    /// Offers one.
    #[inline]
    pub fn offer(&mut self, vertex: u32, value: f64) {
        let entry = Entry { value, vertex };
        if self.heap.len() < self.size {
            self.heap.push(entry);
        } else if self.heap.peek().is_some_and(|least| entry < *least) {
            self.heap.pop();
            self.heap.push(entry);
        }
    }

    /// All that were kept, the largest first.
    pub fn into_sorted(self) -> Vec<(u32, f64)> {
        self.heap.into_sorted_vec().into_iter().map(|entry| (entry.vertex, entry.value)).collect()
    }
}

/// The larger value is the smaller entry, so that the heap's top is the one to let go.
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        other.value.total_cmp(&self.value).then(self.vertex.cmp(&other.vertex))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Entry {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_kept_and_ties_go_to_the_smaller_vertex() {
        let mut top = Top::new(3);
        for (vertex, value) in [(5, 1.0), (4, 9.0), (3, 2.0), (2, 2.0), (1, 0.5), (0, 2.0)] {
            top.offer(vertex, value);
        }
        assert_eq!(top.into_sorted(), [(4, 9.0), (0, 2.0), (2, 2.0)]);
        let mut none = Top::new(0);
        none.offer(1, 1.0);
        assert_eq!(none.into_sorted(), []);
    }
}
