//! What can go wrong with the file of a shard, by what the owner can do.

use std::io::ErrorKind;
use std::path::Path;

use divvy_frontier::frontier::Damaged as Unreadable;
use rusqlite::{ErrorCode, ffi};

/// Why the file of a shard could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It holds something else, or something broken.
    #[error("{path} is damaged: {problem}; restore it from a copy, or start the crawl anew")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// It is a file of something else.
    #[error("{path} is not the file of a crawl's shard: {problem}; move it away")]
    Foreign {
        /// The file.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// It was written by another version.
    #[error(
        "{path} has format {found}, and this program reads format {known}; use the program that made it"
    )]
    Version {
        /// The file.
        path: String,
        /// Its format.
        found: i64,
        /// The format that is known here.
        known: i64,
    },
    /// Another owner has taken it over.
    #[error(
        "{path} has an owner of epoch {found}, and this one has epoch {own}; it may not write any more"
    )]
    TakenOver {
        /// The file.
        path: String,
        /// The epoch in the file.
        found: u64,
        /// The epoch of this owner.
        own: u64,
    },
    /// It was made for another way of remembering addresses.
    #[error("{path} was made with --seen {found}; this cannot be changed while the crawl lasts")]
    OtherMode {
        /// The file.
        path: String,
        /// How it was made.
        found: &'static str,
    },
    /// There is no room.
    #[error("there is no room for {path}; free some, and the crawl goes on")]
    Full {
        /// The file.
        path: String,
    },
    /// The system or SQLite refused.
    #[error("{path} cannot be read or written: {message}")]
    Io {
        /// The file.
        path: String,
        /// What was said.
        message: String,
    },
}

/// Adds the file to an error of SQLite.
pub(super) trait At<T> {
    /// The same with the file named.
    fn at(self, path: &Path) -> Result<T, Error>;
}

impl<T> At<T> for rusqlite::Result<T> {
    fn at(self, path: &Path) -> Result<T, Error> {
        self.map_err(|error| sqlite_error(path.display().to_string(), &error))
    }
}

impl<T> At<T> for Result<T, Unreadable> {
    fn at(self, path: &Path) -> Result<T, Error> {
        let path = path.display().to_string();
        self.map_err(|unreadable| Error::Damaged { path, problem: unreadable.to_string() })
    }
}

fn sqlite_error(path: String, error: &rusqlite::Error) -> Error {
    use rusqlite::Error as E;
    let problem = error.to_string();
    match error {
        E::SqliteFailure(code, _) => match code.code {
            ErrorCode::DiskFull => Error::Full { path },
            ErrorCode::NotADatabase => Error::Foreign { path, problem },
            ErrorCode::DatabaseCorrupt => Error::Damaged { path, problem },
            _ if code.extended_code == ffi::SQLITE_IOERR_SHMSIZE => Error::Full { path },
            // What SQLite says of the text of our own statements means that a table or a column is missing.
            _ if problem.starts_with("no such") => Error::Damaged { path, problem },
            _ => Error::Io { path, message: problem },
        },
        E::FromSqlConversionFailure(..)
        | E::InvalidColumnType(..)
        | E::IntegralValueOutOfRange(..)
        | E::Utf8Error(..)
        | E::QueryReturnedNoRows
        | E::SqlInputError { .. } => Error::Damaged { path, problem },
        _ => Error::Io { path, message: problem },
    }
}

/// An error of the file system, with the file named.
pub(super) fn io_error(path: &Path, error: &std::io::Error) -> Error {
    let path = path.display().to_string();
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::Full { path },
        _ => Error::Io { path, message: error.to_string() },
    }
}
