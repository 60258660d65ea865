//! Objects in a folder of the local file system. Several processes of one machine may use it at once for blobs; records
//! are replaced by one process only, the server.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::record::RECORD_BYTES_MAX;
use crate::{Blob, BlobId, Error, RecordName, Version};

/// Bytes read at once while a file is hashed and copied.
const STEP: usize = 1 << 20;

/// Objects in a folder.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
    /// Held while a record is compared and replaced.
    records: Arc<Mutex<()>>,
}

impl Folder {
    /// Opens the folder, or makes it.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, Error> {
        let root = root.into();
        for part in ["blobs", "records", "tmp"] {
            let path = root.join(part);
            fs::create_dir_all(&path).map_err(Error::io("create", path))?;
        }
        Ok(Self { root, records: Arc::default() })
    }

    /// Where the folder is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where a blob is, or would be. Its file must not be changed.
    pub fn blob_path(&self, id: BlobId) -> PathBuf {
        let name = id.to_string();
        self.root.join("blobs").join(&name[..2]).join(name)
    }

    /// The blob, if it is here.
    pub fn blob(&self, id: BlobId) -> Result<Option<Blob>, Error> {
        let path = self.blob_path(id);
        match fs::metadata(&path) {
            Ok(found) => Ok(Some(Blob { id, size: found.len() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", path)(error)),
        }
    }

    /// Stores what `from` gives.
    pub fn put_blob(&self, from: &mut dyn Read) -> Result<Blob, Error> {
        let (path, mut file) = self.temporary()?;
        let kept = Discard(Some(path.clone()));
        let mut hasher = blake3::Hasher::new();
        let (mut size, mut buffer) = (0, vec![0; STEP]);
        loop {
            let count = from.read(&mut buffer).map_err(Error::io("read", "the data given"))?;
            if count == 0 {
                break;
            }
            hasher.update(&buffer[..count]);
            file.write_all(&buffer[..count]).map_err(Error::io("write", &path))?;
            size += count as u64;
        }
        let id = BlobId(*hasher.finalize().as_bytes());
        file.sync_data().map_err(Error::io("sync", &path))?;
        self.place(kept, &self.blob_path(id))?;
        Ok(Blob { id, size })
    }

    /// Removes a blob; says whether it was there.
    pub fn remove_blob(&self, id: BlobId) -> Result<bool, Error> {
        remove(&self.blob_path(id))
    }

    /// What a record holds, and which version that is.
    pub fn record(&self, name: &RecordName) -> Result<Option<(Vec<u8>, Version)>, Error> {
        let path = self.record_path(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some((bytes.clone(), BlobId::of(&bytes)))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", path)(error)),
        }
    }

    /// Writes a record, whatever was there.
    pub fn put_record(&self, name: &RecordName, bytes: &[u8]) -> Result<(), Error> {
        let _held = self.records.lock().unwrap_or_else(PoisonError::into_inner);
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
        let _held = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        if self.record(name)?.map(|(_, version)| version) != expected {
            return Ok(false);
        }
        self.write_record(name, bytes)?;
        Ok(true)
    }

    /// Removes a record; says whether it was there.
    pub fn remove_record(&self, name: &RecordName) -> Result<bool, Error> {
        let _held = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        remove(&self.record_path(name))
    }

    /// The names of the records below `prefix` (all parts whole), in order.
    pub fn record_names(&self, prefix: &str) -> Result<Vec<RecordName>, Error> {
        let mut names = Vec::new();
        let top = self.root.join("records");
        let mut folders = vec![top.join(prefix)];
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::io("list", folder)(error)),
            };
            for entry in entries {
                let path = entry.map_err(Error::io("list", &folder))?.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let name = path.strip_prefix(&top).ok().and_then(Path::to_str);
                names.extend(name.and_then(|name| name.strip_suffix(".json")?.parse().ok()));
            }
        }
        names.sort();
        Ok(names)
    }

    fn record_path(&self, name: &RecordName) -> PathBuf {
        // The ending keeps a record `a` and a folder `a` of the record `a/b` apart.
        self.root.join("records").join(format!("{name}.json"))
    }

    fn write_record(&self, name: &RecordName, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() > RECORD_BYTES_MAX {
            let (name, bytes, max) = (name.to_string(), bytes.len(), RECORD_BYTES_MAX);
            return Err(Error::RecordTooLarge { name, bytes, max });
        }
        let (path, mut file) = self.temporary()?;
        let kept = Discard(Some(path.clone()));
        file.write_all(bytes).map_err(Error::io("write", &path))?;
        file.sync_data().map_err(Error::io("sync", &path))?;
        self.place(kept, &self.record_path(name))
    }

    fn temporary(&self) -> Result<(PathBuf, File), Error> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = self.root.join("tmp").join(format!("{}-{number}", std::process::id()));
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path);
        Ok((path.clone(), file.map_err(Error::io("create", path))?))
    }

    /// Renames a whole file to its place.
    fn place(&self, mut from: Discard, to: &Path) -> Result<(), Error> {
        let folder = to.parent().expect("every object is in a folder");
        fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        let path = from.0.take().expect("a file is placed once");
        fs::rename(&path, to).map_err(Error::io("rename", &path))?;
        // The name lasts only when the folder is synced too.
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::io("sync", folder))
    }
}

/// Removes a file that was not placed.
struct Discard(Option<PathBuf>);

impl Drop for Discard {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // It is swept at the next start if that fails.
            let _ = fs::remove_file(path);
        }
    }
}

fn remove(path: &Path) -> Result<bool, Error> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io("remove", path)(error)),
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
    fn the_same_bytes_are_stored_once_under_their_hash() {
        let (_place, folder) = folder();
        let first = folder.put_blob(&mut &b"abc"[..]).unwrap();
        assert_eq!(folder.put_blob(&mut &b"abc"[..]).unwrap(), first);
        assert_eq!((first.id, first.size), (BlobId::of(b"abc"), 3));
        assert_eq!(fs::read(folder.blob_path(first.id)).unwrap(), b"abc");
        assert!(folder.remove_blob(first.id).unwrap() && !folder.remove_blob(first.id).unwrap());
        assert_eq!(folder.blob(first.id).unwrap(), None);
        assert_eq!(fs::read_dir(folder.root().join("tmp")).unwrap().count(), 0);
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
        assert_eq!(folder.record_names("a").unwrap(), [name.clone()]);
        assert_eq!(folder.record_names("").unwrap().len(), 2);
        assert!(folder.remove_record(&name).unwrap());
        assert_eq!(folder.record(&name).unwrap(), None);
    }
}
