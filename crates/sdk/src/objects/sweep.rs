//! What the keeper of objects does about those that nobody uses. Which these are is decided by who knows what the data
//! means; this only sees to it that nothing goes that was stored or asked for a short while ago.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use divvy_objects::{Blob, BlobId, RecordName, RestedBlob, Uploads};

use super::{ObjectError, Objects, Place, on_thread};

impl Objects {
    /// All blobs that were neither stored nor asked for within `rest`.
    ///
    /// # Errors
    /// [`ObjectError::Elsewhere`] if these objects are at a server.
    pub async fn rested_blobs(&self, rest: Duration) -> Result<Vec<Blob>, ObjectError> {
        match &*self.place {
            Place::Folder(folder) => {
                on_thread(folder, move |folder| folder.rested_blobs(rest)).await
            }
            Place::Remote(_) => Err(ObjectError::Elsewhere),
        }
    }

    /// Removes a blob unless it was stored or asked for within `rest`; returns it if it is gone. At a server, where
    /// nobody but the server knows that time, only a blob that needs no rest is removed.
    pub async fn remove_rested_blob(
        &self,
        id: BlobId,
        rest: Duration,
    ) -> Result<Option<Blob>, ObjectError> {
        match &*self.place {
            Place::Folder(folder) => {
                on_thread(folder, move |folder| folder.remove_rested_blob(id, rest)).await
            }
            Place::Remote(remote) if rest.is_zero() => {
                let found = remote.blob(id).await?;
                Ok(if remote.remove_blob(id).await? { found } else { None })
            }
            Place::Remote(_) => Ok(None),
        }
    }

    /// The blob, if it is there; it does not count as used by this. At a server, which knows no such question, it does.
    pub async fn look_at(&self, id: BlobId) -> Result<Option<Blob>, ObjectError> {
        match &*self.place {
            Place::Folder(folder) => on_thread(folder, move |folder| folder.blob(id)).await,
            Place::Remote(remote) => remote.blob(id).await,
        }
    }

    /// A blob that was neither stored nor asked for within `rest`. Whoever stores it or asks for it waits until this is
    /// dropped, which must be soon.
    ///
    /// # Errors
    /// [`ObjectError::Elsewhere`] if these objects are at a server.
    pub async fn hold_rested_blob(
        &self,
        id: BlobId,
        rest: Duration,
    ) -> Result<Option<RestedBlob>, ObjectError> {
        match &*self.place {
            Place::Folder(folder) => {
                on_thread(folder, move |folder| folder.hold_rested_blob(id, rest)).await
            }
            Place::Remote(_) => Err(ObjectError::Elsewhere),
        }
    }

    /// Reads all records one after the other, below `prefix` and as far as they are wanted. Neither names nor records
    /// are kept, however many there are. It ends when nobody waits for it any more.
    ///
    /// # Errors
    /// [`ObjectError::Elsewhere`] if these objects are at a server.
    pub async fn each_record(
        &self,
        prefix: &str,
        mut is_wanted: impl FnMut(&RecordName) -> bool + Send + 'static,
        mut read: impl FnMut(&RecordName, &[u8]) + Send + 'static,
    ) -> Result<(), ObjectError> {
        let Place::Folder(folder) = &*self.place else { return Err(ObjectError::Elsewhere) };
        let prefix = prefix.to_owned();
        let (asker, is_given_up) = asker();
        let all = on_thread(folder, move |folder| {
            folder.each_record_name(&prefix, &mut |name| {
                if is_given_up() {
                    return Ok(ControlFlow::Break(()));
                }
                if is_wanted(&name)
                    && let Some((bytes, _)) = folder.record(&name)?
                {
                    read(&name, &bytes);
                }
                Ok(ControlFlow::Continue(()))
            })
        });
        let done = all.await;
        drop(asker);
        done
    }

    /// Reads the documents among these blobs one after the other, on one thread, and gives back `into`, into which they
    /// were read: JSON objects of at most `bytes_max` bytes. A blob that is not there, or is none, is passed over. It
    /// ends when nobody waits for it any more.
    ///
    /// # Errors
    /// [`ObjectError::Elsewhere`] if these objects are at a server.
    pub async fn read_documents<T: Send + 'static>(
        &self,
        ids: Vec<BlobId>,
        bytes_max: u64,
        mut into: T,
        mut read: impl FnMut(&mut T, &[u8]) + Send + 'static,
    ) -> Result<T, ObjectError> {
        let Place::Folder(folder) = &*self.place else { return Err(ObjectError::Elsewhere) };
        let (asker, is_given_up) = asker();
        let all = on_thread(folder, move |folder| {
            for id in ids {
                if is_given_up() {
                    break;
                }
                if let Some(bytes) = folder.document(id, bytes_max)? {
                    read(&mut into, &bytes);
                }
            }
            Ok(into)
        });
        let done = all.await;
        drop(asker);
        done
    }

    /// How many bytes had arrived of each upload that nobody went on with for `rest`. They are given up, unless this is
    /// only a look.
    ///
    /// # Errors
    /// [`ObjectError::Elsewhere`] if these objects are at a server.
    pub async fn expire_uploads(
        &self,
        rest: Duration,
        only_look: bool,
    ) -> Result<Vec<u64>, ObjectError> {
        let Place::Folder(folder) = &*self.place else { return Err(ObjectError::Elsewhere) };
        let resting = on_thread(folder, move |folder| {
            let uploads = Uploads::open(folder)?;
            if only_look { uploads.resting(rest) } else { uploads.expire(rest) }
        });
        let bytes = resting.await?.into_iter().map(|(_, bytes)| bytes);
        // What is left of a finished upload is a note, which is nobody's loss.
        Ok(bytes.filter(|bytes| *bytes > 0).collect())
    }
}

/// A sign that somebody waits, for as long as it is kept, and the question whether it is gone. A future that is given up
/// drops it; a thread does not notice that by itself, and a process that ends waits for its threads.
fn asker() -> (Arc<()>, impl Fn() -> bool + Send + 'static) {
    let asker = Arc::new(());
    let waiting = Arc::downgrade(&asker);
    (asker, move || waiting.strong_count() == 0)
}
