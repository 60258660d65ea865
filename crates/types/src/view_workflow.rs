//! What people and programs see of a workflow.

use serde::{Deserialize, Serialize};

use crate::select::fits;
use crate::{Name, TaskError, TaskId, TaskState, Timestamp, WorkflowId, WorkflowRole};

/// A workflow whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkflowView {
    /// Its id.
    pub id: WorkflowId,
    /// What people call it.
    pub name: Name,
    /// How it stands.
    pub state: WorkflowState,
    /// How many members it has, spawned ones included. Tasks that run when it has ended are no members.
    pub total: u64,
    /// How many members are where.
    pub counts: WorkflowCounts,
    /// How much of it is over, in percent of the members that are known.
    pub percent: u8,
    /// When its first task was submitted.
    pub started_at: Timestamp,
    /// When its last member ended, if none is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The first members that failed: dead ones before those that were cancelled.
    pub failed: Vec<WorkflowTask>,
    /// Tasks that run when it has ended.
    pub callbacks: Vec<WorkflowTask>,
}

/// How a workflow stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WorkflowState {
    /// A member has not ended.
    Open,
    /// All members are done.
    Succeeded,
    /// All members have ended, and one is dead or cancelled.
    Failed,
}

impl WorkflowState {
    /// How a workflow stands of whose members so many are open and so many failed.
    pub fn of(open: u64, failed: u64) -> Self {
        match (open, failed) {
            (1.., _) => Self::Open,
            (0, 0) => Self::Succeeded,
            (0, _) => Self::Failed,
        }
    }

    /// Its name in every interface.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }
}

/// How many members of a workflow are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkflowCounts {
    /// Wait for others.
    pub blocked: u64,
    /// Wait for a time.
    pub scheduled: u64,
    /// Wait for a worker.
    pub ready: u64,
    /// Are at a worker: they run, or are `queued`.
    pub leased: u64,
    /// Of these, wait there for a free slot.
    #[serde(default)]
    pub queued: u64,
    /// Are done.
    pub done: u64,
    /// Failed for good.
    pub dead: u64,
    /// Were cancelled.
    pub cancelled: u64,
}

impl WorkflowCounts {
    /// The count of a state.
    pub fn of(&mut self, state: TaskState) -> &mut u64 {
        match state {
            TaskState::Blocked => &mut self.blocked,
            TaskState::Scheduled => &mut self.scheduled,
            TaskState::Ready => &mut self.ready,
            TaskState::Leased => &mut self.leased,
            TaskState::Done => &mut self.done,
            TaskState::Dead => &mut self.dead,
            TaskState::Cancelled => &mut self.cancelled,
        }
    }

    /// How many have not ended.
    pub fn open(&self) -> u64 {
        self.blocked + self.scheduled + self.ready + self.leased
    }

    /// How many have ended, in whichever way.
    pub fn ended(&self) -> u64 {
        self.done + self.dead + self.cancelled
    }
}

/// A task of a workflow, in short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkflowTask {
    /// Its id.
    pub id: TaskId,
    /// Its kind.
    pub kind: Name,
    /// What it is to the workflow.
    pub role: WorkflowRole,
    /// Where it is.
    pub state: TaskState,
    /// What went wrong, or why it was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
}

/// A workflow in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkflowSummary {
    /// Its id.
    pub id: WorkflowId,
    /// What people call it.
    pub name: Name,
    /// How it stands.
    pub state: WorkflowState,
    /// How many members it has, spawned ones included.
    pub total: u64,
    /// Members that have not ended.
    pub open: u64,
    /// Members that are dead or cancelled.
    pub failed: u64,
    /// How much of it is over, in percent of the members that are known.
    pub percent: u8,
    /// When its first task was submitted.
    pub started_at: Timestamp,
    /// When its last member ended, if none is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// Which workflows; a part that is absent fits all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SelectWorkflows {
    /// Only in one of these states.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<WorkflowState>,
    /// Only with this name; a trailing `*` matches any rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::schema::Label<{ crate::limits::WORKFLOW_NAME_LEN_MAX }>>")
    )]
    pub name: Option<Name>,
}

impl SelectWorkflows {
    /// Whether a workflow fits.
    pub fn matches(&self, workflow: &WorkflowSummary) -> bool {
        (self.state.is_empty() || self.state.contains(&workflow.state))
            && self.name.as_ref().is_none_or(|name| fits(name, &workflow.name))
    }
}

/// What became of a cancel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CancelledWorkflow {
    /// The workflow.
    pub id: WorkflowId,
    /// Tasks that were cancelled, or whose workers were told to stop them.
    pub cancelled: u64,
}

/// What became of a resume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResumedWorkflow {
    /// The workflow.
    pub id: WorkflowId,
    /// Members that were put back.
    pub resumed: u64,
    /// Tasks that were put back to wait for its end.
    pub callbacks: u64,
    /// Members that have failed and stay so: people cancelled them, they depend on one that stays failed, or there
    /// were too many for one resume.
    pub left: u64,
}
