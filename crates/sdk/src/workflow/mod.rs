//! Workflows: tasks that wait for each other, described as a whole and started as a whole.
//!
//! A [`Workflow`] is a description without a server. A node may only wait for nodes that were added before it, so a
//! cycle cannot be written. A [`Run`] is a workflow at a server.

mod node;
mod run;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use divvy_types::{Dependency, Name, TaskId, TaskSpec, Timestamp, WorkflowId, WorkflowRole};

pub use node::{Node, Nodes};
pub use run::{Run, RunSummary, UnfinishedRun, in_batches};

use crate::client::Error;
use crate::task::{Task, TaskOptions};

/// Tells the nodes of one workflow from those of another.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A description of tasks that wait for each other.
///
/// ```
/// # use divvy::prelude::*;
/// # #[derive(Serialize, Deserialize)] struct Probe { url: String }
/// # impl Task for Probe { const KIND: &'static str = "video.probe"; type Output = u64; }
/// # #[derive(Serialize, Deserialize)] struct Transcode { height: u32 }
/// # impl Task for Transcode { const KIND: &'static str = "video.transcode"; type Output = String; }
/// # #[derive(Serialize, Deserialize)] struct Merge;
/// # impl Task for Merge { const KIND: &'static str = "video.merge"; type Output = String; }
/// let mut workflow = Workflow::new("publish clip").key("clip-42");
/// let probe = workflow.add(Probe { url: "clip-42.mp4".into() });
/// let ladder = [1080, 720, 480].map(|height| workflow.after(probe, Transcode { height }));
/// let merged: Node<String> = workflow.after(ladder, Merge);
/// # let _ = merged;
/// ```
#[derive(Debug)]
#[must_use = "a workflow does nothing until a client starts it"]
pub struct Workflow {
    mark: u64,
    name: Name,
    key: Option<String>,
    nodes: Vec<Entry>,
    problem: Option<Error>,
}

type Label = Box<divvy_types::Workflow>;

/// A node before the time and the ids of the start are known.
struct Entry {
    make: Box<dyn FnOnce(TaskId, Timestamp, Label) -> Result<TaskSpec, Error> + Send>,
    after: Vec<(u32, bool)>,
    role: WorkflowRole,
}

/// A workflow as it is submitted.
pub(crate) struct Plan {
    pub(crate) id: WorkflowId,
    pub(crate) name: Name,
    pub(crate) mark: u64,
    /// In order: a task comes after all those that it waits for.
    pub(crate) specs: Vec<TaskSpec>,
}

impl Workflow {
    /// A workflow that people call `name`, without nodes yet.
    pub fn new(name: impl Into<Name>) -> Self {
        let mark = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { mark, name: name.into(), key: None, nodes: Vec::new(), problem: None }
    }

    /// Makes starting idempotent: the same key is the same run, whose tasks have the ids that follow from the key and
    /// their places. Starting a different workflow under a used key is refused.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Adds a task that waits for nothing.
    pub fn add<T: Task>(&mut self, task: T) -> Node<T::Output> {
        self.add_with(task, |options| options)
    }

    /// Adds a task with changed options. Dependencies on tasks outside of the workflow go here.
    pub fn add_with<T: Task>(
        &mut self,
        task: T,
        change: impl FnOnce(TaskOptions) -> TaskOptions + Send + 'static,
    ) -> Node<T::Output> {
        self.push(task, change, WorkflowRole::Member)
    }

    fn push<T: Task>(
        &mut self,
        task: T,
        change: impl FnOnce(TaskOptions) -> TaskOptions + Send + 'static,
        role: WorkflowRole,
    ) -> Node<T::Output> {
        let make = move |id, now, label| {
            let mut spec = change(T::options()).labelled(Some(label)).spec(&task, now)?;
            spec.id = id;
            Ok(spec)
        };
        let place = u32::try_from(self.nodes.len())
            .expect("four thousand million nodes do not fit into memory");
        self.nodes.push(Entry { make: Box::new(make), after: Vec::new(), role });
        Node::new(self.mark, place)
    }

    /// Adds a task that runs after these nodes, and after the children that they spawn. If one of them fails for good,
    /// it is cancelled.
    pub fn after<T: Task>(&mut self, parents: impl Nodes, task: T) -> Node<T::Output> {
        let node = self.add(task);
        self.wait_for(node, parents);
        node
    }

    /// Adds a task that runs after these nodes have ended, in whichever way.
    pub fn after_optional<T: Task>(&mut self, parents: impl Nodes, task: T) -> Node<T::Output> {
        let node = self.add(task);
        self.wait_for_optional(node, parents);
        node
    }

    /// Adds a task that runs when every other task of the workflow has ended and none has failed, spawned children
    /// included. If one has, it is cancelled, and that is no failure.
    ///
    /// It is no part of the work: no node but another such task may wait for it. It may wait for nodes besides, whose
    /// results it gets then; see [`Workflow::wait_for`].
    pub fn on_success<T: Task>(&mut self, task: T) -> Node<T::Output> {
        self.push(task, |options| options, WorkflowRole::OnSuccess)
    }

    /// Adds a task that runs when every other task of the workflow has ended and one is dead or cancelled. If none is,
    /// it is cancelled, and that is no failure. Otherwise like [`Workflow::on_success`]; to hear how nodes ended, let
    /// it [wait for them](Workflow::wait_for_optional).
    pub fn on_failure<T: Task>(&mut self, task: T) -> Node<T::Output> {
        self.push(task, |options| options, WorkflowRole::OnFailure)
    }

    /// Makes a node wait for more nodes, all of them added before it.
    pub fn wait_for<O>(&mut self, node: Node<O>, parents: impl Nodes) {
        self.connect(node.mark(), node.place(), &parents.places(), false);
    }

    /// Makes a node wait for the end of more nodes, all of them added before it.
    pub fn wait_for_optional<O>(&mut self, node: Node<O>, parents: impl Nodes) {
        self.connect(node.mark(), node.place(), &parents.places(), true);
    }

    /// How many nodes it has.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether it has no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    fn connect(&mut self, mark: u64, place: u32, parents: &[(u64, u32)], optional: bool) {
        for (parent_mark, parent) in parents.iter().copied() {
            if mark != self.mark || parent_mark != self.mark {
                self.complain(
                    "a node of another workflow was used; add all nodes to the same one".into(),
                );
            } else if parent >= place {
                self.complain(format!(
                    "node {place} waits for node {parent}, which was not added before it"
                ));
            } else if self.nodes[place as usize].role.is_member()
                && !self.nodes[parent as usize].role.is_member()
            {
                self.complain(format!(
                    "node {place} waits for node {parent}, which runs when all others have ended"
                ));
            } else {
                self.nodes[place as usize].after.push((parent, optional));
            }
        }
    }

    fn complain(&mut self, problem: String) {
        let name = self.name.to_string();
        self.problem.get_or_insert(Error::Workflow { name, problem });
    }

    /// The tasks, with their ids and edges.
    pub(crate) fn plan(mut self, now: Timestamp) -> Result<Plan, Error> {
        if self.nodes.is_empty() {
            self.complain("it has no nodes; add at least one task".into());
        }
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let key = self.key;
        let ids: Vec<TaskId> = (0..self.nodes.len())
            .map(|place| match &key {
                Some(key) => TaskId::from_key(&format!("{key}/{place}")),
                None => crate::task::fresh_id(),
            })
            .collect();
        let id = key.as_deref().map_or_else(crate::task::fresh_id, TaskId::from_key);
        let id = WorkflowId(id.0);
        let mut specs = Vec::with_capacity(ids.len());
        for (place, entry) in self.nodes.into_iter().enumerate() {
            let (name, role) = (self.name.clone(), entry.role);
            let label = Box::new(divvy_types::Workflow { id, name, role });
            let mut spec = (entry.make)(ids[place], now, label)?;
            let edges =
                entry.after.iter().map(|(parent, optional)| (ids[*parent as usize], *optional));
            spec.after.extend(edges.map(|(task, optional)| Dependency { task, optional }));
            spec.validate()?;
            specs.push(spec);
        }
        check_groups(&self.name, &specs)?;
        Ok(Plan { id, name: self.name, mark: self.mark, specs })
    }
}

/// A large workflow is sent in parts, in order: who waits for a group comes after its tasks.
fn check_groups(name: &Name, specs: &[TaskSpec]) -> Result<(), Error> {
    let mut awaited: BTreeMap<&Name, usize> = BTreeMap::new();
    for (place, spec) in specs.iter().enumerate() {
        if let Some(group) = &spec.group
            && let Some(first) = awaited.get(group)
        {
            let problem = format!(
                "node {first} waits for the group `{group}`, in which node {place} is, which was not added before it"
            );
            return Err(Error::Workflow { name: name.to_string(), problem });
        }
        for edge in &spec.after_groups {
            awaited.entry(&edge.group).or_insert(place);
        }
    }
    Ok(())
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("after", &self.after).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Step(u32);

    impl Task for Step {
        const KIND: &'static str = "step";
        type Output = u32;
    }

    fn diamond() -> Workflow {
        let mut workflow = Workflow::new("diamond").key("d");
        let top = workflow.add(Step(0));
        let sides = [1, 2].map(|n| workflow.after(top, Step(n)));
        let bottom = workflow.after(sides, Step(3));
        workflow.wait_for_optional(bottom, top);
        workflow
    }

    #[test]
    fn nodes_become_specs_with_edges_and_the_same_key_gives_the_same_specs() {
        let plan = diamond().plan(Timestamp(1)).unwrap();
        let places = |spec: &TaskSpec| -> Vec<(usize, bool)> {
            let place = |id| plan.specs.iter().position(|s| s.id == id).unwrap();
            spec.after.iter().map(|edge| (place(edge.task), edge.optional)).collect()
        };
        assert_eq!(places(&plan.specs[0]), []);
        assert_eq!(places(&plan.specs[2]), [(0, false)]);
        assert_eq!(places(&plan.specs[3]), [(1, false), (2, false), (0, true)]);
        assert_eq!(plan.specs[3].workflow.as_ref().unwrap().name, "diamond");
        assert_eq!(diamond().plan(Timestamp(1)).unwrap().specs, plan.specs);
    }

    #[test]
    fn without_a_key_each_start_is_a_new_run() {
        let ids = || {
            let mut workflow = Workflow::new("one");
            workflow.add(Step(0));
            workflow.plan(Timestamp(1)).unwrap().specs[0].id
        };
        assert_ne!(ids(), ids());
    }

    #[test]
    fn mistakes_are_told_at_the_start() {
        let problem = |workflow: Workflow| workflow.plan(Timestamp(1)).err().unwrap().to_string();
        assert_eq!(
            problem(Workflow::new("w")),
            "workflow `w`: it has no nodes; add at least one task"
        );
        let mut other = Workflow::new("other");
        let stranger = other.add(Step(0));
        let mut workflow = Workflow::new("w");
        workflow.after(stranger, Step(1));
        assert!(problem(workflow).contains("a node of another workflow"));
        let mut workflow = Workflow::new("w");
        let (first, second) = (workflow.add(Step(0)), workflow.add(Step(1)));
        workflow.wait_for(first, second);
        assert!(problem(workflow).contains("node 0 waits for node 1"));
        let mut workflow = Workflow::new("w");
        workflow.add_with(Step(0), |options| options.priority(0));
        assert!(problem(workflow).contains("priority"));
        let mut workflow = Workflow::new("w");
        workflow.add_with(Step(0), |options| options.after_group("steps"));
        workflow.add_with(Step(1), |options| options.group("steps"));
        assert!(problem(workflow).contains("node 0 waits for the group `steps`, in which node 1"));
        let mut workflow = Workflow::new("w");
        let last = workflow.on_success(Step(0));
        workflow.after(last, Step(1));
        assert!(problem(workflow).contains("which runs when all others have ended"));
    }
}
