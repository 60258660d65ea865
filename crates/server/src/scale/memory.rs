//! What is kept over a restart: what each pool has learnt, its history and its last samples, in one file of the data
//! folder that is replaced whole. It is a help and no promise: without it, pools learn anew.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use divvy_types::Name;
use serde::{Deserialize, Serialize};

use super::pool::Kept;
use crate::durable;

/// The form that is written.
const VERSION: u32 = 1;
/// More than all pools can take.
const FILE_BYTES_MAX: u64 = 256 << 20;

#[derive(Serialize, Deserialize)]
struct Whole {
    version: u32,
    pools: BTreeMap<Name, Kept>,
}

/// What was kept; nothing if there is no file, or one that cannot be used, which is told.
pub(super) fn read(path: &Path) -> BTreeMap<Name, Kept> {
    let read = File::open(path).and_then(|file| {
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map(|_| text)
    });
    let problem = match read {
        Err(error) if error.kind() == ErrorKind::NotFound => return BTreeMap::new(),
        Err(error) => error.to_string(),
        Ok(text) => match serde_json::from_slice::<Whole>(text.as_bytes()) {
            Ok(whole) if whole.version == VERSION => return whole.pools,
            Ok(whole) => format!("it has version {}, expected {VERSION}", whole.version),
            Err(error) => error.to_string(),
        },
    };
    tracing::warn!("{} cannot be used, pools learn anew: {problem}", path.display());
    BTreeMap::new()
}

/// Replaces what was kept.
pub(super) fn write(path: &Path, pools: BTreeMap<Name, Kept>) {
    let text = serde_json::to_vec(&Whole { version: VERSION, pools }).expect("samples are JSON");
    if let Err(error) = durable::replace(path, &text) {
        tracing::warn!("cannot write {}, what pools learnt is not kept: {error}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_read_again_and_a_damaged_file_is_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scale.json");
        assert!(read(&path).is_empty());
        write(&path, [("local".into(), Kept::default())].into());
        assert!(read(&path).contains_key("local"));
        for text in ["", "{", r#"{"version":9,"pools":{}}"#] {
            std::fs::write(&path, text).unwrap();
            assert!(read(&path).is_empty(), "{text}");
        }
    }
}
