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

/// What went wrong with a server, in the words of the command line.
impl From<divvy_client::Error> for Failure {
    fn from(error: divvy_client::Error) -> Self {
        use divvy_client::Error;
        let text = error.to_string();
        match error {
            Error::Address { url, problem } => {
                Self::usage(format!("`{url}` is not an address of a server: {problem}"))
                    .cure("write it as http://127.0.0.1:7171")
            }
            Error::Unreachable { server, problem } => {
                let cure = if divvy_client::Target::new(&server).is_loopback() {
                    "start one with `divvy up`, or name another with --server URL or DIVVY_SERVER"
                } else {
                    "check the address (--server URL or DIVVY_SERVER) and the network"
                };
                let message = format!("no server answers at {server}: {problem}");
                Self::new(Code::Unreachable, message).cure(cure)
            }
            Error::Scheme { right, .. } => {
                let message = text.split("; ").next().unwrap_or(&text).to_owned();
                let cure =
                    format!("write {right}:// in the address (--server URL or DIVVY_SERVER)");
                Self::new(Code::Unreachable, message).cure(cure)
            }
            Error::Untrusted { server, problem } => {
                let message = format!("the certificate of {server} is not trusted: {problem}");
                Self::new(Code::Unreachable, message).cure(
                    "name the file of its authority with --ca FILE or DIVVY_CA, or let this machine trust it",
                )
            }
            Error::Unauthorized { message, .. } => Self {
                name: Some("unauthorized".to_owned()),
                ..Self::refused(message).cure("pass the server's token with --token or DIVVY_TOKEN")
            },
            Error::Refused { code, message, field, status, .. } => {
                let exit = match status {
                    Some(404) => Code::NotFound,
                    Some(403 | 409 | 429 | 503 | 507) | None => Code::Refused,
                    Some(400..=499) => Code::Usage,
                    Some(_) => Code::Failed,
                };
                let failure = Self { name: Some(code), field, ..Self::new(exit, message) };
                match status {
                    Some(429 | 503) => failure.cure("try again in a moment"),
                    _ => failure,
                }
            }
            Error::Protocol { problem } => {
                let message =
                    format!("the server's answer is not what this version expects: {problem}");
                Self::new(Code::Failed, message).cure(
                    "run the same version of divvy on both sides; `divvy doctor` compares them",
                )
            }
            _ => Self::usage(text),
        }
    }
}

/// An error with its exit code, if it has one that is known.
pub fn explained(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<divvy_client::Error>() {
        Ok(error) => Failure::from(error).into(),
        Err(error) => error,
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
    fn a_refusal_keeps_the_servers_words_and_gets_its_exit_code() {
        let refused = |status, code: &str| {
            Failure::from(divvy_client::Error::Refused {
                code: code.into(),
                message: "task x is done".into(),
                field: Some("id".into()),
                status,
                retry_after: None,
            })
        };
        let failure = refused(Some(409), "conflict");
        assert_eq!((failure.code, failure.name.as_deref()), (Code::Refused, Some("conflict")));
        assert_eq!(
            (failure.message.as_str(), failure.field.as_deref()),
            ("task x is done", Some("id"))
        );
        assert_eq!(refused(Some(404), "not_found").code, Code::NotFound);
        assert_eq!(refused(Some(400), "invalid_field").code, Code::Usage);
        assert_eq!(refused(Some(500), "store").code, Code::Failed);
        let unauthorized =
            divvy_client::Error::Unauthorized { server: "a".into(), message: "no".into() };
        let failure = Failure::from(unauthorized);
        assert_eq!((failure.code, failure.message.as_str()), (Code::Refused, "no"));
        assert!(failure.cure.unwrap().contains("DIVVY_TOKEN"));
        let away = |server: &str| {
            let problem = "Connection refused".to_owned();
            Failure::from(divvy_client::Error::Unreachable { server: server.into(), problem })
        };
        assert_eq!(away("http://127.0.0.1:1").code, Code::Unreachable);
        assert!(away("http://127.0.0.1:1").cure.unwrap().contains("divvy up"));
        assert!(away("http://10.0.0.1").cure.unwrap().contains("network"));
    }

    #[test]
    fn only_a_broken_pipe_is_a_broken_pipe() {
        let broken =
            anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("writing");
        assert!(is_broken_pipe(&broken));
        assert!(!is_broken_pipe(&anyhow::Error::from(io::Error::from(io::ErrorKind::NotFound))));
        assert!(!is_broken_pipe(&Failure::usage("no").into()));
    }
}
