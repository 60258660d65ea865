//! Names and versions of records.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{BlobId, Error};

/// What a record may hold.
pub const RECORD_BYTES_MAX: usize = 1 << 20;
/// What a name may hold.
const NAME_LEN_MAX: usize = 256;
/// What a part of a name may hold: it is the name of a file, with an ending.
const PART_LEN_MAX: usize = 250;

/// Names a record: parts of letters, digits, `-`, `_` and `.`, with `/` between them, such as `video/library/a1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(extend("pattern" = "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,249}(/[A-Za-z0-9_-][A-Za-z0-9._-]{0,249})*$", "maxLength" = 256))
)]
#[serde(into = "String", try_from = "String")]
pub struct RecordName(String);

/// What a record held when it was read: the hash of its bytes.
pub type Version = BlobId;

impl RecordName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RecordName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let is_part = |part: &str| {
            (1..=PART_LEN_MAX).contains(&part.len())
                && !part.starts_with('.')
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        if text.len() > NAME_LEN_MAX || !text.split('/').all(is_part) {
            return Err(Error::BadRecordName(text.chars().take(80).collect()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for RecordName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<RecordName> for String {
    fn from(name: RecordName) -> Self {
        name.0
    }
}

impl TryFrom<String> for RecordName {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_folder() {
        for good in ["a", "video/library/a1", "a_b-c.d/E9"] {
            assert_eq!(good.parse::<RecordName>().unwrap().as_str(), good);
        }
        for bad in
            ["", "/a", "a/", "a//b", "..", "a/../b", ".hidden", "a b", "a\\b", &"x".repeat(257)]
        {
            assert!(bad.parse::<RecordName>().is_err(), "{bad}");
        }
    }
}
