//! Blobs that arrive in pieces: appended to a file, hashed on the way, placed by a rename when they are whole.
//!
//! What arrived outlives the connection and the process. The hash so far is kept in memory; after a restart it is made
//! again from the file when the next piece comes. Who appends holds the lock of the file, so a second sender of the same
//! upload is refused. An upload that rests for [`UPLOAD_LIFE`] is given up. Does not know how the pieces travel.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::error::if_there;
use crate::folder::{is_at, is_older, remove};
use crate::upload::{UPLOAD_BYTES_MAX, UPLOAD_METADATA_MAX};
use crate::{Blob, BlobHasher, BlobId, Error, Folder, NewUpload, Upload, UploadId};

/// How long an upload may rest before it is given up, and how long a finished one can still be asked for.
pub const UPLOAD_LIFE: Duration = Duration::from_secs(24 * 3_600);
/// Uploads under way at once.
const UPLOADS_MAX: usize = 1_000;
/// Bytes after which what arrived is brought to the disk, so that the end of a large upload is not a long wait.
const SYNC_EVERY: u64 = 128 << 20;

/// The uploads of a folder; a clone is cheap.
#[derive(Clone, Debug)]
pub struct Uploads {
    folder: Folder,
    /// The hashes of what is here, of uploads that this process received a part of.
    hashes: Arc<Mutex<HashMap<UploadId, BlobHasher>>>,
}

/// What is kept beside the data of an upload.
#[derive(Serialize, Deserialize)]
struct Note {
    #[serde(flatten)]
    new: NewUpload,
    /// Written when all data is here and before it takes its place, so that the end is never lost.
    #[serde(default)]
    blob: Option<BlobId>,
}

impl Uploads {
    /// The uploads of this folder.
    pub fn open(folder: &Folder) -> Result<Self, Error> {
        let path = folder.root().join("uploads");
        fs::create_dir_all(&path).map_err(Error::io("create", path))?;
        Ok(Self { folder: folder.clone(), hashes: Arc::default() })
    }

    /// Begins an upload.
    pub fn create(&self, new: NewUpload) -> Result<Upload, Error> {
        self.create_as(UploadId::random(), new)
    }

    /// Begins an upload of that name, or goes on with it if it is the same.
    pub fn create_as(&self, id: UploadId, new: NewUpload) -> Result<Upload, Error> {
        let (length, bytes) = (new.length, new.metadata.len());
        if length > UPLOAD_BYTES_MAX {
            return Err(Error::UploadTooLarge { length, max: UPLOAD_BYTES_MAX });
        }
        if bytes > UPLOAD_METADATA_MAX {
            return Err(Error::MetadataTooLarge { bytes, max: UPLOAD_METADATA_MAX });
        }
        let is_begun = self.note(id)?.is_some_and(|note| note.new == new && note.blob.is_none());
        if is_begun && let Ok(upload) = self.upload(id) {
            return Ok(upload);
        }
        if self.ids("part")?.len() >= UPLOADS_MAX {
            return Err(Error::TooManyUploads { max: UPLOADS_MAX });
        }
        let path = self.data_path(id);
        self.folder.check_room(&path, length)?;
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(Error::io("create", &path))?;
        // What is left of an upload of the same name is emptied, unless someone is about to give it its place.
        if file.try_lock().is_err() || !is_at(&file, &path) {
            return Err(Error::UploadBusy(id));
        }
        file.set_len(0).map_err(Error::io("write", path))?;
        self.hashes().remove(&id);
        self.write_note(id, &Note { new, blob: None })?;
        self.upload(id)
    }

    /// An upload as it stands.
    pub fn upload(&self, id: UploadId) -> Result<Upload, Error> {
        let note = self.note(id)?.ok_or(Error::NoUpload(id))?;
        let NewUpload { length, metadata, .. } = note.new;
        let path = self.data_path(id);
        let data = if_there(File::open(&path)).map_err(Error::io("open", &path))?;
        let Some(done) = note.blob else {
            let data = data.ok_or(Error::NoUpload(id))?;
            let offset = data.metadata().map_err(Error::io("read", path))?.len();
            return Ok(Upload { id, length, offset, metadata, blob: None });
        };
        let blob = Blob { id: done, size: length };
        if let Some(data) = data {
            if data.try_lock().is_err() {
                // Its sender is about to place it.
                return Ok(Upload { id, length, offset: length, metadata, blob: None });
            }
            // Whoever received the last byte died before it took its place.
            self.place_data(id, blob)?;
        }
        Ok(Upload { id, length, offset: length, metadata, blob: Some(blob) })
    }

    /// Goes on with an upload, if it stands at `offset` and nobody else does.
    pub fn append(&self, id: UploadId, offset: u64) -> Result<Appending, Error> {
        let path = self.data_path(id);
        let opened = OpenOptions::new().read(true).append(true).open(&path);
        let file = if_there(opened).map_err(Error::io("open", &path))?;
        let Some(file) = file else {
            let upload = self.upload(id)?;
            let expected = upload.offset;
            return Err(match upload.blob {
                Some(_) if expected == offset => Error::UploadEnded(id),
                _ => Error::WrongOffset { id, expected, found: offset },
            });
        };
        if file.try_lock().is_err() {
            return Err(Error::UploadBusy(id));
        }
        // Another sender may have finished between the opening and the lock: this may be a blob by now.
        if !is_at(&file, &path) {
            return Err(Error::UploadBusy(id));
        }
        let note = self.note(id)?.filter(|note| note.blob.is_none()).ok_or(Error::NoUpload(id))?;
        let stands = file.metadata().map_err(Error::io("read", &path))?.len();
        if stands != offset {
            return Err(Error::WrongOffset { id, expected: stands, found: offset });
        }
        let known = self.hashes().remove(&id).filter(|hashed| hashed.size() == stands);
        let hashed = match known {
            Some(hashed) => hashed,
            None => hash_whole(&path)?,
        };
        Ok(Appending {
            uploads: self.clone(),
            id,
            file,
            path,
            new: note.new,
            hashed: Some(hashed),
            unsynced: 0,
        })
    }

    /// Gives an upload up. The blob that it became stays.
    pub fn remove(&self, id: UploadId) -> Result<(), Error> {
        if self.note(id)?.is_none() {
            return Err(Error::NoUpload(id));
        }
        let path = self.data_path(id);
        let data = if_there(File::open(&path)).map_err(Error::io("open", &path))?;
        if data.is_some_and(|data| data.try_lock().is_err()) {
            return Err(Error::UploadBusy(id));
        }
        self.forget(id)
    }

    /// Removes uploads that rested for that long; returns them with the bytes that had arrived.
    pub fn expire(&self, life: Duration) -> Result<Vec<(UploadId, u64)>, Error> {
        self.resting_then(life, |id| self.forget(id))
    }

    /// The uploads that rested for that long and that nobody sends now, with the bytes that arrived. What is left of a
    /// finished one has none.
    pub fn resting(&self, life: Duration) -> Result<Vec<(UploadId, u64)>, Error> {
        self.resting_then(life, |_| Ok(()))
    }

    /// Does something with each upload that rests, while nobody can go on with it.
    fn resting_then(
        &self,
        life: Duration,
        act: impl Fn(UploadId) -> Result<(), Error>,
    ) -> Result<Vec<(UploadId, u64)>, Error> {
        let mut resting = Vec::new();
        let mut ids = self.ids("json")?;
        ids.extend(self.ids("part")?);
        ids.sort();
        ids.dedup();
        for id in ids {
            let open = |path: PathBuf| if_there(File::open(&path)).map_err(Error::io("open", path));
            let (data, note) = (open(self.data_path(id))?, open(self.note_path(id))?);
            let rests = [&data, &note].into_iter().flatten().all(|file| is_older(file, life));
            if !rests || data.as_ref().is_some_and(|data| data.try_lock().is_err()) {
                continue;
            }
            let bytes = match &data {
                Some(data) => data.metadata().map_err(Error::io("read", self.data_path(id)))?.len(),
                None => 0,
            };
            act(id)?;
            resting.push((id, bytes));
        }
        Ok(resting)
    }

    fn forget(&self, id: UploadId) -> Result<(), Error> {
        self.hashes().remove(&id);
        remove(&self.note_path(id))?;
        remove(&self.data_path(id))?;
        Ok(())
    }

    fn place_data(&self, id: UploadId, blob: Blob) -> Result<(), Error> {
        let data = self.data_path(id);
        if self.folder.refresh(blob)? {
            remove(&data)?;
            return Ok(());
        }
        // Its last byte may have come long ago, but its rest as a blob begins now.
        let opened = File::open(&data).map_err(Error::io("open", &data))?;
        opened.set_modified(SystemTime::now()).map_err(Error::io("write", &data))?;
        self.folder.place(&data, &self.folder.blob_path(blob.id))
    }

    fn note(&self, id: UploadId) -> Result<Option<Note>, Error> {
        let path = self.note_path(id);
        let bytes = if_there(fs::read(&path)).map_err(Error::io("read", path))?;
        // One that cannot be read is of no use to anybody, and is given up like any that rests.
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    fn write_note(&self, id: UploadId, note: &Note) -> Result<(), Error> {
        let bytes = serde_json::to_vec(note).expect("a note is plain data");
        self.folder.write_file(&self.note_path(id), &bytes)
    }

    fn ids(&self, ending: &str) -> Result<Vec<UploadId>, Error> {
        let path = self.folder.root().join("uploads");
        let entries = fs::read_dir(&path).map_err(Error::io("list", &path))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names
            .filter_map(|name| name.strip_suffix(ending)?.strip_suffix('.')?.parse().ok())
            .collect())
    }

    fn hashes(&self) -> MutexGuard<'_, HashMap<UploadId, BlobHasher>> {
        self.hashes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn data_path(&self, id: UploadId) -> PathBuf {
        self.folder.root().join("uploads").join(format!("{id}.part"))
    }

    fn note_path(&self, id: UploadId) -> PathBuf {
        self.folder.root().join("uploads").join(format!("{id}.json"))
    }
}

/// An upload that receives data. Dropped, it keeps what arrived.
#[derive(Debug)]
pub struct Appending {
    uploads: Uploads,
    id: UploadId,
    file: File,
    path: PathBuf,
    new: NewUpload,
    hashed: Option<BlobHasher>,
    unsynced: u64,
}

impl Appending {
    /// How many bytes are here.
    pub fn offset(&self) -> u64 {
        self.hashed.as_ref().map_or(0, BlobHasher::size)
    }

    /// How many bytes are still to come.
    pub fn missing(&self) -> u64 {
        self.new.length - self.offset()
    }

    /// Adds bytes at the end: all of them, or none.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let (count, offset) = (bytes.len() as u64, self.offset());
        if count > self.missing() {
            return Err(Error::UploadTooLong { id: self.id, length: self.new.length });
        }
        self.uploads.folder.check_room(&self.path, count)?;
        if let Err(error) = self.file.write_all(bytes) {
            // A part of them may be there, which the hash does not know.
            let _ = self.file.set_len(offset);
            return Err(Error::io("write", &self.path)(error));
        }
        let hashed = self.hashed.as_mut().expect("taken by the finish only");
        hashed.update(bytes);
        self.unsynced += count;
        if self.unsynced >= SYNC_EVERY {
            self.sync()?;
        }
        Ok(())
    }

    /// Ends this piece: what arrived is on the disk, and if that is all of it, it is a blob.
    ///
    /// # Errors
    /// [`Error::Mismatch`] if it is not the blob that was announced; the upload is gone then.
    pub fn finish(mut self) -> Result<Upload, Error> {
        self.sync()?;
        let id = self.id;
        if self.missing() > 0 {
            let uploads = self.uploads.clone();
            drop(self);
            return uploads.upload(id);
        }
        let blob = self.hashed.take().expect("taken here only").blob();
        let found = blob.id;
        if let Some(expected) = self.new.expected.filter(|expected| *expected != found) {
            self.uploads.forget(id)?;
            return Err(Error::Mismatch { expected, found });
        }
        self.uploads.write_note(id, &Note { new: self.new.clone(), blob: Some(found) })?;
        self.uploads.place_data(id, blob)?;
        let (length, metadata) = (blob.size, self.new.metadata.clone());
        Ok(Upload { id, length, offset: length, metadata, blob: Some(blob) })
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.unsynced = 0;
        self.file.sync_data().map_err(Error::io("sync", &self.path))
    }
}

impl Drop for Appending {
    fn drop(&mut self) {
        if let Some(hashed) = self.hashed.take() {
            self.uploads.hashes().insert(self.id, hashed);
        }
    }
}

fn hash_whole(path: &Path) -> Result<BlobHasher, Error> {
    let mut file = File::open(path).map_err(Error::io("read", path))?;
    BlobHasher::of(&mut file)
}

#[cfg(test)]
mod tests;
