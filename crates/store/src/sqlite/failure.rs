//! What an error of SQLite means for the caller: full, damaged, or a failure of the system.

use std::path::Path;

use rusqlite::ffi;

use crate::Error;

/// Something went wrong while a file was read or written; the file is added by whoever knows it.
#[derive(Debug)]
pub(super) enum Failure {
    /// SQLite said so.
    Sqlite(rusqlite::Error),
    /// A row does not hold what was written: table, row, what is wrong.
    Row { table: &'static str, row: i64, problem: String },
    /// Something else about the file is not as it was written.
    Place(String),
    /// An error that already names its file.
    Whole(Error),
}

pub(super) type Outcome<T> = Result<T, Failure>;

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Whole(error)
    }
}

impl Failure {
    /// A row that cannot be what was written.
    pub(super) fn row(table: &'static str, row: i64, problem: impl Into<String>) -> Self {
        Self::Row { table, row, problem: problem.into() }
    }

    /// The same for callers outside, with the file named.
    pub(super) fn at(self, path: &Path) -> Error {
        let name = path.display().to_string();
        match self {
            Self::Whole(error) => error,
            Self::Row { table, row, problem } => {
                Error::Damaged { path: name, place: format!("table {table}, row {row}: {problem}") }
            }
            Self::Place(place) => Error::Damaged { path: name, place },
            Self::Sqlite(error) => sqlite_error(name, &error),
        }
    }
}

fn sqlite_error(path: String, error: &rusqlite::Error) -> Error {
    use rusqlite::Error as E;
    match error {
        E::SqliteFailure(code, _) => match (code.code, code.extended_code) {
            // Growing the shared-memory index on a full disk is reported as an I/O error of its own.
            (ffi::ErrorCode::DiskFull, _) | (_, ffi::SQLITE_IOERR_SHMSIZE) => Error::Full(path),
            (ffi::ErrorCode::DatabaseCorrupt | ffi::ErrorCode::NotADatabase, _) => {
                Error::Damaged { path, place: error.to_string() }
            }
            // What SQLite says of the text of our own statements means that a table or a column is missing.
            (_, ffi::SQLITE_ERROR) if error.to_string().starts_with("no such") => {
                Error::Damaged { path, place: error.to_string() }
            }
            _ => Error::Io { path, message: error.to_string() },
        },
        E::FromSqlConversionFailure(..)
        | E::InvalidColumnType(..)
        | E::IntegralValueOutOfRange(..)
        | E::Utf8Error(..) => Error::Damaged { path, place: error.to_string() },
        E::SqlInputError { .. } => Error::Damaged { path, place: error.to_string() },
        _ => Error::Io { path, message: error.to_string() },
    }
}

/// An error of the file system, with the file named.
pub(super) fn io_error(path: &Path, doing: &str, error: &std::io::Error) -> Error {
    let name = path.display().to_string();
    if error.kind() == std::io::ErrorKind::StorageFull {
        return Error::Full(name);
    }
    Error::Io { path: name, message: format!("cannot {doing}: {error}") }
}
