//! What people see of the tasks of a workflow and how they hang together.

use serde::{Deserialize, Serialize};

use crate::view_workflow::{WorkflowCounts, WorkflowState};
use crate::{Name, TaskId, TaskState, Timestamp, WorkflowId, WorkflowRole};

/// The tasks of a workflow and what they wait for, in one answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkflowGraph {
    /// The workflow.
    pub id: WorkflowId,
    /// What people call it.
    pub name: Name,
    /// How it stands.
    pub state: WorkflowState,
    /// When its first task was submitted.
    pub started: Timestamp,
    /// When its last member ended, if none is open.
    pub ended: Option<Timestamp>,
    /// Its tasks, oldest first; those that run when it has ended are among them.
    pub nodes: Vec<GraphNode>,
    /// What waits for what. Both ends are among the nodes.
    pub edges: Vec<GraphEdge>,
    /// Its groups, by name; all members are counted, also those that are not among the nodes.
    pub groups: Vec<GraphGroup>,
    /// Whether there are more tasks or edges than are told.
    pub truncated: bool,
}

/// A task of a workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GraphNode {
    /// Its id.
    pub id: TaskId,
    /// What to call it: its first tag, or its kind.
    pub name: Name,
    /// Its kind.
    pub kind: Name,
    /// What it is to the workflow.
    pub role: WorkflowRole,
    /// Where it is.
    pub state: TaskState,
    /// The group that it is in.
    pub group: Option<Name>,
    /// When it was submitted.
    pub submitted: Timestamp,
    /// When its last attempt began; nothing if none has, or if it ended before the last start of the server.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Attempts that were begun and counted; nothing once it has ended.
    pub attempt: Option<u32>,
    /// Why it does not run, in words.
    pub wait_reason: Option<String>,
    /// What went wrong, or why it was cancelled.
    pub error: Option<Name>,
    /// Who runs it.
    pub worker: Option<Name>,
}

/// One task comes after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GraphEdge {
    /// The earlier one.
    pub from: TaskId,
    /// The later one.
    pub to: TaskId,
    /// Whether the later one runs even if the earlier one fails.
    pub optional: bool,
    /// Whether the earlier one brought the later one into being, instead of being waited for.
    pub spawned: bool,
}

/// A group of a workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GraphGroup {
    /// Its name.
    pub name: Name,
    /// Its members.
    pub total: u64,
    /// How many are where.
    pub by_state: WorkflowCounts,
}
