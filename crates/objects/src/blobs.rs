//! Blobs in a folder: found, stored, checked and removed.

use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::error::if_there;
use crate::folder::{is_at, is_older, remove};
use crate::{Blob, BlobHasher, BlobId, Error, Folder};

/// Bytes read at once while a file is hashed and copied.
const STEP: usize = 1 << 20;

/// A blob that rests for as long as this is there.
#[derive(Debug)]
pub struct RestedBlob {
    /// Which.
    pub blob: Blob,
    /// The lock goes with the file.
    _locked: File,
}

impl Folder {
    /// Where a blob is, or would be. Its file must not be changed.
    pub fn blob_path(&self, id: BlobId) -> PathBuf {
        let name = id.to_string();
        self.root().join("blobs").join(&name[..2]).join(name)
    }

    /// The blob, if it is here.
    pub fn blob(&self, id: BlobId) -> Result<Option<Blob>, Error> {
        let path = self.blob_path(id);
        let found = if_there(fs::metadata(&path)).map_err(Error::io("read", path))?;
        Ok(found.map(|found| Blob { id, size: found.len() }))
    }

    /// The blob, if it is here; it counts as just used, so [`Self::remove_rested_blob`] leaves it alone for a while.
    pub fn touch_blob(&self, id: BlobId) -> Result<Option<Blob>, Error> {
        // One that belongs to another user keeps its time; whoever relies on more stores it again.
        Ok(self.renew(id)?.map(|(blob, _)| blob))
    }

    /// The blob, if it is here, and whether its time could be renewed.
    fn renew(&self, id: BlobId) -> Result<Option<(Blob, bool)>, Error> {
        let (blob, file) = match self.open_blob(id) {
            Ok(found) => found,
            Err(Error::NoBlob(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        // Who removes a blob holds its lock from the look at its time until it is gone: either that one sees the new
        // time, or we see that the blob is gone. Where there are no locks, there is one process and little chance.
        let _ = file.lock_shared();
        if !is_at(&file, &self.blob_path(id)) {
            return Ok(None);
        }
        Ok(Some((blob, file.set_modified(SystemTime::now()).is_ok())))
    }

    /// The blob and its file, to be read only.
    pub fn open_blob(&self, id: BlobId) -> Result<(Blob, File), Error> {
        let path = self.blob_path(id);
        let file = if_there(File::open(&path)).map_err(Error::io("open", &path))?;
        let file = file.ok_or(Error::NoBlob(id))?;
        let size = file.metadata().map_err(Error::io("read", path))?.len();
        Ok((Blob { id, size }, file))
    }

    /// The blob as a document, if it is here and is one: it begins as a JSON object does and has at most so many bytes.
    pub fn document(&self, id: BlobId, bytes_max: u64) -> Result<Option<Vec<u8>>, Error> {
        let (blob, mut file) = match self.open_blob(id) {
            Err(Error::NoBlob(_)) => return Ok(None),
            found => found?,
        };
        if blob.size == 0 || blob.size > bytes_max {
            return Ok(None);
        }
        let path = self.blob_path(id);
        let mut bytes = vec![0];
        file.read_exact(&mut bytes).map_err(Error::io("read", &path))?;
        if bytes != *b"{" {
            return Ok(None);
        }
        file.read_to_end(&mut bytes).map_err(Error::io("read", path))?;
        Ok(Some(bytes))
    }

    /// Stores what `from` gives.
    pub fn put_blob(&self, from: &mut dyn Read) -> Result<Blob, Error> {
        self.put(None, from)
    }

    /// Stores what `from` gives, which must be the blob of that name. If that is here already, `from` is not read.
    pub fn put_blob_as(&self, id: BlobId, from: &mut dyn Read) -> Result<Blob, Error> {
        match self.touch_blob(id)? {
            Some(blob) => Ok(blob),
            None => self.put(Some(id), from),
        }
    }

    /// Reads a blob and compares it with its name.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is not what was stored.
    pub fn verify(&self, id: BlobId) -> Result<Blob, Error> {
        let (blob, mut file) = self.open_blob(id)?;
        let found = BlobHasher::of(&mut file)?.blob().id;
        if found != id {
            return Err(Error::Damaged { id, found, size: blob.size });
        }
        Ok(blob)
    }

    /// Removes a blob; says whether it was there.
    pub fn remove_blob(&self, id: BlobId) -> Result<bool, Error> {
        remove(&self.blob_path(id))
    }

    /// A blob that [`Self::evict_blob`] leaves alone for as long as the file that is given is open, in this process and
    /// in others. It counts as just used.
    pub fn hold_blob(&self, id: BlobId) -> Result<Option<(Blob, File)>, Error> {
        let path = self.blob_path(id);
        let (blob, file) = match self.open_blob(id) {
            Ok(found) => found,
            Err(Error::NoBlob(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        // Whoever evicts it holds the lock or has removed the file by now.
        if file.try_lock_shared().is_err() || !is_at(&file, &path) {
            return Ok(None);
        }
        let _ = file.set_modified(SystemTime::now());
        Ok(Some((blob, file)))
    }

    /// Removes a blob unless someone holds it; says whether it is gone.
    pub fn evict_blob(&self, id: BlobId) -> Result<bool, Error> {
        let path = self.blob_path(id);
        match self.open_blob(id) {
            Err(Error::NoBlob(_)) => Ok(true),
            Err(error) => Err(error),
            Ok((_, file)) if file.try_lock().is_ok() && is_at(&file, &path) => {
                remove(&path)?;
                Ok(true)
            }
            Ok(_) => Ok(false),
        }
    }

    /// Removes a blob unless it was stored or used within `rest`, or someone holds it; returns it if it is gone.
    pub fn remove_rested_blob(&self, id: BlobId, rest: Duration) -> Result<Option<Blob>, Error> {
        let Some(rested) = self.hold_rested_blob(id, rest)? else { return Ok(None) };
        let gone = remove(&self.blob_path(id))?;
        Ok(gone.then_some(rested.blob))
    }

    /// A blob that was neither stored nor used within `rest`, unless someone holds it. While this is there, whoever
    /// stores it or asks for it waits.
    pub fn hold_rested_blob(
        &self,
        id: BlobId,
        rest: Duration,
    ) -> Result<Option<RestedBlob>, Error> {
        let (blob, file) = match self.open_blob(id) {
            Ok(found) => found,
            Err(Error::NoBlob(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let is_alone = file.try_lock().is_ok() && is_at(&file, &self.blob_path(id));
        if !is_alone || !is_older(&file, rest) {
            return Ok(None);
        }
        Ok(Some(RestedBlob { blob, _locked: file }))
    }

    /// All blobs that were neither stored nor used within `rest`.
    pub fn rested_blobs(&self, rest: Duration) -> Result<Vec<Blob>, Error> {
        let now = SystemTime::now();
        let rests = |used: SystemTime| now.duration_since(used).is_ok_and(|past| past >= rest);
        let found = self.blobs().filter_map(|found| match found {
            Ok((blob, used)) => rests(used).then_some(Ok(blob)),
            Err(error) => Some(Err(error)),
        });
        found.collect()
    }

    /// All blobs with the times of their last use or storing, in no order.
    pub fn blobs(&self) -> impl Iterator<Item = Result<(Blob, SystemTime), Error>> + use<> {
        let root = self.root().join("blobs");
        (0..=u8::MAX).flat_map(move |part| {
            let folder = root.join(format!("{part:02x}"));
            let entries = if_there(fs::read_dir(&folder)).map_err(Error::io("list", &folder));
            let (entries, failed) = match entries {
                Ok(entries) => (entries, None),
                Err(error) => (None, Some(Err(error))),
            };
            let entries = entries.into_iter().flatten().filter_map(move |entry| {
                let described = entry.and_then(|entry| {
                    let about = entry.metadata()?;
                    Ok((entry.file_name(), about.len(), about.modified()?))
                });
                match if_there(described).map_err(Error::io("list", &folder)) {
                    Ok(Some((name, size, used))) => {
                        let id = name.to_str()?.parse().ok()?;
                        Some(Ok((Blob { id, size }, used)))
                    }
                    // Removed since it was listed.
                    Ok(None) => None,
                    Err(error) => Some(Err(error)),
                }
            });
            failed.into_iter().chain(entries)
        })
    }

    /// Whether a blob is here with this size and counts as just used. If not, it must be placed anew.
    pub(crate) fn refresh(&self, blob: Blob) -> Result<bool, Error> {
        Ok(self.renew(blob.id)?.is_some_and(|(found, is_new)| is_new && found.size == blob.size))
    }

    fn put(&self, expected: Option<BlobId>, from: &mut dyn Read) -> Result<Blob, Error> {
        let mut staged = self.stage()?;
        each_step(from, |bytes| staged.write(bytes))?;
        staged.finish(expected)
    }
}

impl BlobHasher {
    /// Reads all there is.
    pub fn of(from: &mut dyn Read) -> Result<Self, Error> {
        let mut hasher = Self::default();
        each_step(from, |bytes| {
            hasher.update(bytes);
            Ok(())
        })?;
        Ok(hasher)
    }
}

/// Reads all there is, in steps.
fn each_step(
    from: &mut dyn Read,
    mut take: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut buffer = vec![0; STEP];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => take(&buffer[..count])?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io("read", "the data given")(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap();
        (place, folder)
    }

    fn leftovers(folder: &Folder) -> usize {
        fs::read_dir(folder.root().join("tmp")).unwrap().count()
    }

    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }

    #[test]
    fn the_same_bytes_are_stored_once_under_their_hash() {
        let (_place, folder) = folder();
        let first = folder.put_blob(&mut &b"abc"[..]).unwrap();
        assert_eq!(folder.put_blob(&mut &b"abc"[..]).unwrap(), first);
        assert_eq!((first.id, first.size), (BlobId::of(b"abc"), 3));
        assert_eq!(fs::read(folder.blob_path(first.id)).unwrap(), b"abc");
        assert_eq!(folder.blobs().map(|found| found.unwrap().0).collect::<Vec<_>>(), [first]);
        assert!(folder.remove_blob(first.id).unwrap() && !folder.remove_blob(first.id).unwrap());
        assert_eq!(folder.blob(first.id).unwrap(), None);
        assert_eq!(folder.blobs().count(), 0);
        assert_eq!(leftovers(&folder), 0);
    }

    #[test]
    fn a_blob_that_is_here_is_not_read_again_and_counts_as_used() {
        let (_place, folder) = folder();
        let id = folder.put_blob(&mut &b"abc"[..]).unwrap().id;
        let long_ago = SystemTime::now() - Duration::from_secs(3_600);
        let used = || folder.blobs().next().unwrap().unwrap().1;
        for put in [&(|| folder.put_blob_as(id, &mut Broken)) as &dyn Fn() -> _, &|| {
            folder.put_blob(&mut &b"abc"[..])
        }] {
            File::open(folder.blob_path(id)).unwrap().set_modified(long_ago).unwrap();
            assert_eq!(put().unwrap(), Blob { id, size: 3 });
            assert!(used() > long_ago + Duration::from_secs(3_000));
        }
    }

    #[test]
    fn what_breaks_off_or_is_not_what_was_said_leaves_nothing() {
        let (_place, folder) = folder();
        let id = BlobId::of(b"abc");
        let error = folder.put_blob(&mut b"ab".chain(Broken)).unwrap_err();
        assert_eq!(error.code(), "disk_error");
        let error = folder.put_blob_as(id, &mut &b"abd"[..]).unwrap_err();
        assert!(matches!(error, Error::Mismatch { expected, .. } if expected == id), "{error}");
        drop(folder.stage().unwrap());
        assert_eq!(leftovers(&folder), 0);
        assert_eq!(folder.blobs().count(), 0);
    }

    #[test]
    fn a_blob_that_is_held_is_not_evicted() {
        let (_place, folder) = folder();
        let id = folder.put_blob(&mut &b"abc"[..]).unwrap().id;
        let (first, second) = (folder.hold_blob(id).unwrap(), folder.hold_blob(id).unwrap());
        assert!(first.is_some() && second.is_some());
        drop(first);
        assert!(!folder.evict_blob(id).unwrap());
        drop(second);
        assert!(folder.evict_blob(id).unwrap() && folder.evict_blob(id).unwrap());
        assert!(folder.hold_blob(id).unwrap().is_none());
    }

    #[test]
    fn a_blob_is_swept_only_after_its_rest() {
        let (_place, folder) = folder();
        let day = Duration::from_secs(86_400);
        let id = folder.put_blob(&mut &b"abc"[..]).unwrap().id;
        let age = |by: Duration| {
            let file = File::open(folder.blob_path(id)).unwrap();
            file.set_modified(SystemTime::now() - by).unwrap();
        };
        age(day - Duration::from_secs(60));
        assert!(folder.rested_blobs(day).unwrap().is_empty());
        assert_eq!(folder.remove_rested_blob(id, day).unwrap(), None);
        age(2 * day);
        assert_eq!(folder.rested_blobs(day).unwrap(), [Blob { id, size: 3 }]);
        let held = folder.hold_blob(id).unwrap();
        age(2 * day);
        assert_eq!(folder.remove_rested_blob(id, day).unwrap(), None, "someone holds it");
        drop(held);
        folder.touch_blob(id).unwrap();
        assert_eq!(folder.remove_rested_blob(id, day).unwrap(), None, "it was used meanwhile");
        age(2 * day);
        let resting = folder.hold_rested_blob(id, day).unwrap();
        assert_eq!(resting.as_ref().map(|rested| rested.blob.size), Some(3));
        assert!(folder.hold_blob(id).unwrap().is_none(), "nobody uses it meanwhile");
        drop(resting);
        assert_eq!(folder.remove_rested_blob(id, day).unwrap(), Some(Blob { id, size: 3 }));
        assert_eq!(folder.remove_rested_blob(id, day).unwrap(), None);
        assert_eq!(folder.blob(id).unwrap(), None);
    }

    #[test]
    fn a_blob_that_is_stored_while_it_is_swept_is_there_afterwards() {
        let (_place, folder) = folder();
        let day = Duration::from_secs(86_400);
        let id = BlobId::of(b"abc");
        for _ in 0..500 {
            folder.put_blob(&mut &b"abc"[..]).unwrap();
            let file = File::open(folder.blob_path(id)).unwrap();
            file.set_modified(SystemTime::now() - 2 * day).unwrap();
            drop(file);
            let start = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    start.wait();
                    folder.remove_rested_blob(id, day).unwrap();
                });
                start.wait();
                folder.put_blob(&mut &b"abc"[..]).unwrap();
            });
            assert!(folder.blob(id).unwrap().is_some(), "what a put promised is there");
        }
    }

    #[test]
    fn a_damaged_blob_is_found_and_a_cut_one_is_repaired_by_the_next_put() {
        let (_place, folder) = folder();
        let id = folder.put_blob(&mut &b"abc"[..]).unwrap().id;
        assert_eq!(folder.verify(id).unwrap().size, 3);
        fs::write(folder.blob_path(id), b"abX").unwrap();
        assert!(matches!(folder.verify(id), Err(Error::Damaged { size: 3, .. })));
        fs::write(folder.blob_path(id), b"ab").unwrap();
        folder.put_blob(&mut &b"abc"[..]).unwrap();
        assert_eq!(folder.verify(id).unwrap().size, 3);
        assert!(matches!(folder.verify(BlobId::of(b"x")), Err(Error::NoBlob(_))));
    }
}
