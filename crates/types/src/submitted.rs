//! What became of a submission: the answer of the engine, the server and the SDK alike.

use serde::{Deserialize, Serialize};

use crate::TaskId;
use crate::view::Late;

/// What became of a submission.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Submitted {
    /// New tasks.
    pub accepted: u32,
    /// Tasks that were known already, with the same spec.
    pub known: u32,
    /// Tasks that were not taken, because another has their unique key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Conflict>,
    /// New tasks that are expected to miss their deadlines: the first [`LATE_LISTED_MAX`](crate::limits::LATE_LISTED_MAX)
    /// of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub late: Vec<Late>,
    /// How many these are in all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late_total: u32,
}

/// A task that was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conflict {
    /// The task.
    pub task: TaskId,
    /// The task that has its unique key.
    pub first: TaskId,
}

/// The answer to a submission over HTTP, where the server may have made the ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Accepted {
    /// What became of it.
    #[serde(flatten)]
    pub submitted: Submitted,
    /// The ids of all its tasks, in their order; for one that was not taken, that of the task that has its unique key.
    pub ids: Vec<TaskId>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}
