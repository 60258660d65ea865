//! Decides which point of the circle follows a position: the sorted points and an index over them.
//!
//! Knows owners as numbers only. Positions and owners stand in two arrays, so that a search reads eight bytes per
//! point. The index cuts the circle into at least twice as many equal pieces as there are points and notes where each
//! piece begins in the arrays. Points are spread evenly by their hash, so a search looks at less than one point on
//! average, where a binary search would look at log n, each a missed branch.

use std::cmp::Ordering;

/// Pieces of the index per point, before rounding up to a power of two.
const PIECES_PER_POINT: usize = 2;
/// The fewest pieces: with one alone the shift would be 64 bits wide.
const PIECES_MIN: usize = 2;

/// A point: its position and its owner.
pub(super) type Point = (u64, u32);

#[derive(Clone, Debug)]
pub(super) struct Points {
    /// Ascending. A point owns what lies after the point before it, up to and including its own position.
    positions: Vec<u64>,
    owners: Vec<u32>,
    /// For each piece, how many points lie before it; one entry more at the end.
    starts: Vec<u32>,
    /// How far a position is shifted to give its piece.
    shift: u32,
}

impl Points {
    pub(super) fn new() -> Self {
        let mut points =
            Self { positions: Vec::new(), owners: Vec::new(), starts: Vec::new(), shift: 0 };
        points.index();
        points
    }

    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    /// The owner of point number `at`.
    pub(super) fn owner(&self, at: usize) -> u32 {
        self.owners[at]
    }

    /// The owner of every point, in order of position, from number `first` on and once around.
    pub(super) fn owners_from(&self, first: usize) -> impl Iterator<Item = u32> + Clone + '_ {
        let (before, after) = self.owners.split_at(first);
        after.iter().chain(before).copied()
    }

    /// The number of the first point at or after the position; after the last comes the first.
    ///
    /// There must be a point.
    pub(super) fn find(&self, position: u64) -> usize {
        let piece = (position >> self.shift) as usize;
        let mut at = self.starts[piece] as usize;
        let end = self.starts[piece + 1] as usize;
        while at < end && self.positions[at] < position {
            at += 1;
        }
        if at == self.positions.len() { 0 } else { at }
    }

    #[cfg(test)]
    pub(super) fn positions(&self) -> &[u64] {
        &self.positions
    }

    /// How much of the circle each point owns, with its owner.
    pub(super) fn arcs(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let last = self.positions.last().copied().unwrap_or_default();
        let before = std::iter::once(last).chain(self.positions.iter().copied());
        let arcs = self.positions.iter().zip(before).map(|(at, before)| at.wrapping_sub(before));
        self.owners.iter().copied().zip(arcs)
    }

    /// Takes in new points. `tie` orders two owners of one position, so that the result does not depend on who came
    /// first. One pass over all points from the end, after the new ones are sorted.
    pub(super) fn insert(&mut self, mut fresh: Vec<Point>, tie: impl Fn(u32, u32) -> Ordering) {
        let order = |a: Point, b: Point| a.0.cmp(&b.0).then_with(|| tie(a.1, b.1));
        fresh.sort_unstable_by(|a, b| order(*a, *b));
        let mut old = self.len();
        let len = old + fresh.len();
        self.positions.resize(len, 0);
        self.owners.resize(len, 0);
        for place in (0..len).rev() {
            let Some(new) = fresh.last() else { break };
            let held = old.checked_sub(1).map(|at| (self.positions[at], self.owners[at]));
            let (position, owner) = match held {
                Some(held) if order(held, *new).is_gt() => {
                    old -= 1;
                    held
                }
                _ => fresh.pop().expect("a last point was just seen"),
            };
            self.positions[place] = position;
            self.owners[place] = owner;
        }
        self.index();
    }

    /// Drops the points that are not to be kept, in one pass.
    pub(super) fn retain(&mut self, keep: impl Fn(Point) -> bool) {
        let mut kept = 0;
        for at in 0..self.len() {
            let point = (self.positions[at], self.owners[at]);
            if keep(point) {
                (self.positions[kept], self.owners[kept]) = point;
                kept += 1;
            }
        }
        self.positions.truncate(kept);
        self.owners.truncate(kept);
        self.index();
    }

    fn index(&mut self) {
        let pieces = (self.len() * PIECES_PER_POINT).next_power_of_two().max(PIECES_MIN);
        self.shift = u64::BITS - pieces.trailing_zeros();
        self.starts.clear();
        self.starts.reserve_exact(pieces + 1);
        for (at, position) in self.positions.iter().enumerate() {
            let piece = (position >> self.shift) as usize;
            // Every piece up to the one of this point begins at this point, unless an earlier point has set it.
            if self.starts.len() <= piece {
                self.starts.resize(piece + 1, at as u32);
            }
        }
        self.starts.resize(pieces + 1, self.positions.len() as u32);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(points: &[Point]) -> Points {
        let mut all = Points::new();
        all.insert(points.to_vec(), |a, b| a.cmp(&b));
        all
    }

    #[test]
    fn the_end_of_the_circle_belongs_to_the_first_point() {
        let points = of(&[(10, 0), (u64::MAX - 1, 1)]);
        for (position, at) in [(0, 0), (10, 0), (11, 1), (u64::MAX - 1, 1), (u64::MAX, 0)] {
            assert_eq!(points.find(position), at, "{position}");
        }
        assert_eq!(of(&[(u64::MAX, 0)]).find(0), 0);
        assert_eq!(of(&[(0, 0)]).find(1), 0);
    }

    #[test]
    fn two_owners_of_one_position_stand_in_the_same_order_whoever_came_first() {
        let mut one = of(&[(5, 7)]);
        one.insert(vec![(5, 3)], |a, b| a.cmp(&b));
        let mut other = of(&[(5, 3)]);
        other.insert(vec![(5, 7)], |a, b| a.cmp(&b));
        assert_eq!(one.owners, [3, 7]);
        assert_eq!(other.owners, [3, 7]);
    }

    #[test]
    fn arcs_add_up_to_the_circle() {
        let points = of(&[(10, 0), (1 << 63, 1), (u64::MAX, 2)]);
        let arcs: Vec<(u32, u64)> = points.arcs().collect();
        assert_eq!(arcs, [(0, 11), (1, (1 << 63) - 10), (2, (1 << 63) - 1)]);
    }

    proptest! {
        #[test]
        fn finds_what_a_linear_search_finds(
            mut positions in proptest::collection::vec(any::<u64>(), 1..200),
            clumped in proptest::collection::vec(0_u64..50, 0..50),
            asked in proptest::collection::vec(prop_oneof![any::<u64>(), 0_u64..60], 1..50),
        ) {
            positions.extend(clumped);
            positions.sort_unstable();
            positions.dedup();
            let (first, second): (Vec<Point>, Vec<Point>) =
                positions.iter().map(|at| (*at, 1)).partition(|point| point.0 % 3 == 0);
            let mut points = of(&first);
            points.insert(second, |a, b| a.cmp(&b));
            prop_assert_eq!(&points.positions, &positions);
            for position in asked.iter().chain(&positions) {
                let found = positions.iter().position(|at| at >= position).unwrap_or(0);
                prop_assert_eq!(points.find(*position), found);
            }
        }
    }
}
