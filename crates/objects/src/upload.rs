//! What an upload is: a blob that arrives in pieces, under a name of its own until its hash is known.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Blob, BlobId, Error};

/// What an upload may hold: 1 TiB.
pub const UPLOAD_BYTES_MAX: u64 = 1 << 40;
/// What may come with an upload.
pub const UPLOAD_METADATA_MAX: usize = 8 << 10;

/// Names an upload: 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UploadId(u128);

/// An upload to begin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewUpload {
    /// How many bytes it will have.
    pub length: u64,
    /// Whatever its sender wants to hear again.
    #[serde(default)]
    pub metadata: String,
    /// The blob that it must turn out to be.
    #[serde(default)]
    pub expected: Option<BlobId>,
}

/// An upload as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Its name.
    pub id: UploadId,
    /// How many bytes it will have.
    pub length: u64,
    /// How many of them are here.
    pub offset: u64,
    /// Whatever its sender wants to hear again.
    pub metadata: String,
    /// The blob that it became.
    pub blob: Option<Blob>,
}

impl UploadId {
    /// A name that nobody has.
    pub fn random() -> Self {
        Self(Uuid::now_v7().as_u128())
    }

    /// The name for the one upload of a blob that is fetched from elsewhere.
    pub fn of(blob: BlobId) -> Self {
        let mut start = [0; 16];
        start.copy_from_slice(&blob.0[..16]);
        Self(u128::from_be_bytes(start))
    }
}

impl fmt::Display for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for UploadId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let is_id = text.len() == 32
            && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        match u128::from_str_radix(text, 16) {
            Ok(number) if is_id => Ok(Self(number)),
            _ => Err(Error::BadUploadId(text.chars().take(80).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_written_and_read_and_cannot_be_a_path() {
        let id = UploadId::random();
        assert_ne!(id, UploadId::random());
        assert_eq!(id.to_string().parse::<UploadId>().unwrap(), id);
        let fetched = UploadId::of(BlobId::of(b"abc"));
        assert!(BlobId::of(b"abc").to_string().starts_with(&fetched.to_string()));
        for bad in ["", "../x", &"A".repeat(32), &"+".repeat(32), &"0".repeat(33)] {
            assert!(bad.parse::<UploadId>().is_err(), "{bad}");
        }
    }
}
