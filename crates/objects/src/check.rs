//! Looks a folder of objects over: whether every record can be read, and whether every blob is what its name says.
//!
//! Changes nothing, and does not know what a record means: whether the blobs that it names are there is for its writer
//! to say.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::if_there;
use crate::folder::Folder;
use crate::record::RECORD_BYTES_MAX;
use crate::{Blob, Error, RecordName};

/// Problems that are listed; more are only counted.
const PROBLEMS_MAX: usize = 100;

/// What a look over found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Blobs that are there.
    pub blobs: u64,
    /// Their bytes.
    pub blob_bytes: u64,
    /// Records that are there.
    pub records: u64,
    /// What is wrong, in words for people; empty if all is well.
    pub problems: Vec<String>,
    /// Problems in all.
    pub problem_count: u64,
}

impl Checked {
    fn problem(&mut self, problem: String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }
}

/// Checks the folder at `root`; nothing if there is none. Blobs are read and compared with their names only if that is
/// asked for: `deep` takes as long as reading all of them. `progress` hears how many blobs are done.
///
/// # Errors
/// If the folder cannot be listed. What is wrong with a single object is part of what was found.
pub fn check(
    root: &Path,
    deep: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<Option<Checked>, Error> {
    if !root.is_dir() {
        return Ok(None);
    }
    let folder = Folder::look_at(root);
    let mut checked = Checked::default();
    check_records(&root.join("records"), &mut checked)?;
    for found in folder.blobs() {
        let Blob { id, size } = found?.0;
        checked.blobs += 1;
        checked.blob_bytes += size;
        progress(checked.blobs);
        if !deep {
            continue;
        }
        match folder.verify(id) {
            // Removed since it was listed.
            Ok(_) | Err(Error::NoBlob(_)) => {}
            Err(error) => checked.problem(error.to_string()),
        }
    }
    Ok(Some(checked))
}

fn check_records(top: &Path, checked: &mut Checked) -> Result<(), Error> {
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = if_there(fs::read_dir(&folder)).map_err(Error::io("list", &folder))?;
        for entry in entries.into_iter().flatten() {
            let entry = entry.map_err(Error::io("list", &folder))?;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
                continue;
            }
            checked.records += 1;
            if let Some(problem) = problem_of(top, &entry.path()) {
                checked.problem(format!("record {}: {problem}", entry.path().display()));
            }
        }
    }
    Ok(())
}

/// What is wrong with a record.
fn problem_of(top: &Path, path: &PathBuf) -> Option<String> {
    let name = path.strip_prefix(top).ok().and_then(Path::to_str);
    let name = name.and_then(|name| name.strip_suffix(".json"));
    if name.is_none_or(|name| name.parse::<RecordName>().is_err()) {
        return Some("the name of the file is not that of a record".to_owned());
    }
    match if_there(fs::read(path)) {
        Err(error) => Some(format!("cannot be read: {error}")),
        Ok(Some(bytes)) if bytes.len() > RECORD_BYTES_MAX => {
            Some(format!("is {} bytes, at most {RECORD_BYTES_MAX}", bytes.len()))
        }
        Ok(Some(bytes)) => serde_json::from_slice::<serde::de::IgnoredAny>(&bytes)
            .err()
            .map(|error| format!("is not JSON: {error}")),
        // Removed since it was listed.
        Ok(None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_found_and_named() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(check(&place.path().join("none"), true, &mut |_| {}).unwrap(), None);
        let folder = Folder::open(place.path()).unwrap();
        let id = folder.put_blob(&mut &b"bread"[..]).unwrap().id;
        folder.put_record(&"bakery/today".parse().unwrap(), b"{\"loaf\":1}").unwrap();
        let look = |deep| check(place.path(), deep, &mut |_| {}).unwrap().unwrap();
        let sound = Checked { blobs: 1, blob_bytes: 5, records: 1, ..Checked::default() };
        assert_eq!(look(true), sound);
        fs::write(folder.blob_path(id), b"cakes").unwrap();
        assert_eq!(look(false), sound, "only a deep look reads blobs");
        assert!(look(true).problems[0].contains(&id.to_string()), "{:?}", look(true));
        fs::write(place.path().join("records/bakery/today.json"), b"{\"loaf\":").unwrap();
        let found = look(false);
        assert_eq!((found.problem_count, found.records), (1, 1));
        assert!(found.problems[0].contains("today.json: is not JSON"), "{found:?}");
    }
}
