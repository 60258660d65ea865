//! The tasks of one workflow, as far as the store knows them.

use divvy_types::{Seq, TaskError, TaskSpec, TaskState, Timestamp, Token};

/// A task of a workflow: a member, or one that runs when the workflow has ended.
#[derive(Clone, Debug)]
pub struct MemberRecord {
    /// Its number.
    pub seq: Seq,
    /// When it was accepted.
    pub submitted_at: Timestamp,
    /// What it is, without its payload.
    pub spec: TaskSpec,
    /// The task whose finish spawned it.
    pub spawned_by: Option<Seq>,
    /// How it ended, if it did.
    pub end: Option<MemberEnd>,
}

/// How a task of a workflow ended.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberEnd {
    /// Done, dead or cancelled.
    pub state: TaskState,
    /// The attempt that ended it; zero for a cancel.
    pub token: Token,
    /// When.
    pub at: Timestamp,
    /// What went wrong, or why it was cancelled.
    pub error: Option<TaskError>,
}

/// Which tasks of a workflow are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Members {
    /// All.
    All,
    /// Those that have not ended.
    Open,
    /// Those that are dead or cancelled.
    Failed,
}

impl Members {
    /// Whether a task in this final state, or in none, is wanted.
    pub(crate) fn include(self, state: Option<TaskState>) -> bool {
        match self {
            Self::All => true,
            Self::Open => state.is_none(),
            Self::Failed => state.is_some_and(TaskState::is_failure),
        }
    }
}
