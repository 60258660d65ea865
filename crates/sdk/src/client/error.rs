//! What can go wrong between a client and its server.

use std::time::Duration;

use divvy_types::{SpecError, TaskError, TaskId};

/// Why a request to the server failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not an address of a server.
    #[error(
        "`{url}` is not the address of a server: {problem}; expected something like http://127.0.0.1:7171"
    )]
    Address {
        /// What was given.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No server answers there.
    #[error(
        "no divvy server answers at {server} ({problem}); start one with `divvy up`, or say where it is in DIVVY_SERVER"
    )]
    Unreachable {
        /// Where.
        server: String,
        /// What the network says.
        problem: String,
    },
    /// The server wants a token, or another one.
    #[error(
        "the server at {server} does not accept the token; set DIVVY_TOKEN to the one that it was started with"
    )]
    Unauthorized {
        /// Where.
        server: String,
    },
    /// The server understood and said no.
    #[error("{message}")]
    Refused {
        /// A stable name, such as `id_taken` or `not_found`.
        code: String,
        /// Why, in words.
        message: String,
        /// When to try again, if that can help.
        retry_after: Option<Duration>,
    },
    /// A spec is not acceptable; nothing was sent.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A task that is no JSON.
    #[error("a task of kind `{kind}` cannot be sent: {problem}")]
    Encode {
        /// Its kind.
        kind: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A workflow that cannot be started; nothing was sent.
    #[error("workflow `{name}`: {problem}")]
    Workflow {
        /// Its name.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The server's answer makes no sense to this version.
    #[error(
        "the server at {server} answered what this version does not understand: {problem}; use matching versions"
    )]
    Protocol {
        /// Where.
        server: String,
        /// What does not fit.
        problem: String,
    },
}

impl Error {
    /// A stable name for programs.
    pub fn code(&self) -> &str {
        match self {
            Self::Address { .. } => "bad_address",
            Self::Unreachable { .. } => "unreachable",
            Self::Unauthorized { .. } => "unauthorized",
            Self::Refused { code, .. } => code,
            Self::Spec(error) => error.code(),
            Self::Encode { .. } => "not_json",
            Self::Workflow { .. } => "bad_workflow",
            Self::Protocol { .. } => "protocol",
        }
    }

    /// Whether the same request may work a little later.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Refused { retry_after: Some(_), .. })
    }
}

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
