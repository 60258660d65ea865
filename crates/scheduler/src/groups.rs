//! Groups of a workflow: which tasks wait for one, and when they may go on.
//!
//! A task may wait for all tasks of a group at once. That is no edge to each of them but a count: it waits while the
//! group is *open*, that is, while a member of it waits, runs, or is done with children that are not. Whether it may go
//! on is looked at when a step ends, so that the order in a batch is of no matter, and members that join later keep it
//! waiting too, as long as it waits for anything. A group that nobody has joined is not open: a fan-out may turn out
//! to be empty. A member that fails, or whose child does, cancels at once whoever requires the group.
//!
//! Members are counted with those of their workflow (`workflows`), over restarts and in the store too, and what failed
//! before the scheduler heard of the workflow is looked up with them. One waiting task costs one entry, and the end of
//! a member the change of a number; the end of the last one looks at each task that waits for the group.
//!
//! Nothing else is remembered, so a task that was let go and has not begun when the server stops waits after the start
//! for members that joined meanwhile. Waits that go round in a circle are the business of `circles`.

use std::collections::BTreeSet;

use divvy_types::{Member, Name, Seq, TaskSpec, TaskState, Timestamp, WorkflowId};

use crate::Scheduler;
use crate::settle::{Ended, cause};
use crate::table::{Awaits, Edge, Row, Task};
use crate::workflows::Failed;

/// A group with open members, failed ones, or tasks that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Members that have not settled, those in the store included.
    pub(crate) open: u64,
    /// Members that have failed, or have a child that has.
    pub(crate) failed: Failed,
    /// Open members that may wait for something.
    waiting: BTreeSet<Seq>,
    /// Blocked tasks that wait for it: those that require it, then the others.
    waiters: BTreeSet<(bool, Seq)>,
    /// Tasks in memory that wait for it or did.
    edges: u32,
}

impl Group {
    pub(crate) fn is_idle(&self) -> bool {
        self.open == 0 && self.edges == 0 && !self.failed.any()
    }

    /// One member less is open.
    pub(crate) fn ended(&mut self, seq: Seq) {
        self.open = self.open.saturating_sub(1);
        self.waiting.remove(&seq);
    }

    pub(crate) fn waiters(&self) -> impl Iterator<Item = Seq> {
        self.waiters.iter().map(|(_, seq)| *seq)
    }
}

/// The workflow of a task that waits for groups.
fn workflow_of(spec: &TaskSpec) -> Option<WorkflowId> {
    spec.workflow.as_ref().map(|workflow| workflow.id)
}

impl Scheduler {
    fn group(&self, workflow: WorkflowId, name: &Name) -> Option<&Group> {
        self.workflows.get(&workflow)?.groups()?.get(name)
    }

    /// How many members of a group have not settled.
    pub fn open_in_group(&self, workflow: WorkflowId, name: &Name) -> u64 {
        self.group(workflow, name).map_or(0, |group| group.open)
    }

    /// Members of a group that may wait for something.
    pub(crate) fn waiting_in(
        &self,
        workflow: WorkflowId,
        name: &Name,
    ) -> impl Iterator<Item = Seq> {
        self.group(workflow, name).into_iter().flat_map(|group| group.waiting.iter().copied())
    }

    /// A member is blocked, or has spawned.
    pub(crate) fn may_wait(&mut self, seq: Seq, member: Option<&Member>) {
        if let Some(Member { workflow, group: Some(group) }) = member {
            self.workflows.entry(*workflow).or_default().group(group).waiting.insert(seq);
        }
    }

    /// Whether a task in memory waits for a group, or did.
    pub(crate) fn is_awaited(&self, workflow: WorkflowId, name: &Name) -> bool {
        self.group(workflow, name).is_some_and(|group| group.edges > 0)
    }

    /// The first group with open members that a task waits for, and how many these are.
    pub(crate) fn open_group(&self, spec: &TaskSpec) -> Option<(&Name, u64)> {
        let groups = self.workflows.get(&workflow_of(spec)?)?.groups()?;
        let mut open =
            spec.after_groups.iter().filter_map(|edge| groups.get_key_value(&edge.group));
        open.find(|(_, group)| group.open > 0).map(|(name, group)| (name, group.open))
    }

    /// Why a new task cannot wait for one of its groups, if it requires one that has failed.
    pub(crate) fn failed_group(&self, spec: &TaskSpec) -> Option<Name> {
        let groups = self.workflows.get(&workflow_of(spec)?)?.groups()?;
        let mut required = spec.after_groups.iter().filter(|edge| !edge.optional);
        let edge = required.find(|edge| {
            let group = groups.get(&edge.group);
            group.is_some_and(|group| group.failed.any())
        })?;
        let what = format!("group `{}` failed", edge.group);
        Some(cause(None, &what, "a task of it is dead or was cancelled"))
    }

    /// Ties a task in memory to the groups that its spec names: it waits for them if it is blocked.
    pub(crate) fn await_groups(&mut self, row: Row) {
        let task = &mut self.tasks[row];
        let (seq, blocked) = (task.seq, task.state == TaskState::Blocked);
        task.links().groups = if blocked { Awaits::Now } else { Awaits::Before };
        let spec = task.spec.clone();
        let Some(workflow) = workflow_of(&spec) else { return };
        let flow = self.workflows.entry(workflow).or_default();
        for edge in &spec.after_groups {
            let group = flow.group(&edge.group);
            group.edges += 1;
            if blocked {
                group.waiters.insert((edge.optional, seq));
            }
        }
        if blocked {
            self.due.push(seq);
        }
    }

    /// A task leaves memory that is tied to groups.
    pub(crate) fn leave_groups(&mut self, task: &Task) {
        self.change_groups(task.seq, &task.spec, |group| group.edges -= 1);
    }

    /// Takes a task from those that wait for its groups, and forgets groups that are over.
    fn change_groups(&mut self, seq: Seq, spec: &TaskSpec, change: impl Fn(&mut Group)) {
        let flow = workflow_of(spec).and_then(|workflow| self.workflows.get_mut(&workflow));
        let Some(groups) = flow.and_then(|flow| flow.groups_mut()) else { return };
        for edge in &spec.after_groups {
            let Some(group) = groups.get_mut(&edge.group) else { continue };
            group.waiters.remove(&(edge.optional, seq));
            change(group);
            if group.is_idle() {
                groups.remove(&edge.group);
            }
        }
    }

    /// A member of a group has failed, or a child of it has: cancels who requires the group.
    pub(crate) fn group_failed(&mut self, seq: Seq, workflow: WorkflowId, name: &Name, why: &Name) {
        let group = self.workflows.entry(workflow).or_default().group(name);
        group.failed.add(seq);
        let required: Vec<Seq> =
            group.waiters.range(..(true, Seq(0))).map(|(_, seq)| *seq).collect();
        if required.is_empty() {
            return;
        }
        let life = |seq| self.tasks.find(seq).and_then(|task| task.links.as_ref());
        let edge =
            |seq| Edge { seq, optional: false, life: life(seq).map_or(0, |links| links.life) };
        let dependents = required.into_iter().map(edge).collect();
        self.ended.push(Ended { dependents, spawned_by: None, cause: Some(why.clone()) });
    }

    /// Lets tasks go on whose groups have settled, if they wait for nothing else.
    pub(crate) fn let_go(&mut self, now: Timestamp) {
        if self.recovering || self.due.is_empty() {
            return;
        }
        for seq in std::mem::take(&mut self.due) {
            let Some(row) = self.tasks.row_of(seq) else { continue };
            let task = &self.tasks[row];
            let waits = task.links.as_ref().is_some_and(|links| {
                links.groups == Awaits::Now && links.missing == 0 && !links.callback
            });
            if !waits || task.state != TaskState::Blocked || self.open_group(&task.spec).is_some() {
                continue;
            }
            let spec = task.spec.clone();
            self.tasks[row].links().groups = Awaits::Before;
            self.change_groups(seq, &spec, |_| {});
            self.unblock(now, row);
        }
    }
}
