//! A workflow as a graph for people: its tasks, what waits for what, and its groups, in one answer.
//!
//! The tasks are read in one walk off the loop; the loop is asked only where the open ones are, a slice at a time. A large
//! workflow is told up to [`NODES_MAX`] tasks and [`EDGES_MAX`] edges, and says that it was cut.

use std::collections::{BTreeMap, HashMap};

use divvy_store::{MemberRecord, Members};
use divvy_types::view::{
    GraphEdge, GraphGroup, GraphNode, WorkflowCounts, WorkflowGraph, WorkflowState,
};
use divvy_types::{GroupDependency, Name, Seq, TaskId, TaskSpec, TaskState, Timestamp, WorkflowId};

use crate::core::Core;
use crate::handle::Handle;
use crate::request::Error;
use crate::workflow_query::state_of;

/// Tasks that a graph tells.
const NODES_MAX: usize = 5_000;
/// Edges that it tells.
const EDGES_MAX: usize = 50_000;
/// Tasks that the loop is asked about at once.
const SLICE: usize = 1_000;

/// What one walk over the tasks of a workflow finds.
#[derive(Default)]
struct Walk {
    name: Name,
    started: Option<Timestamp>,
    ended: Option<Timestamp>,
    failed: u64,
    tasks: Vec<Found>,
    /// Tasks beyond those that are told: the open ones, and their groups.
    beyond: Vec<(TaskId, Seq, Option<Name>)>,
    truncated: bool,
    groups: BTreeMap<Name, WorkflowCounts>,
}

/// A task that is told.
struct Found {
    seq: Seq,
    spawned_by: Option<Seq>,
    spec: TaskSpec,
    node: GraphNode,
}

/// What the loop knows of an open task.
struct Now {
    state: TaskState,
    wait: Option<String>,
    attempts: u32,
    began: Option<Timestamp>,
    worker: Option<Name>,
}

impl Handle {
    /// The tasks of a workflow and how they hang together.
    pub async fn workflow_graph(&self, id: WorkflowId) -> Result<WorkflowGraph, Error> {
        let mut walk = self
            .read(move |reader| {
                let mut walk = Walk::default();
                reader.members(id, Members::All, &mut |member| walk.add(member))?;
                Ok(walk)
            })
            .await?;
        let Some(started) = walk.started else {
            return Err(Error::NoSuchWorkflow(id.to_string().into()));
        };
        let mut open = self.lay_present_over(&mut walk.tasks).await?;
        for slice in std::mem::take(&mut walk.beyond).chunks(SLICE) {
            open += slice.len() as u64;
            let asked = slice.to_vec();
            let states = move |core: &Core| -> Vec<(TaskState, Option<Name>)> {
                let state = |(id, seq, group)| (state_of(core, (id, seq)), group);
                asked.into_iter().map(state).collect()
            };
            for (state, group) in self.look(states).await? {
                walk.count(state, group.as_ref());
            }
        }
        let told: Vec<(TaskState, Option<Name>)> =
            walk.tasks.iter().map(|found| (found.node.state, found.node.group.clone())).collect();
        told.iter().for_each(|(state, group)| walk.count(*state, group.as_ref()));
        let edges = walk.edges();
        Ok(walk.graph(id, started, open, edges))
    }

    /// Says of each task that has not ended where it is; how many members are open.
    async fn lay_present_over(&self, tasks: &mut [Found]) -> Result<u64, Error> {
        let mut open = 0;
        for slice in tasks.chunks_mut(SLICE) {
            let asked: Vec<(TaskId, Seq, Option<Box<TaskSpec>>)> = slice
                .iter()
                .map(|found| {
                    let is_open = found.node.ended.is_none();
                    (found.spec.id, found.seq, is_open.then(|| Box::new(found.spec.clone())))
                })
                .collect();
            let present = self
                .look(move |core| asked.into_iter().map(|task| Now::of(core, task)).collect())
                .await?;
            let present: Vec<Now> = present;
            for (found, now) in slice.iter_mut().zip(present) {
                let node = &mut found.node;
                node.started = now.began;
                if node.ended.is_some() {
                    continue;
                }
                open += u64::from(node.role.is_member());
                (node.state, node.wait_reason) = (now.state, now.wait);
                (node.attempt, node.worker) = (Some(now.attempts), now.worker);
            }
        }
        Ok(open)
    }
}

impl Now {
    /// `spec` is given for a task that has not ended.
    fn of(core: &Core, (id, seq, spec): (TaskId, Seq, Option<Box<TaskSpec>>)) -> Self {
        let scheduler = core.scheduler();
        let began = scheduler.began(seq).or_else(|| core.live.began(seq));
        let state = spec.as_ref().map_or(TaskState::Done, |_| state_of(core, (id, seq)));
        let none = Self { state, wait: None, attempts: 0, began, worker: None };
        let Some(spec) = spec else { return none };
        match scheduler.status(seq).filter(|status| !status.settling) {
            _ if core.is_departing(id) => Self { attempts: 1, ..none },
            Some(status) => Self {
                wait: status.wait.map(|wait| wait.to_string()),
                attempts: status.attempts,
                worker: status.worker,
                ..none
            },
            None => {
                let wait = scheduler.wait_reason_for_spilled(&spec);
                Self { wait: Some(wait.to_string()), ..none }
            }
        }
    }
}

impl Walk {
    fn add(&mut self, member: MemberRecord) -> bool {
        let MemberRecord { seq, submitted_at, spec, spawned_by, end } = member;
        let started = self.started.get_or_insert(submitted_at);
        *started = (*started).min(submitted_at);
        let label = spec.workflow.as_deref();
        let role = label.map(|label| label.role).unwrap_or_default();
        if let Some(label) = label.filter(|_| self.name.is_empty()) {
            self.name = label.name.clone();
        }
        if let Some(end) = end.as_ref().filter(|_| role.is_member()) {
            self.ended = self.ended.max(Some(end.at));
            self.failed += u64::from(end.state.is_failure());
        }
        if self.tasks.len() == NODES_MAX {
            self.truncated = true;
            let group = spec.group.clone();
            match end {
                Some(end) => self.count(end.state, group.as_ref()),
                None if role.is_member() => self.beyond.push((spec.id, seq, group)),
                None => {}
            }
            return true;
        }
        let node = GraphNode {
            id: spec.id,
            name: spec.tags.first().unwrap_or(&spec.kind).clone(),
            kind: spec.kind.clone(),
            role,
            state: end.as_ref().map_or(TaskState::Ready, |end| end.state),
            group: spec.group.clone(),
            submitted: submitted_at,
            started: None,
            ended: end.as_ref().map(|end| end.at),
            attempt: None,
            wait_reason: None,
            error: end.and_then(|end| end.error).map(|error| error.to_string().into()),
            worker: None,
        };
        self.tasks.push(Found { seq, spawned_by, spec, node });
        true
    }

    fn count(&mut self, state: TaskState, group: Option<&Name>) {
        let Some(group) = group else { return };
        if !self.groups.contains_key(group) {
            self.groups.insert(group.clone(), WorkflowCounts::default());
        }
        if let Some(counts) = self.groups.get_mut(group) {
            *counts.of(state) += 1;
        }
    }

    fn edges(&mut self) -> Vec<GraphEdge> {
        let ids: HashMap<TaskId, ()> = self.tasks.iter().map(|found| (found.spec.id, ())).collect();
        let by_seq: HashMap<Seq, TaskId> =
            self.tasks.iter().map(|found| (found.seq, found.spec.id)).collect();
        let mut members: HashMap<&Name, Vec<TaskId>> = HashMap::new();
        for found in &self.tasks {
            if let Some(group) = &found.spec.group {
                members.entry(group).or_default().push(found.spec.id);
            }
        }
        let of_task = |found: &Found| {
            let to = found.spec.id;
            let after = found.spec.after.iter().filter(|edge| ids.contains_key(&edge.task));
            let after = after.map(move |edge| GraphEdge {
                from: edge.task,
                to,
                optional: edge.optional,
                spawned: false,
            });
            let parent = found.spawned_by.and_then(|seq| by_seq.get(&seq)).copied();
            let parent = parent.map(|from| GraphEdge { from, to, optional: false, spawned: true });
            let grouped =
                found.spec.after_groups.iter().flat_map(|GroupDependency { group, optional }| {
                    let from = members.get(group).map(Vec::as_slice).unwrap_or_default();
                    let from = from.iter().filter(|from| **from != to);
                    from.map(|from| GraphEdge {
                        from: *from,
                        to,
                        optional: *optional,
                        spawned: false,
                    })
                });
            let edges: Vec<GraphEdge> =
                after.chain(parent).chain(grouped).take(EDGES_MAX).collect();
            edges
        };
        let mut edges: Vec<GraphEdge> = Vec::new();
        for found in &self.tasks {
            edges.extend(of_task(found));
            if edges.len() > EDGES_MAX {
                edges.truncate(EDGES_MAX);
                self.truncated = true;
                break;
            }
        }
        edges
    }

    fn graph(
        self,
        id: WorkflowId,
        started: Timestamp,
        open: u64,
        edges: Vec<GraphEdge>,
    ) -> WorkflowGraph {
        let groups = self.groups.into_iter().map(|(name, by_state)| {
            let total = by_state.open() + by_state.ended();
            GraphGroup { name, total, by_state }
        });
        WorkflowGraph {
            id,
            name: self.name,
            state: WorkflowState::of(open, self.failed),
            started,
            ended: self.ended.filter(|_| open == 0),
            nodes: self.tasks.into_iter().map(|found| found.node).collect(),
            edges,
            groups: groups.collect(),
            truncated: self.truncated,
        }
    }
}
