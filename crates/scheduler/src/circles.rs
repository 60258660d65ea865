//! Who waits for whom, over dependencies, groups and children, and which tasks would wait for themselves.
//!
//! Dependencies alone cannot go round in a circle across batches, since a task names only tasks that are known. Two
//! things tie a known task to a new one: its spawner waits for a child, and whoever waits for a group waits for its new
//! members. So a child is looked at when it comes (`submit`), and a batch with members for a group that is waited for
//! is looked at before it is taken in ([`Scheduler::circle_of`]).
//!
//! A task that was let go by a group may wait for it again after a restart (see `groups`). Therefore a tie to a group
//! counts here as long as its task is in memory, except where only waits of the moment matter ([`Ties::Now`]).
//!
//! Of the members of a group, only those are listed that may wait for something: that came blocked, or have spawned.

use std::collections::{BTreeMap, BTreeSet};

use divvy_types::{Name, Seq, TaskId, TaskSpec, TaskState, WorkflowId};

use crate::Scheduler;
use crate::input::{Parent, ParentState};
use crate::table::{Awaits, Task};

/// Something that waits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    Task(Seq),
    Group(WorkflowId, Name),
}

/// Which ties to groups count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ties {
    /// Those of tasks that wait for a group.
    Now,
    /// Those too of tasks that have waited for a group and are still in memory.
    Ever,
}

/// A task that is about to be taken in.
#[derive(Clone, Copy, Debug)]
pub struct Joining<'a> {
    /// The number that it will have.
    pub seq: Seq,
    /// What it is.
    pub spec: &'a TaskSpec,
    /// Its dependencies, looked up.
    pub parents: &'a [Parent],
}

/// The groups that a task names as what it waits for.
pub(crate) fn groups_of(spec: &TaskSpec) -> impl Iterator<Item = Node> {
    let workflow = spec.workflow.as_ref().map(|workflow| workflow.id);
    let edges = spec.after_groups.iter();
    edges.filter_map(move |edge| Some(Node::Group(workflow?, edge.group.clone())))
}

fn group_of(spec: &TaskSpec) -> Option<(WorkflowId, Name)> {
    let member = spec.group.as_ref().and_then(|_| spec.member())?;
    Some((member.workflow, member.group?))
}

impl Scheduler {
    /// What a task or a group waits for: children if it is done, dependencies and groups if it is blocked, members.
    pub(crate) fn waits_of(&self, node: &Node, ties: Ties) -> Vec<Node> {
        let seq = match node {
            Node::Task(seq) => *seq,
            Node::Group(workflow, name) => {
                return self.waiting_in(*workflow, name).map(Node::Task).collect();
            }
        };
        if let Some(settling) = self.settling.get(&seq) {
            return settling.children.iter().copied().map(Node::Task).collect();
        }
        let Some(task) = self.tasks.find(seq) else { return Vec::new() };
        let Some(links) = &task.links else { return Vec::new() };
        let mut waits = Vec::new();
        if task.state == TaskState::Blocked {
            // Its edges to its own spawners count as met.
            let edges =
                links.parents.iter().filter(|edge| !self.descends_from(links.spawned_by, edge.seq));
            waits.extend(edges.map(|edge| Node::Task(edge.seq)));
        }
        if is_tied(task, ties) {
            waits.extend(groups_of(&task.spec));
        }
        waits
    }

    /// Whether the spawner of a task, or one of its spawners, is in a group.
    pub(crate) fn spawned_in(&self, mut spawner: Option<Seq>, group: &Node) -> bool {
        let Node::Group(workflow, name) = group else { return false };
        while let Some(settling) = spawner.and_then(|seq| self.settling.get(&seq)) {
            let member = settling.member.as_ref();
            if member.is_some_and(|m| m.workflow == *workflow && m.group.as_ref() == Some(name)) {
                return true;
            }
            spawner = settling.spawned_by;
        }
        false
    }

    /// The group of a task that is put back, if something that it would wait for waits for that group.
    pub(crate) fn own_group_behind(&self, spec: &TaskSpec, parents: &[Parent]) -> Option<Name> {
        let (workflow, name) = group_of(spec)?;
        if !self.is_awaited(workflow, &name) {
            return None;
        }
        let mut seen = BTreeSet::new();
        let mut open: Vec<Node> = waits_of_new(spec, parents).collect();
        let own = Node::Group(workflow, name.clone());
        while let Some(node) = open.pop() {
            if node == own {
                return Some(name);
            }
            if seen.insert(node.clone()) {
                open.extend(self.waits_of(&node, Ties::Ever));
            }
        }
        None
    }

    /// The first task of a batch that would wait for itself by way of its group, and the group.
    pub fn circle_of(&self, batch: &[Joining<'_>]) -> Option<(TaskId, Name)> {
        let mut members: BTreeMap<Node, Vec<&Joining<'_>>> = BTreeMap::new();
        for new in batch {
            if let Some((workflow, name)) = group_of(new.spec) {
                members.entry(Node::Group(workflow, name)).or_default().push(new);
            }
        }
        let awaited = |node: &&Node| match node {
            Node::Group(workflow, name) => self.is_awaited(*workflow, name),
            Node::Task(_) => false,
        };
        let awaited: Vec<Node> = members.keys().filter(awaited).cloned().collect();
        if awaited.is_empty() {
            return None;
        }
        let new: BTreeMap<Seq, &Joining<'_>> = batch.iter().map(|new| (new.seq, new)).collect();
        let waits = |node: &Node| match node {
            Node::Task(seq) if new.contains_key(seq) => {
                waits_of_new(new[seq].spec, new[seq].parents).collect()
            }
            node => {
                let fresh = members.get(node).into_iter().flatten();
                let mut waits = self.waits_of(node, Ties::Ever);
                waits.extend(fresh.map(|new| Node::Task(new.seq)));
                waits
            }
        };
        let is_new = |node: &Node| matches!(node, Node::Task(seq) if new.contains_key(seq));
        let circle = find_circle(awaited, &waits, &is_new)?;
        // Only a group ties what is known to what is new.
        let entry = circle.windows(2).find(|pair| is_new(&pair[1]) && !is_new(&pair[0]));
        match entry {
            Some([Node::Group(_, name), Node::Task(seq)]) => Some((new[seq].spec.id, name.clone())),
            _ => None,
        }
    }
}

fn is_tied(task: &Task, ties: Ties) -> bool {
    let groups = task.links.as_ref().map(|links| links.groups).unwrap_or_default();
    match ties {
        Ties::Now => groups == Awaits::Now,
        Ties::Ever => groups != Awaits::Nothing,
    }
}

/// What a task waits for that is not in memory.
fn waits_of_new(spec: &TaskSpec, parents: &[Parent]) -> impl Iterator<Item = Node> {
    let open = parents.iter().filter(|parent| parent.state == ParentState::Open);
    open.map(|parent| Node::Task(parent.seq)).chain(groups_of(spec))
}

/// Walks along waits, each way once, until one leads back onto the way there; returns that circle, its first node at
/// both ends. One without any new task was there before and is none of the batch's making.
fn find_circle(
    starts: Vec<Node>,
    waits: &dyn Fn(&Node) -> Vec<Node>,
    is_new: &dyn Fn(&Node) -> bool,
) -> Option<Vec<Node>> {
    let mut over: BTreeSet<Node> = BTreeSet::new();
    for start in starts {
        if over.contains(&start) {
            continue;
        }
        let mut on_way = BTreeSet::from([start.clone()]);
        let ahead = waits(&start);
        let mut way: Vec<(Node, Vec<Node>)> = vec![(start, ahead)];
        while let Some((_, ahead)) = way.last_mut() {
            let Some(next) = ahead.pop() else {
                if let Some((node, _)) = way.pop() {
                    on_way.remove(&node);
                    over.insert(node);
                }
                continue;
            };
            if on_way.contains(&next) {
                let nodes = way.iter().map(|(node, _)| node).skip_while(|node| **node != next);
                let mut circle: Vec<Node> = nodes.cloned().collect();
                if circle.iter().any(is_new) {
                    circle.push(next);
                    return Some(circle);
                }
            } else if !over.contains(&next) {
                let ahead = waits(&next);
                on_way.insert(next.clone());
                way.push((next, ahead));
            }
        }
    }
    None
}
