//! How a run ends: the exit codes that scripts may rely on, and the error that carries one together with its cure.
//!
//! Knows nothing of how an error is printed; that is [`crate::output`].

use std::fmt;
use std::io;

/// The exit codes of `divvy`, listed in `divvy --help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Done.
    Done = 0,
    /// The work failed: a task is dead or cancelled, or a check found something.
    Failed = 1,
    /// What was typed, or a file that was named, makes no sense.
    Usage = 2,
    /// No server answers.
    Unreachable = 3,
    /// No such task, queue, worker or file.
    NotFound = 4,
    /// Refused: a conflict, a missing permission, a port or folder in use, a confirmation that is missing.
    Refused = 5,
    /// The time to wait is over.
    TimedOut = 6,
    /// Stopped by a signal.
    Interrupted = 130,
}

impl Code {
    /// The word for it, used as `code` of JSON errors that do not come from the server.
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Unreachable => "unreachable",
            Self::NotFound => "not_found",
            Self::Refused => "refused",
            Self::TimedOut => "timed_out",
            Self::Interrupted => "interrupted",
        }
    }
}

/// An error that knows its exit code, and what the reader can do about it.
#[derive(Debug)]
pub struct Failure {
    /// How the process ends.
    pub code: Code,
    /// The stable name of the error, where the server gave one.
    pub name: Option<String>,
    /// The field that is wrong, where the server named one.
    pub field: Option<String>,
    /// What happened.
    pub message: String,
    /// What to do about it.
    pub cure: Option<String>,
}

impl Failure {
    /// An error without a cure.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, name: None, field: None, message: message.into(), cure: None }
    }

    /// What was typed makes no sense.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    /// Refused.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(Code::Refused, message)
    }

    /// The same with a cure.
    pub fn cure(mut self, cure: impl Into<String>) -> Self {
        self.cure = Some(cure.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Whether the reader of our output went away, which is no error: `divvy task list | head`.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_broken_pipe_is_a_broken_pipe() {
        let broken =
            anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("writing");
        assert!(is_broken_pipe(&broken));
        assert!(!is_broken_pipe(&anyhow::Error::from(io::Error::from(io::ErrorKind::NotFound))));
        assert!(!is_broken_pipe(&Failure::usage("no").into()));
    }
}
