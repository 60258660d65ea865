//! Names of blobs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// The BLAKE3 hash of a blob's bytes, which is its name. Written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(extend("pattern" = "^[0-9a-f]{64}$"))
)]
#[serde(into = "String", try_from = "String")]
pub struct BlobId(pub [u8; 32]);

/// A blob that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Blob {
    /// Its name.
    pub id: BlobId,
    /// Its length in bytes.
    pub size: u64,
}

/// Finds the name of bytes that come one after the other.
#[derive(Clone, Debug, Default)]
pub struct BlobHasher {
    hasher: blake3::Hasher,
    size: u64,
}

impl BlobHasher {
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
    }

    /// The blob that these bytes are.
    pub fn blob(&self) -> Blob {
        Blob { id: BlobId(*self.hasher.finalize().as_bytes()), size: self.size }
    }

    /// How many bytes there were.
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl BlobId {
    /// The name of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for BlobId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let is_hash = text.len() == 64
            && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if !is_hash {
            return Err(Error::BadBlobId(text.chars().take(80).collect()));
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16)
                .map_err(|_| Error::BadBlobId(text.to_owned()))?;
        }
        Ok(Self(bytes))
    }
}

impl From<BlobId> for String {
    fn from(id: BlobId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for BlobId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_written_and_read_as_hexadecimal() {
        let id = BlobId::of(b"abc");
        assert_eq!(id.to_string().parse::<BlobId>().unwrap(), id);
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(serde_json::from_str::<BlobId>(&json).unwrap(), id);
        for bad in ["", "abc", &"g".repeat(64), &"A".repeat(64), &"0".repeat(65)] {
            assert!(bad.parse::<BlobId>().is_err(), "{bad}");
        }
    }
}
