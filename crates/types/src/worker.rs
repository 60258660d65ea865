//! A worker as it introduces itself.

use crate::{Name, TaskId, Token};

/// A worker and what it offers. `Task` is what it names attempts by: ids on the wire, numbers in the scheduler.
#[derive(Clone, Debug)]
pub struct WorkerHello<Task = TaskId> {
    /// What people call it.
    pub name: Name,
    /// Made up by the process at its start, so that another process of the same name is told from the same process on a
    /// new connection; empty if it does not say.
    pub instance: Name,
    /// Queues that it serves; none means all.
    pub queues: Vec<Name>,
    /// Kinds that it can run.
    pub kinds: Vec<Name>,
    /// What it has.
    pub capabilities: Vec<Name>,
    /// Tasks that it takes at once, those included that wait there for a slot.
    pub credit: u32,
    /// Tasks that it runs at once; 0 for as many as it takes.
    pub slots: u32,
    /// How these are divided among the kinds, each of which is in one of them; empty if all kinds share them.
    pub tiers: Vec<WorkerTier>,
    /// Attempts that it still has from an earlier connection. The token is the proof: a lease with that very token
    /// moves to this connection even if an earlier one of the same worker still seems to hold it.
    pub held: Vec<(Task, Token)>,
}

/// Kinds of a worker that share slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerTier {
    /// The kinds.
    pub kinds: Vec<Name>,
    /// Tasks of these that the worker takes at once, those included that wait there for a slot.
    pub credit: u32,
    /// Tasks of these that it runs at once.
    pub slots: u32,
}

impl<Task> Default for WorkerHello<Task> {
    fn default() -> Self {
        Self {
            name: Name::default(),
            instance: Name::default(),
            queues: Vec::new(),
            kinds: Vec::new(),
            capabilities: Vec::new(),
            credit: 0,
            slots: 0,
            tiers: Vec::new(),
            held: Vec::new(),
        }
    }
}

impl<Task> WorkerHello<Task> {
    /// The same worker, with its attempts named otherwise.
    pub fn holding<Other>(self, held: Vec<(Other, Token)>) -> WorkerHello<Other> {
        let Self { name, instance, queues, kinds, capabilities, credit, slots, tiers, held: _ } =
            self;
        WorkerHello { name, instance, queues, kinds, capabilities, credit, slots, tiers, held }
    }
}
