//! Waits that would go round in a circle after a start, and where they are cut.
//!
//! While the server runs no task can come to wait for itself (see `submit`). But the store does not know which
//! dependencies were met before: an optional one that failed was, and is open again if it was put back. When it then
//! finishes with a child that waits for the dependent, the dependent would wait, after a restart, for itself.
//!
//! So one wait in every circle was over before the restart. It is an optional one, since the failure of a required
//! one cancels. And it is for a task that is settling, since one that was put back and is open waits for nothing.

use std::collections::BTreeSet;

use divvy_types::{Seq, Timestamp};

use crate::Scheduler;
use crate::table::Edge;

impl Scheduler {
    /// Lets recovered tasks go on that would wait for themselves.
    pub(crate) fn cut_knots(&mut self, now: Timestamp) {
        let optional = self
            .settling
            .iter()
            .filter(|(_, settling)| settling.dependents.iter().any(|edge| edge.optional));
        let suspects: Vec<Seq> = optional.map(|(seq, _)| *seq).collect();
        let mut cut = BTreeSet::new();
        for seq in suspects {
            let awaited = self.awaited_by(seq, &cut);
            let Some(settling) = self.settling.get_mut(&seq) else { continue };
            let (tied, others): (Vec<Edge>, Vec<Edge>) = settling
                .dependents
                .drain(..)
                .partition(|edge| edge.optional && awaited.contains(&edge.seq));
            settling.dependents = others;
            for edge in tied {
                cut.insert((edge.seq, seq));
                self.parent_settled(now, edge, None);
            }
        }
    }

    /// All that a task waits for, over any number of dependencies and children, except over waits that were cut.
    fn awaited_by(&self, start: Seq, cut: &BTreeSet<(Seq, Seq)>) -> BTreeSet<Seq> {
        let mut seen = BTreeSet::new();
        let mut open = vec![start];
        while let Some(seq) = open.pop() {
            if seen.insert(seq) {
                let waits = self.waits_of(seq);
                open.extend(waits.into_iter().filter(|parent| !cut.contains(&(seq, *parent))));
            }
        }
        seen
    }
}
