//! A blob while it is written: hashed on the way, without a name until it is whole.

use crate::folder::Temporary;
use crate::{Blob, BlobHasher, BlobId, Error, Folder};

/// A blob that is being written. Dropped before [`Staged::finish`], it leaves nothing.
#[derive(Debug)]
pub struct Staged {
    folder: Folder,
    file: Temporary,
    hasher: BlobHasher,
}

impl Folder {
    /// Begins a blob.
    pub fn stage(&self) -> Result<Staged, Error> {
        let file = self.temporary()?;
        Ok(Staged { folder: self.clone(), file, hasher: BlobHasher::default() })
    }
}

impl Staged {
    /// Adds bytes at the end.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.folder.check_room(&self.file.path, bytes.len() as u64)?;
        self.file.write(bytes)?;
        self.hasher.update(bytes);
        Ok(())
    }

    /// How many bytes there are so far.
    pub fn size(&self) -> u64 {
        self.hasher.size()
    }

    /// Gives the blob its name, which must be `expected` if that is said.
    pub fn finish(mut self, expected: Option<BlobId>) -> Result<Blob, Error> {
        let blob = self.hasher.blob();
        if let Some(expected) = expected.filter(|expected| *expected != blob.id) {
            return Err(Error::Mismatch { expected, found: blob.id });
        }
        if self.folder.refresh(blob)? {
            return Ok(blob);
        }
        self.file.sync()?;
        self.folder.place(&self.file.path, &self.folder.blob_path(blob.id))?;
        self.file.placed();
        Ok(blob)
    }
}
