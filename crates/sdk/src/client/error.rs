//! Why a wait for a result ended without one. What can go wrong with a server is told by `divvy-client`.

use divvy_client::Error;
use divvy_types::{TaskError, TaskId};

/// Why a wait for a result ended without one.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The task failed for good.
    #[error("task {task} is dead: {error}")]
    Dead {
        /// Which.
        task: TaskId,
        /// Its last error.
        error: TaskError,
    },
    /// The task was cancelled.
    #[error("task {task} was cancelled: {reason}")]
    Cancelled {
        /// Which.
        task: TaskId,
        /// Why.
        reason: String,
    },
    /// The result is there, but is not of the expected type.
    #[error("the result of task {task} is not of the expected type: {problem}")]
    Output {
        /// Which.
        task: TaskId,
        /// What does not fit.
        problem: String,
    },
    /// The server could not be asked.
    #[error(transparent)]
    Client(#[from] Error),
}
