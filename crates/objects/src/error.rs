//! What can go wrong with objects.

use std::io;
use std::path::PathBuf;

use divvy_types::Refusal;

use crate::{BlobId, UploadId};

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
    /// Not a name of an upload.
    #[error("`{0}` does not name an upload; expected 32 hexadecimal digits in lower case")]
    BadUploadId(String),
    /// No such blob.
    #[error("blob {0} is not here; it was never stored, or was removed")]
    NoBlob(BlobId),
    /// No such upload.
    #[error(
        "upload {0} is not here; it was never begun, or was removed, or rested for too long; begin a new one"
    )]
    NoUpload(UploadId),
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
    /// The bytes on the disk are not those that were stored.
    #[error(
        "blob {id} is damaged on the disk: its {size} bytes have the hash {found}; remove it and store it again"
    )]
    Damaged {
        /// Which.
        id: BlobId,
        /// What its bytes are the name of.
        found: BlobId,
        /// How many they are.
        size: u64,
    },
    /// A blob that is too large for one request.
    #[error("a blob of more than {max} bytes is not stored in one request; upload it in pieces")]
    BlobTooLarge {
        /// The limit.
        max: u64,
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
    /// Someone else sends this upload now.
    #[error(
        "upload {0} is being sent by another request; wait until that ends, or begin a new upload"
    )]
    UploadBusy(UploadId),
    /// The next bytes of an upload do not follow those that are there.
    #[error("upload {id} goes on at byte {expected}, not at {found}; ask for its offset first")]
    WrongOffset {
        /// Which.
        id: UploadId,
        /// Where it goes on.
        expected: u64,
        /// Where the data given begins.
        found: u64,
    },
    /// All bytes of an upload are here already.
    #[error("upload {0} has ended: all its bytes are here, and the blob that they are")]
    UploadEnded(UploadId),
    /// More bytes than the upload was said to have.
    #[error("more data than the {length} bytes that upload {id} was begun with")]
    UploadTooLong {
        /// Which.
        id: UploadId,
        /// How many bytes it has.
        length: u64,
    },
    /// An upload that is larger than any may be.
    #[error("an upload of {length} bytes is too large, at most {max}")]
    UploadTooLarge {
        /// How many bytes it would have.
        length: u64,
        /// The limit.
        max: u64,
    },
    /// What comes with an upload is too long.
    #[error("the metadata of an upload has {bytes} bytes, at most {max}")]
    MetadataTooLarge {
        /// How many bytes it has.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// Too many uploads are under way.
    #[error("{max} uploads are under way already; finish or remove some, or try again later")]
    TooManyUploads {
        /// The limit.
        max: usize,
    },
    /// Not a folder of objects.
    #[error("{0} is not a folder of objects; give the folder `objects` in the data of the server")]
    NotAFolder(PathBuf),
    /// The disk is full, or nearly: see [`crate::RESERVE_BYTES`].
    #[error(
        "cannot {action} {path}: the disk is full, but for what is kept free for tasks; make room there and try again"
    )]
    Full {
        /// What was tried, such as `write`.
        action: &'static str,
        /// Where.
        path: PathBuf,
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
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::Full { action, path }
            }
            _ => Self::Io { action, path, source },
        }
    }

    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadBlobId(_) => "bad_blob_id",
            Self::BadRecordName(_) => "bad_record_name",
            Self::BadUploadId(_) => "bad_upload_id",
            Self::NoBlob(_) => "no_such_blob",
            Self::NoUpload(_) => "no_such_upload",
            Self::Mismatch { .. } => "blob_mismatch",
            Self::Damaged { .. } => "blob_damaged",
            Self::BlobTooLarge { .. } => "blob_too_large",
            Self::RecordTooLarge { .. } => "record_too_large",
            Self::UploadBusy(_) => "upload_busy",
            Self::WrongOffset { .. } => "wrong_offset",
            Self::UploadEnded(_) => "upload_ended",
            Self::UploadTooLong { .. } => "upload_too_long",
            Self::UploadTooLarge { .. } => "upload_too_large",
            Self::MetadataTooLarge { .. } => "metadata_too_large",
            Self::TooManyUploads { .. } => "too_many_uploads",
            Self::NotAFolder(_) => "not_a_folder",
            Self::Full { .. } => "disk_full",
            Self::Io { .. } => "disk_error",
        }
    }
}

impl Error {
    /// All codes that such an error may have.
    pub const CODES: [&str; 19] = [
        "bad_blob_id",
        "bad_record_name",
        "bad_upload_id",
        "no_such_blob",
        "no_such_upload",
        "blob_mismatch",
        "blob_damaged",
        "blob_too_large",
        "record_too_large",
        "upload_busy",
        "wrong_offset",
        "upload_ended",
        "upload_too_long",
        "upload_too_large",
        "metadata_too_large",
        "too_many_uploads",
        "not_a_folder",
        "disk_full",
        "disk_error",
    ];
}

impl Refusal for Error {
    fn code(&self) -> &'static str {
        self.code()
    }

    fn status(&self) -> u16 {
        match self {
            Self::BadBlobId(_) | Self::BadRecordName(_) | Self::BadUploadId(_) => 400,
            Self::NoBlob(_) | Self::NoUpload(_) => 404,
            Self::WrongOffset { .. } | Self::UploadEnded(_) => 409,
            Self::BlobTooLarge { .. }
            | Self::RecordTooLarge { .. }
            | Self::UploadTooLarge { .. }
            | Self::UploadTooLong { .. }
            | Self::MetadataTooLarge { .. } => 413,
            Self::Mismatch { .. } => 422,
            Self::UploadBusy(_) => 423,
            Self::TooManyUploads { .. } => 429,
            Self::Full { .. } => 507,
            Self::Damaged { .. } | Self::NotAFolder(_) | Self::Io { .. } => 500,
        }
    }
}

/// The result, or nothing for a file that is not there.
pub(crate) fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_other_trouble_with_what_to_do() {
        let full = Error::io("write", "data/tmp/1")(io::ErrorKind::StorageFull.into());
        assert_eq!(full.code(), "disk_full");
        assert!(full.to_string().contains("data/tmp/1"), "{full}");
        assert!(full.to_string().contains("make room"), "{full}");
        let other = Error::io("write", "data/tmp/1")(io::ErrorKind::PermissionDenied.into());
        assert_eq!(other.code(), "disk_error");
    }

    #[test]
    fn every_refusal_has_its_status() {
        let (id, blob) = (UploadId::random(), BlobId::of(b""));
        let cases = [
            (Error::BadBlobId("x".into()), 400),
            (Error::NoBlob(blob), 404),
            (Error::NoUpload(id), 404),
            (Error::WrongOffset { id, expected: 1, found: 2 }, 409),
            (Error::UploadTooLong { id, length: 1 }, 413),
            (Error::BlobTooLarge { max: 1 }, 413),
            (Error::Mismatch { expected: blob, found: blob }, 422),
            (Error::UploadBusy(id), 423),
            (Error::TooManyUploads { max: 1 }, 429),
            (Error::Damaged { id: blob, found: blob, size: 1 }, 500),
            (Error::Full { action: "write", path: "x".into() }, 507),
        ];
        for (error, status) in cases {
            assert_eq!(error.status(), status, "{error}");
        }
    }
}
