//! The file of tokens: JSON, for its owner only, replaced whole. A crash leaves the old one or the new one.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use divvy_types::{Name, Scopes, Timestamp};
use serde::{Deserialize, Serialize};

use super::TokenError;
use crate::durable;

/// The form that is written.
const VERSION: u32 = 1;
/// More than all tokens can take.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What is kept of a token.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) name: Name,
    /// The BLAKE3 hash of the secret, in hexadecimal digits.
    pub(super) hash: String,
    pub(super) scopes: Scopes,
    pub(super) created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<Timestamp>,
}

#[derive(Serialize, Deserialize)]
struct Whole<T> {
    version: u32,
    tokens: T,
}

/// The tokens in a file; none if it is not there.
pub(super) fn read(path: &Path) -> Result<Vec<Kept>, TokenError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(wrong("read", path, error)),
    };
    let mut text = String::new();
    file.take(FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| wrong("read", path, error))?;
    let damaged = |problem: String| {
        let cure = "restore it from a backup, or remove it and make new tokens";
        wrong("use", path, format!("it is not a file of tokens: {problem}; {cure}"))
    };
    let whole: Whole<Vec<Kept>> =
        serde_json::from_slice(text.as_bytes()).map_err(|error| damaged(error.to_string()))?;
    if whole.version != VERSION {
        return Err(damaged(format!("version {}, expected {VERSION}", whole.version)));
    }
    match whole.tokens.iter().find(|token| blake3::Hash::from_hex(&token.hash).is_err()) {
        Some(token) => Err(damaged(format!("the hash of `{}` is none", token.name))),
        None => Ok(whole.tokens),
    }
}

/// Replaces the file by these tokens, durably.
pub(super) fn write<'a>(
    path: &Path,
    tokens: impl Iterator<Item = &'a Kept>,
) -> Result<(), TokenError> {
    let whole = Whole { version: VERSION, tokens: tokens.collect::<Vec<_>>() };
    let text = serde_json::to_vec_pretty(&whole).expect("tokens are JSON");
    durable::replace(path, &text).map_err(|error| wrong("write", path, error))
}

fn wrong(action: &'static str, path: &Path, problem: impl ToString) -> TokenError {
    TokenError::File { action, path: path.to_owned(), problem: problem.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_refused_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        assert!(read(&path).unwrap().is_empty());
        let token =
            r#"{"name":"a","hash":"zz","scopes":["read"],"created_at":"2026-01-01T00:00:00Z"}"#;
        for text in [
            "",
            "{",
            r#"{"version":2,"tokens":[]}"#,
            &format!(r#"{{"version":1,"tokens":[{token}]}}"#),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains("tokens.json") && error.contains("backup"), "{text}: {error}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn only_the_owner_may_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        std::fs::write(path.with_extension("new"), "left by a crash").unwrap();
        write(&path, std::iter::empty()).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(read(&path).unwrap().is_empty());
    }
}
