//! Waits that would go round in a circle after a start, and where they are cut.
//!
//! While the server runs no task can come to wait for itself (see `submit`). But the store does not know which
//! dependencies were met before: an optional one that failed was, and is open again if it was put back. It may then
//! wait for the dependent: by way of a child that it spawned, or of a dependency of its own if it was put back with
//! others. After a restart the dependent would wait for itself.
//!
//! So one wait in every circle was over before the restart. It is an optional one, since the failure of a required
//! one cancels. And it is for a task that is settling, or for one that is blocked and was put back after the dependent
//! came to be: what is put back alone waits for nothing.

use std::collections::BTreeSet;

use divvy_types::{Seq, TaskState, Timestamp};

use crate::Scheduler;
use crate::circles::{Node, Ties};
use crate::table::Edge;

impl Scheduler {
    /// Lets tasks go on that would wait for themselves.
    pub(crate) fn cut_knots(&mut self, now: Timestamp) {
        let settling = self.settling.iter();
        let settling = settling
            .filter(|(_, settling)| settling.dependents.iter().any(|edge| edge.optional))
            .map(|(seq, _)| *seq);
        let blocked = self.begun.keys().copied().filter(|seq| {
            let edges = self.dependents_of_blocked(*seq);
            edges.iter().any(|edge| self.may_be_over(*edge, *seq))
        });
        let suspects: Vec<Seq> = settling.chain(blocked).collect();
        let mut cut = BTreeSet::new();
        for seq in suspects {
            let awaited = self.awaited_by(seq, &cut);
            for edge in self.untie(seq, &awaited) {
                cut.insert((edge.seq, seq));
                self.parent_settled(now, edge, None);
            }
        }
    }

    /// Takes the optional dependents from a task that it waits for itself. One that requires it too waits for it all
    /// the same.
    fn untie(&mut self, seq: Seq, awaited: &BTreeSet<Seq>) -> Vec<Edge> {
        let settling = self.settling.get(&seq).map(|settling| settling.dependents.as_slice());
        let dependents = settling.unwrap_or_else(|| self.dependents_of_blocked(seq));
        let required = dependents.iter().filter(|edge| !edge.optional);
        let required: BTreeSet<Seq> = required.map(|edge| edge.seq).collect();
        let tied = |edge: &Edge| {
            edge.optional && awaited.contains(&edge.seq) && !required.contains(&edge.seq)
        };
        if let Some(settling) = self.settling.get_mut(&seq) {
            return settling.dependents.extract_if(.., |edge| tied(edge)).collect();
        }
        let edges = self.dependents_of_blocked(seq).iter();
        let over: BTreeSet<Seq> = edges
            .filter(|edge| tied(edge) && self.may_be_over(**edge, seq))
            .map(|edge| edge.seq)
            .collect();
        let Some(row) = self.tasks.row_of(seq).filter(|_| !over.is_empty()) else {
            return Vec::new();
        };
        let dependents = &mut self.tasks[row].links().dependents;
        dependents.extract_if(.., |edge| tied(edge) && over.contains(&edge.seq)).collect()
    }

    fn dependents_of_blocked(&self, seq: Seq) -> &[Edge] {
        let task = self.tasks.find(seq).filter(|task| task.state == TaskState::Blocked);
        task.and_then(|task| task.links.as_ref()).map_or(&[], |links| &links.dependents)
    }

    /// Whether a recovered task came to be before the dependency that it waits for was put back.
    fn may_be_over(&self, edge: Edge, parent: Seq) -> bool {
        let put_back = self.tasks.find(parent).is_some_and(|task| task.retried);
        let (dependent, parent) = (self.begun.get(&edge.seq), self.begun.get(&parent));
        edge.optional && put_back && dependent.is_some() && dependent < parent
    }

    /// All that a task waits for, over any number of dependencies, groups and children, except over waits that were
    /// cut.
    fn awaited_by(&self, start: Seq, cut: &BTreeSet<(Seq, Seq)>) -> BTreeSet<Seq> {
        let is_cut = |from: &Node, to: &Node| match (from, to) {
            (Node::Task(from), Node::Task(to)) => cut.contains(&(*from, *to)),
            _ => false,
        };
        let (mut tasks, mut groups) = (BTreeSet::new(), BTreeSet::new());
        let mut open = vec![Node::Task(start)];
        while let Some(node) = open.pop() {
            let new = match &node {
                Node::Task(seq) => tasks.insert(*seq),
                Node::Group(..) => groups.insert(node.clone()),
            };
            if new {
                let waits = self.waits_of(&node, Ties::Now);
                open.extend(waits.into_iter().filter(|next| !is_cut(&node, next)));
            }
        }
        tasks
    }
}
