//! What an error of SQLite means for the caller: full, in the way, damaged, or a failure of the system.
//!
//! Only the last is a reason to stop: a sync that failed cannot be tried again, because the system may have dropped
//! what it could not write. A lack of room, of file descriptors or of a lock is known before anything is kept.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use nix::errno::Errno;
use rusqlite::ffi;

use crate::Error;

/// What is written to see whether there is room.
const PROBE_BYTES: usize = 64 << 10;

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
            (_, ffi::SQLITE_IOERR_WRITE) if lacks_room(Path::new(&path)) => Error::Full(path),
            (
                ffi::ErrorCode::DatabaseBusy
                | ffi::ErrorCode::DatabaseLocked
                | ffi::ErrorCode::CannotOpen,
                _,
            ) => Error::Blocked { path, message: error.to_string() },
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
    if is_full(error) {
        return Error::Full(name);
    }
    let message = format!("cannot {doing}: {error}");
    match error.raw_os_error().map(Errno::from_raw) {
        // A lack of file descriptors passes.
        Some(Errno::EMFILE | Errno::ENFILE) => Error::Blocked { path: name, message },
        _ => Error::Io { path: name, message },
    }
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// SQLite says of a quota that is used up only that a write failed. A write beside the file tells more.
fn lacks_room(file: &Path) -> bool {
    let probe = file.with_extension("probe");
    let written = File::create(&probe).and_then(|mut file| file.write_all(&[0; PROBE_BYTES]));
    let _ = std::fs::remove_file(&probe);
    written.is_err_and(|error| is_full(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_that_is_used_up_is_a_full_disk_and_a_lock_is_waited_for() {
        let quota = std::io::Error::from(ErrorKind::QuotaExceeded);
        assert!(matches!(io_error(Path::new("f"), "write", &quota), Error::Full(_)));
        for (code, expected) in [
            (ffi::SQLITE_BUSY, "cannot be used now"),
            (ffi::SQLITE_CANTOPEN, "cannot be used now"),
            (ffi::SQLITE_FULL, "is full"),
            (ffi::SQLITE_IOERR_FSYNC, "disk I/O error"),
            (ffi::SQLITE_IOERR_WRITE, "disk I/O error"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let failure = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let error = Failure::from(failure).at(&folder.path().join("divvy.db")).to_string();
            assert!(error.contains(expected), "{code}: {error}");
        }
    }
}
