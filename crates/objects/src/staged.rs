//! A blob while it is written: hashed on the way, without a name until it is whole.

use crate::folder::Temporary;
use crate::{Blob, BlobId, Error, Folder};

/// A blob that is being written. Dropped before [`Staged::finish`], it leaves nothing.
#[derive(Debug)]
pub struct Staged {
    folder: Folder,
    file: Temporary,
    hasher: blake3::Hasher,
    size: u64,
}

impl Folder {
    /// Begins a blob.
    pub fn stage(&self) -> Result<Staged, Error> {
        let file = self.temporary()?;
        Ok(Staged { folder: self.clone(), file, hasher: blake3::Hasher::new(), size: 0 })
    }
}

impl Staged {
    /// Adds bytes at the end.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write(bytes)?;
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// How many bytes there are so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Gives the blob its name, which must be `expected` if that is said.
    pub fn finish(mut self, expected: Option<BlobId>) -> Result<Blob, Error> {
        let found = BlobId(*self.hasher.finalize().as_bytes());
        if let Some(expected) = expected.filter(|expected| *expected != found) {
            return Err(Error::Mismatch { expected, found });
        }
        let blob = Blob { id: found, size: self.size };
        if self.folder.refresh(blob)? {
            return Ok(blob);
        }
        self.file.sync()?;
        self.folder.place(&self.file.path, &self.folder.blob_path(found))?;
        self.file.placed();
        Ok(blob)
    }
}
