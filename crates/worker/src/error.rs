//! Why a worker cannot start or go on. A lost connection is not here: that is retried until shutdown.

/// Why a worker ended without being asked to, or did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option is outside its limits.
    #[error("worker option {field} {problem}")]
    Option {
        /// Which option.
        field: &'static str,
        /// What is wrong with it, and what is expected.
        problem: String,
    },
    /// No handler was registered.
    #[error("the worker has no handlers, so it could never run a task; register at least one kind")]
    NoHandlers,
    /// A kind has two handlers.
    #[error("kind `{kind}` has two handlers; register each kind once")]
    KindTaken {
        /// The kind.
        kind: String,
    },
    /// A program on the allow-list cannot be run.
    #[error("program `{program}` for kind `{name}` {problem}")]
    Program {
        /// The name it is listed under.
        name: String,
        /// What was asked for.
        program: String,
        /// What is wrong with it, and the cure.
        problem: String,
    },
    /// The server does not want this worker; trying again would not help.
    #[error("the server at {server} refused this worker ({code}): {message}")]
    Refused {
        /// Where.
        server: String,
        /// The server's stable code.
        code: String,
        /// What the server said.
        message: String,
    },
    /// Something of the operating system that a worker needs is not to be had.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What went wrong.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn option(field: &'static str, problem: impl Into<String>) -> Self {
        Self::Option { field, problem: problem.into() }
    }
}
