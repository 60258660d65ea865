//! How an attempt ended, as its worker says it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cut::head;
use crate::limits::ERROR_BYTES_MAX;
use crate::{Name, Payload, TaskSpec};

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum AttemptOutcome {
    /// It worked.
    Finished {
        /// What the handler returned.
        result: Payload,
        /// Tasks that come into being with this finish, in the same commit. Dependents wait for them too.
        spawned: Vec<TaskSpec>,
    },
    /// It did not.
    Failed(Failure),
    /// The worker gives the task back unrun, because it stops. Not counted as an attempt.
    Released,
}

/// A failed attempt and what shall follow from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What follows.
    pub verdict: FailureVerdict,
    /// What happened.
    pub error: TaskError,
}

/// What a failure asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FailureVerdict {
    /// Retry by the task's policy.
    Retry,
    /// Retry after this many milliseconds; counted as an attempt.
    RetryAfterMs(u64),
    /// Try again after this many milliseconds; not counted as an attempt.
    SnoozeMs(u64),
    /// No retry can help: a dead letter at once.
    Dead,
    /// The handler was asked to stop and did.
    Cancelled,
}

/// What went wrong in an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskError {
    /// The sort of error.
    pub class: ErrorClass,
    /// The words of the handler, cut to [`ERROR_BYTES_MAX`].
    pub message: Name,
}

/// The sorts of errors that people tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The handler said so.
    Failed,
    /// The attempt took longer than it may.
    Timeout,
    /// The handler panicked or its process crashed.
    Crashed,
    /// The worker went away while it held the task.
    WorkerLost,
    /// Someone cancelled the task.
    Cancelled,
}

impl ErrorClass {
    /// The word for it, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::Crashed => "crashed",
            Self::WorkerLost => "worker_lost",
            Self::Cancelled => "cancelled",
        }
    }
}

impl TaskError {
    /// An error of this class; a message over the limit is cut.
    pub fn new(class: ErrorClass, message: impl AsRef<str>) -> Self {
        Self { class, message: Name::from(head(message.as_ref(), ERROR_BYTES_MAX)) }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class {
            ErrorClass::Failed => f.write_str(&self.message),
            class => write!(f, "{}: {}", class.as_str(), self.message),
        }
    }
}
