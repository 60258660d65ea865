//! Keeps the last values in order, so that any rank is found without sorting.
//!
//! Knows nothing of latencies or quantiles. Up to [`FLAT_MAX`] values lie in one sorted list: moving a part of it by
//! one place is a copy of memory, faster than any tree. Beyond that a tree bounds the steps.

use std::collections::VecDeque;

use super::tree::Tree;

/// The most values of a sorted list.
const FLAT_MAX: usize = 4096;

/// The last values, by age and by size.
#[derive(Clone, Debug)]
pub(super) enum Window {
    Flat(Flat),
    Tree(Tree),
}

impl Window {
    /// An empty window for `capacity` values, which is at least 1.
    pub(super) fn new(capacity: usize) -> Self {
        if capacity <= FLAT_MAX {
            Self::Flat(Flat::new(capacity))
        } else {
            Self::Tree(Tree::new(capacity))
        }
    }

    /// How many values it holds.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Flat(flat) => flat.sorted.len(),
            Self::Tree(tree) => tree.len(),
        }
    }

    /// Adds a value, in place of the oldest when it is full.
    pub(super) fn push(&mut self, value: u64) {
        match self {
            Self::Flat(flat) => flat.push(value),
            Self::Tree(tree) => tree.push(value),
        }
    }

    /// The value of a rank: 1 is the smallest.
    pub(super) fn ranked(&self, rank: usize) -> Option<u64> {
        match self {
            Self::Flat(flat) => flat.sorted.get(rank.checked_sub(1)?).copied(),
            Self::Tree(tree) => tree.ranked(rank),
        }
    }
}

/// The values twice: by age, and sorted.
#[derive(Clone, Debug)]
pub(super) struct Flat {
    by_age: VecDeque<u64>,
    sorted: Vec<u64>,
    capacity: usize,
}

impl Flat {
    fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "settings are checked before");
        Self {
            by_age: VecDeque::with_capacity(capacity),
            sorted: Vec::with_capacity(capacity),
            capacity,
        }
    }

    fn push(&mut self, value: u64) {
        let place = self.sorted.partition_point(|other| *other < value);
        if self.sorted.len() < self.capacity {
            self.sorted.insert(place, value);
        } else if let Some(oldest) = self.by_age.pop_front() {
            // Only what lies between the old and the new place moves, by one.
            let gap = self.sorted.partition_point(|other| *other < oldest);
            if gap < place {
                self.sorted.copy_within(gap + 1..place, gap);
                self.sorted[place - 1] = value;
            } else {
                self.sorted.copy_within(place..gap, place + 1);
                self.sorted[place] = value;
            }
        }
        self.by_age.push_back(value);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_rank_is_that_of_the_sorted_last_values(
            capacity in 1_usize..40,
            values in prop::collection::vec(prop_oneof![0_u64..8, any::<u64>()], 0..200),
        ) {
            let forms = [Window::Flat(Flat::new(capacity)), Window::Tree(Tree::new(capacity))];
            for mut window in forms {
                for (index, value) in values.iter().enumerate() {
                    window.push(*value);
                    let mut last = values[(index + 1).saturating_sub(capacity)..=index].to_vec();
                    last.sort_unstable();
                    prop_assert_eq!(window.len(), last.len());
                    for (rank, expected) in last.iter().enumerate() {
                        prop_assert_eq!(window.ranked(rank + 1), Some(*expected));
                    }
                    prop_assert_eq!(window.ranked(0), None);
                    prop_assert_eq!(window.ranked(last.len() + 1), None);
                }
            }
        }
    }

    #[test]
    fn large_windows_are_trees() {
        assert!(matches!(Window::new(FLAT_MAX), Window::Flat(_)));
        assert!(matches!(Window::new(FLAT_MAX + 1), Window::Tree(_)));
    }
}
