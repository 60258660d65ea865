//! What can go wrong with a job, by what can be done about it.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::time::Duration;

/// A field of a job that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct SpecError {
    /// Which.
    pub field: String,
    /// What is wrong with it, and the cure.
    pub problem: String,
}

impl SpecError {
    /// This field has this problem.
    pub fn new(field: impl Into<String>, problem: impl Display) -> Self {
        Self { field: field.into(), problem: problem.to_string() }
    }
}

/// Why a job cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JobError(pub String);

/// Why a part is not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    /// A file or a disk made trouble; another attempt may go better.
    #[error("{0}")]
    Trouble(String),
    /// The input is not what it should be; no other attempt helps.
    #[error("{file}:{line}: {why}")]
    Input {
        /// The file.
        file: String,
        /// The line, from 1; 0 if the place is in `why`.
        line: u64,
        /// What is wrong there, and the cure.
        why: String,
    },
    /// A program of the job failed; no other attempt helps.
    #[error("{command} {how}; it wrote: {stderr}")]
    Command {
        /// The program as it was given.
        command: String,
        /// How it ended, such as `ended with code 3`.
        how: String,
        /// The last lines that it wrote to its standard error.
        stderr: String,
    },
    /// Something else that no other attempt cures: a full limit, a plan of another version, a forbidden path.
    #[error("{0}")]
    Broken(String),
    /// Nothing to do at the moment: the part gives its slot back and has another turn after this span.
    #[error("{why}")]
    Later {
        /// When to come back.
        after: Duration,
        /// What it waits for.
        why: String,
    },
    /// The part was told to stop.
    #[error("told to stop")]
    Cancelled,
}

impl PartError {
    /// Trouble with a file. A full disk says so, with the cure.
    pub fn io(path: &Path, error: &io::Error) -> Self {
        let path = path.display();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Trouble(format!(
                "{path}: the disk is full; free some space there and start the job again"
            )),
            io::ErrorKind::NotFound => Self::Broken(format!("{path}: there is no such file")),
            io::ErrorKind::PermissionDenied => {
                Self::Broken(format!("{path}: may not be read or written by this worker: {error}"))
            }
            _ => Self::Trouble(format!("{path}: {error}")),
        }
    }

    /// Input that is wrong at a line.
    pub fn input(file: &Path, line: u64, why: impl Display) -> Self {
        Self::Input { file: file.display().to_string(), line, why: why.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_with_a_file_is_told_with_its_place_and_the_cure() {
        let says = |kind: io::ErrorKind| {
            PartError::io(Path::new("/logs/a.txt"), &io::Error::new(kind, "refused"))
        };
        let forbidden = "/logs/a.txt: may not be read or written by this worker: refused";
        assert_eq!(says(io::ErrorKind::PermissionDenied), PartError::Broken(forbidden.to_owned()));
        let full = "/logs/a.txt: the disk is full; free some space there and start the job again";
        assert_eq!(says(io::ErrorKind::StorageFull), PartError::Trouble(full.to_owned()));
        let gone = "/logs/a.txt: there is no such file";
        assert_eq!(says(io::ErrorKind::NotFound), PartError::Broken(gone.to_owned()));
    }
}
