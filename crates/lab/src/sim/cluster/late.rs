//! Decides when a run has shown enough: so many groups of tasks are late that nobody who counts them needs the rest.

use super::given::Given;
use super::world::{Micros, micros};

/// Groups of tasks that are watched, those due earlier first.
pub(super) struct Lateness<'a> {
    given: &'a Given,
    /// So many may be late.
    most: usize,
    late: usize,
    /// The group that is due next, and when.
    next: usize,
    due: Micros,
}

impl<'a> Lateness<'a> {
    pub(super) fn new(given: &'a Given, most: usize) -> Self {
        let mut lateness = Self { given, most, late: 0, next: 0, due: 0 };
        lateness.due = lateness.next_due();
        lateness
    }

    /// Whether too many are late, when nothing happens any more before `now`.
    pub(super) fn is_too_much(&mut self, now: Micros, is_open: impl Fn(usize) -> bool) -> bool {
        while self.due < now {
            let (from, to) = self.given.groups[self.next];
            self.late += usize::from((from..to).any(&is_open));
            self.next += 1;
            self.due = self.next_due();
        }
        self.late > self.most
    }

    /// When the next group is due; never if there is none, or if it has no such time.
    fn next_due(&self) -> Micros {
        let group = self.given.groups.get(self.next).copied();
        group.and_then(|group| self.given.due(group)).map_or(Micros::MAX, micros)
    }
}
