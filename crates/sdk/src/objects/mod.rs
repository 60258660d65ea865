//! Large data beside the tasks: what does not fit into a payload or a result.
//!
//! Tasks carry the names of blobs, never the bytes. An [`Objects`] is a handle on where they are: a server, or a folder
//! of this machine. Decides where a read is answered from; what is stored how is decided by `divvy-objects`.

mod cache;
mod server;
mod stream;
mod sweep;
mod upload;
mod wire;

use std::any::Any;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use divvy_objects::Folder;
pub use divvy_objects::{Blob, BlobId, RESERVE_BYTES, RecordName, RestedBlob, Version};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use server::Reach;
use server::Remote;
pub use stream::BlobStream;

/// Why an object could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// Where the objects are says no.
    #[error(transparent)]
    Folder(#[from] divvy_objects::Error),
    /// The server says no, or does not answer.
    #[error(transparent)]
    Server(#[from] crate::Error),
    /// A record that is not what its reader expects.
    #[error("record `{name}` is not what is expected there: {problem}")]
    Record {
        /// Its name.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// Something that only the server itself can do with its objects.
    #[error("these objects are kept by a server, and only that can look for what nobody uses")]
    Elsewhere,
    /// A part that a blob does not have.
    #[error("blob {id} has {size} bytes, so there is no part from {start} to {end}")]
    Range {
        /// Which.
        id: BlobId,
        /// The first byte that was wanted.
        start: u64,
        /// The byte after the last.
        end: u64,
        /// How many there are.
        size: u64,
    },
    /// A file that is not any more what it was.
    #[error("{path} changed while it was sent; wait until it is whole, then send it again")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A file of this machine.
    #[error("cannot use {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

impl ObjectError {
    /// Whether the same request may work a little later.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Server(error) if error.is_temporary())
    }

    /// Whether it says that a blob is not there.
    pub fn is_no_blob(&self) -> bool {
        match self {
            Self::Folder(error) => matches!(error, divvy_objects::Error::NoBlob(_)),
            Self::Server(error) => error.code() == "no_such_blob",
            _ => false,
        }
    }
}

/// A handle on objects; a clone is cheap.
#[derive(Clone, Debug)]
pub struct Objects {
    place: Arc<Place>,
}

#[derive(Debug)]
enum Place {
    /// All of it here.
    Folder(Folder),
    /// At a server.
    Remote(Box<Remote>),
}

/// A record as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<T> {
    /// What it holds.
    pub value: T,
    /// Which version that is.
    pub version: Version,
}

/// A blob as a file of this machine, for as long as this is held. The file must not be changed.
#[derive(Clone, Debug)]
pub struct LocalFile {
    path: PathBuf,
    /// Keeps a copy in the cache from being evicted.
    #[expect(dead_code, reason = "held for its drop")]
    held: Option<Arc<std::fs::File>>,
}

impl LocalFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    async fn in_folder(folder: &Folder, id: BlobId) -> Result<Self, ObjectError> {
        let path = folder.blob_path(id);
        match on_thread(folder, move |folder| folder.blob(id)).await? {
            Some(_) => Ok(Self { path, held: None }),
            None => Err(divvy_objects::Error::NoBlob(id).into()),
        }
    }
}

impl Objects {
    /// Objects in a folder of this machine.
    pub fn in_folder(folder: Folder) -> Self {
        Self { place: Arc::new(Place::Folder(folder)) }
    }

    /// Objects at the server of this client. Nothing is asked of it yet.
    pub fn at_server(client: &crate::Client, reach: Reach) -> Self {
        Self { place: Arc::new(Place::Remote(Box::new(Remote::new(client, reach)))) }
    }

    /// The blob, if it is there. It counts as just used: whoever finds it may rely on it, and no sweep takes it before
    /// there was time to write its name into a record.
    pub async fn blob(&self, id: BlobId) -> Result<Option<Blob>, ObjectError> {
        match &*self.place {
            Place::Folder(folder) => on_thread(folder, move |folder| folder.touch_blob(id)).await,
            Place::Remote(remote) => remote.blob(id).await,
        }
    }

    /// Stores these bytes.
    pub async fn put(&self, bytes: Vec<u8>) -> Result<Blob, ObjectError> {
        match &*self.place {
            Place::Folder(folder) => {
                on_thread(folder, move |folder| folder.put_blob(&mut &bytes[..])).await
            }
            Place::Remote(remote) => remote.put(bytes).await,
        }
    }

    /// Stores a file, which stays where it is.
    pub async fn put_file(&self, path: &Path) -> Result<Blob, ObjectError> {
        match &*self.place {
            Place::Folder(folder) => store_file(folder, path, Arc::default()).await,
            Place::Remote(remote) => remote.put_file(path).await,
        }
    }

    /// Stores a file and tells how far it is: bytes done, bytes in all. Over a network the file is hashed while it is
    /// sent, and if that was interrupted, a call with the same unchanged file goes on where it was.
    pub async fn upload_file(
        &self,
        path: &Path,
        mut progress: impl FnMut(u64, u64) + Send,
    ) -> Result<Blob, ObjectError> {
        match &*self.place {
            Place::Folder(folder) => server::store_with_progress(folder, path, &mut progress).await,
            Place::Remote(remote) => remote.upload_file(path, &mut progress).await,
        }
    }

    /// A part of a blob as a stream, for those who pass it on. Over a network it is not kept on this machine.
    pub async fn open(&self, id: BlobId, part: Range<u64>) -> Result<BlobStream, ObjectError> {
        match &*self.place {
            Place::Folder(folder) => BlobStream::from_folder(folder, id, part).await,
            Place::Remote(remote) => remote.open(id, part).await,
        }
    }

    /// A small blob whole.
    pub async fn get(&self, id: BlobId) -> Result<Vec<u8>, ObjectError> {
        let file = self.local_file(id).await?;
        let path = file.path().to_owned();
        tokio::fs::read(&path).await.map_err(|source| ObjectError::File { path, source })
    }

    /// A blob as a file of this machine: where it is, or a copy in the cache.
    pub fn local_file(&self, id: BlobId) -> BoxFuture<'_, Result<LocalFile, ObjectError>> {
        match &*self.place {
            Place::Folder(folder) => LocalFile::in_folder(folder, id).boxed(),
            Place::Remote(remote) => remote.local_file(id).boxed(),
        }
    }

    /// Removes a blob; says whether it was there.
    pub async fn remove_blob(&self, id: BlobId) -> Result<bool, ObjectError> {
        match &*self.place {
            Place::Folder(folder) => on_thread(folder, move |folder| folder.remove_blob(id)).await,
            Place::Remote(remote) => remote.remove_blob(id).await,
        }
    }

    /// A record, if it is there.
    pub async fn record<T: DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<Option<Record<T>>, ObjectError> {
        let name: RecordName = name.parse()?;
        let Some((bytes, version)) = self.read(&name).await? else { return Ok(None) };
        let value = serde_json::from_slice(&bytes).map_err(|error| ObjectError::Record {
            name: name.to_string(),
            problem: error.to_string(),
        })?;
        Ok(Some(Record { value, version }))
    }

    /// Writes a record, whatever was there.
    pub async fn put_record<T: Serialize>(&self, name: &str, value: &T) -> Result<(), ObjectError> {
        let (name, bytes) = encode(name, value)?;
        match &*self.place {
            Place::Folder(folder) => {
                on_thread(folder, move |folder| folder.put_record(&name, &bytes)).await
            }
            Place::Remote(remote) => remote.put_record(&name, bytes).await,
        }
    }

    /// Writes a record if there is none; says whether there was none.
    pub async fn create_record<T: Serialize>(
        &self,
        name: &str,
        value: &T,
    ) -> Result<bool, ObjectError> {
        let (name, bytes) = encode(name, value)?;
        self.replace(name, None, bytes).await
    }

    /// Writes a record if it is still as it was read; says whether it was.
    pub async fn replace_record<T: Serialize>(
        &self,
        name: &str,
        version: Version,
        value: &T,
    ) -> Result<bool, ObjectError> {
        let (name, bytes) = encode(name, value)?;
        self.replace(name, Some(version), bytes).await
    }

    /// Changes a record, or makes it from the default, however many do so at once.
    pub async fn update_record<T: Serialize + DeserializeOwned + Default>(
        &self,
        name: &str,
        mut change: impl FnMut(&mut T),
    ) -> Result<T, ObjectError> {
        loop {
            let (mut value, version) = match self.record::<T>(name).await? {
                Some(record) => (record.value, Some(record.version)),
                None => (T::default(), None),
            };
            change(&mut value);
            let (name, bytes) = encode(name, &value)?;
            if self.replace(name, version, bytes).await? {
                return Ok(value);
            }
        }
    }

    /// Removes a record; says whether it was there.
    pub async fn remove_record(&self, name: &str) -> Result<bool, ObjectError> {
        let name: RecordName = name.parse()?;
        match &*self.place {
            Place::Folder(folder) => {
                on_thread(folder, move |folder| folder.remove_record(&name)).await
            }
            Place::Remote(remote) => remote.remove_record(&name).await,
        }
    }

    /// The names of all records below `prefix`, in order.
    pub async fn record_names(&self, prefix: &str) -> Result<Vec<RecordName>, ObjectError> {
        match &*self.place {
            Place::Folder(folder) => {
                let prefix = prefix.to_owned();
                on_thread(folder, move |folder| folder.record_names(&prefix)).await
            }
            Place::Remote(remote) => remote.record_names(prefix).await,
        }
    }

    // Reading and replacing know bytes only, so that they are compiled once and not for every type of record, and are in
    // a box, so that they are compiled here and not by every crate that awaits them.

    fn read<'a>(&'a self, name: &'a RecordName) -> BoxFuture<'a, Result<Read, ObjectError>> {
        match &*self.place {
            Place::Folder(folder) => {
                let name = name.clone();
                on_thread(folder, move |folder| folder.record(&name)).boxed()
            }
            Place::Remote(remote) => remote.record(name).boxed(),
        }
    }

    fn replace(
        &self,
        name: RecordName,
        expected: Option<Version>,
        bytes: Vec<u8>,
    ) -> BoxFuture<'_, Result<bool, ObjectError>> {
        match &*self.place {
            Place::Folder(folder) => {
                on_thread(folder, move |folder| folder.replace_record(&name, expected, &bytes))
                    .boxed()
            }
            Place::Remote(remote) => {
                async move { remote.replace_record(&name, expected, bytes).await }.boxed()
            }
        }
    }
}

/// The bytes of a record and its version, if it is there.
type Read = Option<(Vec<u8>, Version)>;

fn encode<T: Serialize>(name: &str, value: &T) -> Result<(RecordName, Vec<u8>), ObjectError> {
    let parsed: RecordName = name.parse()?;
    let bytes = serde_json::to_vec(value).map_err(|error| ObjectError::Record {
        name: name.to_owned(),
        problem: error.to_string(),
    })?;
    Ok((parsed, bytes))
}

/// What a thread is given to do, as one type: the runtime's side of a thread is compiled anew for every type of work, in
/// every crate that stores objects.
type Work = Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>;

async fn on_thread<T: Send + 'static>(
    folder: &Folder,
    work: impl FnOnce(&Folder) -> Result<T, divvy_objects::Error> + Send + 'static,
) -> Result<T, ObjectError> {
    let folder = folder.clone();
    let work: Work = Box::new(move || Box::new(work(&folder)));
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.expect("storing objects does not panic, and the runtime outlives its handles");
    let done: Box<Result<T, divvy_objects::Error>> = done.downcast().expect("the work made it");
    Ok((*done)?)
}

/// Stores a file in a folder, and counts the bytes that are done.
async fn store_file(
    folder: &Folder,
    path: &Path,
    done: Arc<AtomicU64>,
) -> Result<Blob, ObjectError> {
    let opened = tokio::fs::File::open(path).await;
    let file = opened.map_err(|source| ObjectError::File { path: path.to_owned(), source })?;
    let mut counted = Counted { from: file.into_std().await, done };
    on_thread(folder, move |folder| folder.put_blob(&mut counted)).await
}

struct Counted {
    from: std::fs::File,
    done: Arc<AtomicU64>,
}

impl std::io::Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.done.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
