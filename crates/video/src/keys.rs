//! Keys of results: a hash of everything that a result was made from, so that equal work is found and different work
//! is never confused with it.

use std::fmt;

use divvy::objects::BlobId;
use serde::{Deserialize, Serialize};

/// Names a result.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(String);

impl Key {
    /// The key of a result of `kind` made from `source` with `parts`, which must hold everything else that matters.
    /// Parts are written with their fields in the order of their declaration.
    pub fn of(kind: &str, source: BlobId, parts: &impl Serialize) -> Self {
        let parts = serde_json::to_vec(parts).expect("what keys are made of is plain data");
        let mut hasher = blake3::Hasher::new_derive_key("divvy video result 1");
        for piece in [kind.as_bytes(), &source.0, &parts] {
            hasher.update(&(piece.len() as u64).to_le_bytes());
            hasher.update(piece);
        }
        Self(hasher.finalize().to_hex()[..32].to_owned())
    }

    /// The name of the record with the result. All results of one source are below one name.
    pub fn record(&self, source: BlobId) -> String {
        format!("{}/{}", results_of(source), self.0)
    }
}

/// The name below which all results of a source are.
pub fn results_of(source: BlobId) -> String {
    format!("video/results/{source}")
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_work_has_one_key_and_any_difference_another() {
        let (one, two) = (BlobId::of(b"1"), BlobId::of(b"2"));
        let key = Key::of("encode", one, &(720, "fast"));
        assert_eq!(key, Key::of("encode", one, &(720, "fast")));
        for other in [
            Key::of("audio", one, &(720, "fast")),
            Key::of("encode", two, &(720, "fast")),
            Key::of("encode", one, &(721, "fast")),
            Key::of("encode", one, &(720, "slow")),
        ] {
            assert_ne!(key, other);
        }
        assert!(key.record(one).starts_with(&results_of(one)));
    }
}
