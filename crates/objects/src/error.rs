//! What can go wrong with objects.

use std::io;
use std::path::PathBuf;

use crate::BlobId;

/// Why an object could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not a name of a blob.
    #[error("`{0}` does not name a blob; expected 64 hexadecimal digits in lower case")]
    BadBlobId(String),
    /// Not a name of a record.
    #[error(
        "`{0}` does not name a record; use letters, digits, `-`, `_` and `.`, with `/` between parts, at most 256 characters"
    )]
    BadRecordName(String),
    /// No such blob.
    #[error("blob {0} is not here; it was never stored, or was removed")]
    NoBlob(BlobId),
    /// The bytes are not those that the name stands for.
    #[error(
        "the data given for blob {expected} is that of blob {found}; it was damaged on the way"
    )]
    Mismatch {
        /// What was said to come.
        expected: BlobId,
        /// What came.
        found: BlobId,
    },
    /// A record that is too large.
    #[error(
        "record `{name}` has {bytes} bytes, at most {max}; store the data as a blob and its name in the record"
    )]
    RecordTooLarge {
        /// Its name.
        name: String,
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The disk says no.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried, such as `read`.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}
