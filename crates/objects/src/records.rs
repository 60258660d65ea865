//! Records in a folder: read, created, compared and replaced. One process writes them.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};

use crate::error::if_there;
use crate::folder::remove;
use crate::record::RECORD_BYTES_MAX;
use crate::{BlobId, Error, Folder, RecordName, Version};

impl Folder {
    /// What a record holds, and which version that is.
    pub fn record(&self, name: &RecordName) -> Result<Option<(Vec<u8>, Version)>, Error> {
        let path = self.record_path(name);
        let bytes = if_there(fs::read(&path)).map_err(Error::io("read", path))?;
        Ok(bytes.map(|bytes| {
            let version = BlobId::of(&bytes);
            (bytes, version)
        }))
    }

    /// Writes a record, whatever was there.
    pub fn put_record(&self, name: &RecordName, bytes: &[u8]) -> Result<(), Error> {
        let _held = self.hold_records();
        self.write_record(name, bytes)
    }

    /// Writes a record if what was there is `expected`, which is nothing for a record that must be new. Says whether
    /// it was.
    pub fn replace_record(
        &self,
        name: &RecordName,
        expected: Option<Version>,
        bytes: &[u8],
    ) -> Result<bool, Error> {
        let _held = self.hold_records();
        if self.record(name)?.map(|(_, version)| version) != expected {
            return Ok(false);
        }
        self.write_record(name, bytes)?;
        Ok(true)
    }

    /// Removes a record; says whether it was there.
    pub fn remove_record(&self, name: &RecordName) -> Result<bool, Error> {
        let _held = self.hold_records();
        remove(&self.record_path(name))
    }

    /// The names of the records below `prefix` (all parts whole; empty for all), in order.
    pub fn record_names(&self, prefix: &str) -> Result<Vec<RecordName>, Error> {
        let mut names = Vec::new();
        self.each_record_name(prefix, &mut |name| {
            names.push(name);
            Ok(ControlFlow::Continue(()))
        })?;
        names.sort();
        Ok(names)
    }

    /// Tells the names of the records below `prefix` one after the other, in no order, for as long as they are wanted,
    /// and keeps none of them: there may be millions.
    pub fn each_record_name(
        &self,
        prefix: &str,
        each: &mut dyn FnMut(RecordName) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        let top = self.root().join("records");
        let mut folders = match prefix.trim_end_matches('/') {
            "" => vec![top.clone()],
            // Checked as a name, so that it cannot lead out of the folder.
            prefix => vec![top.join(prefix.parse::<RecordName>()?.as_str())],
        };
        while let Some(folder) = folders.pop() {
            let entries = if_there(fs::read_dir(&folder)).map_err(Error::io("list", &folder))?;
            for entry in entries.into_iter().flatten() {
                let entry = entry.map_err(Error::io("list", &folder))?;
                let path = entry.path();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(path);
                    continue;
                }
                let name = path.strip_prefix(&top).ok().and_then(Path::to_str);
                let name = name.and_then(|name| name.strip_suffix(".json")?.parse().ok());
                if let Some(name) = name
                    && each(name)?.is_break()
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn hold_records(&self) -> MutexGuard<'_, ()> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_path(&self, name: &RecordName) -> PathBuf {
        // The ending keeps a record `a` and a folder `a` of the record `a/b` apart.
        self.root().join("records").join(format!("{name}.json"))
    }

    fn write_record(&self, name: &RecordName, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() > RECORD_BYTES_MAX {
            let (name, bytes, max) = (name.to_string(), bytes.len(), RECORD_BYTES_MAX);
            return Err(Error::RecordTooLarge { name, bytes, max });
        }
        self.write_file(&self.record_path(name), bytes)
    }

    /// Writes a small file whole, or not at all.
    pub(crate) fn write_file(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let mut file = self.temporary()?;
        file.write(bytes)?;
        file.sync()?;
        self.place(&file.path, path)?;
        file.placed();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap();
        (place, folder)
    }

    #[test]
    fn a_record_is_replaced_only_by_who_knows_what_was_there() {
        let (_place, folder) = folder();
        let name: RecordName = "a/b".parse().unwrap();
        assert!(folder.replace_record(&name, None, b"1").unwrap());
        assert!(!folder.replace_record(&name, None, b"2").unwrap());
        let (bytes, version) = folder.record(&name).unwrap().unwrap();
        assert_eq!(bytes, b"1");
        assert!(folder.replace_record(&name, Some(version), b"2").unwrap());
        assert!(!folder.replace_record(&name, Some(version), b"3").unwrap());
        folder.put_record(&"a".parse().unwrap(), b"beside").unwrap();
        assert_eq!(folder.record_names("a").unwrap(), std::slice::from_ref(&name));
        assert_eq!(folder.record_names("").unwrap().len(), 2);
        assert!(folder.remove_record(&name).unwrap());
        assert_eq!(folder.record(&name).unwrap(), None);
    }

    #[test]
    fn a_list_cannot_leave_the_folder() {
        let (_place, folder) = folder();
        folder.put_record(&"a/b".parse().unwrap(), b"1").unwrap();
        for bad in ["..", "../records", "a/../..", "/etc"] {
            assert!(matches!(folder.record_names(bad), Err(Error::BadRecordName(_))), "{bad}");
        }
        assert_eq!(folder.record_names("a/").unwrap().len(), 1);
        assert!(folder.record_names("nothing").unwrap().is_empty());
    }

    #[test]
    fn of_many_who_create_a_record_at_once_one_is_first() {
        let (_place, folder) = folder();
        let name: RecordName = "x".parse().unwrap();
        let created: usize = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..8)
                .map(|number: u8| {
                    let (folder, name) = (&folder, &name);
                    scope.spawn(move || folder.replace_record(name, None, &[number]).unwrap())
                })
                .collect();
            writers.into_iter().map(|writer| usize::from(writer.join().unwrap())).sum()
        });
        assert_eq!(created, 1);
        let large = vec![0; RECORD_BYTES_MAX + 1];
        assert_eq!(folder.put_record(&name, &large).unwrap_err().code(), "record_too_large");
    }
}
