//! A workflow as a graph for people: its tasks, what waits for what, and its groups, in one answer.
//!
//! A large workflow is told up to [`NODES_MAX`] tasks and [`EDGES_MAX`] edges, and says that it was cut.

use std::collections::{BTreeMap, HashMap};

use divvy_store::MemberRecord;
use divvy_types::view::{GraphEdge, GraphGroup, GraphNode, WorkflowCounts, WorkflowGraph};
use divvy_types::{GroupDependency, Name, Seq, TaskId, TaskSpec, TaskState, Token, WorkflowId};

use crate::core::Core;
use crate::handle::Handle;
use crate::outline::{Outline, SLICE};
use crate::request::Error;
use crate::workflow_query::state_of;

/// Tasks that a graph tells.
const NODES_MAX: usize = 5_000;
/// Edges that it tells.
const EDGES_MAX: usize = 50_000;
/// What one walk over the tasks of a workflow finds.
#[derive(Default)]
struct Walk {
    outline: Outline,
    tasks: Vec<Found>,
    /// Tasks beyond those that are told: the open ones, and their groups.
    beyond: Vec<(TaskId, Seq, Option<Name>)>,
    truncated: bool,
    groups: BTreeMap<Name, WorkflowCounts>,
}

/// A task that is told.
struct Found {
    seq: Seq,
    /// The attempt that ended it.
    token: Token,
    spawned_by: Option<Seq>,
    spec: TaskSpec,
    node: GraphNode,
}

impl Handle {
    /// The tasks of a workflow and how they hang together.
    pub async fn workflow_graph(&self, id: WorkflowId) -> Result<WorkflowGraph, Error> {
        let mut walk = self.walk(id, Walk::add).await?;
        self.lay_present_over(&mut walk.tasks).await?;
        for slice in std::mem::take(&mut walk.beyond).chunks(SLICE) {
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
        Ok(walk.graph(id, edges))
    }

    /// Says of each task when its last attempt began, and of those that have not ended where they are.
    async fn lay_present_over(&self, tasks: &mut [Found]) -> Result<(), Error> {
        for slice in tasks.chunks_mut(SLICE) {
            let key = |found: &Found| {
                let is_open = found.node.ended.is_none();
                (found.spec.id, found.seq, is_open.then(|| Box::new(found.spec.clone())))
            };
            let present = self.present(slice.iter().map(key).collect()).await?;
            let began = self.began(slice.iter().map(|found| found.token).collect()).await?;
            for (found, (present, began)) in slice.iter_mut().zip(present.into_iter().zip(began)) {
                let node = &mut found.node;
                node.started = began;
                let Some(present) = present else { continue };
                node.state = present.state;
                node.wait_reason = present.wait.map(|wait| wait.to_string());
                (node.attempt, node.worker) = (Some(present.attempts), present.worker);
                node.started = present.began;
            }
        }
        Ok(())
    }
}

impl Walk {
    fn add(&mut self, member: MemberRecord) {
        let role = self.outline.add(&member);
        let MemberRecord { seq, submitted_at, spec, spawned_by, end } = member;
        if self.tasks.len() == NODES_MAX {
            self.truncated = true;
            let group = spec.group.clone();
            match end {
                Some(end) => self.count(end.state, group.as_ref()),
                None if role.is_member() => self.beyond.push((spec.id, seq, group)),
                None => {}
            }
            return;
        }
        let token = end.as_ref().map(|end| end.token).unwrap_or_default();
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
        self.tasks.push(Found { seq, token, spawned_by, spec, node });
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

    fn graph(self, id: WorkflowId, edges: Vec<GraphEdge>) -> WorkflowGraph {
        let groups = self.groups.into_iter().map(|(name, by_state)| {
            let total = by_state.open() + by_state.ended();
            GraphGroup { name, total, by_state }
        });
        WorkflowGraph {
            id,
            state: self.outline.state(),
            started: self.outline.started_at,
            ended: self.outline.ended_at(),
            name: self.outline.name,
            nodes: self.tasks.into_iter().map(|found| found.node).collect(),
            edges,
            groups: groups.collect(),
            truncated: self.truncated,
        }
    }
}
