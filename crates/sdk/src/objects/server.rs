//! Objects at a server: over HTTP with a cache of blobs on this machine, or, for blobs, straight from the server's own
//! folder when this is the server's machine. Decides which way is taken; records always go through the server.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use divvy_objects::{Blob, BlobHasher, BlobId, Folder, RecordName, Version};
use tokio::sync::OnceCell;

use super::cache::Cache;
use super::stream::BlobStream;
use super::upload::{Outgoing, Sender};
use super::wire::{About, Wire};
use super::{LocalFile, ObjectError, on_thread, store_file};
use crate::client::Client;

/// A small blob is sent at once; for a larger one it pays to ask first whether it is there.
const ASK_FIRST_BYTES: usize = 64 << 10;
/// What is sent in one request; more goes on where it was when a slow connection breaks.
const AT_ONCE_BYTES: u64 = 8 << 20;

/// How objects at a server are reached.
#[derive(Clone, Debug)]
pub struct Reach {
    /// The server's folder of objects, if this may be the server's machine. It is used only if it is found to be that
    /// very folder.
    pub folder: Option<PathBuf>,
    /// Where copies of blobs are kept, and what is needed to go on with uploads.
    pub cache: PathBuf,
    /// How large the copies may grow together; those in use are kept in any case.
    pub cache_bytes: u64,
}

/// Objects at a server.
#[derive(Debug)]
pub(super) struct Remote {
    wire: Wire,
    reach: Reach,
    about: OnceCell<About>,
    direct: OnceCell<Option<Direct>>,
    cache: OnceCell<Arc<Cache>>,
}

/// The server's own folder.
#[derive(Clone, Debug)]
struct Direct {
    folder: Folder,
    /// Whether blobs can be stored in it as well.
    is_writable: bool,
}

impl Remote {
    pub(super) fn new(client: &Client, reach: Reach) -> Self {
        let wire = Wire { api: client.api().clone() };
        let (about, direct, cache) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { wire, reach, about, direct, cache }
    }

    pub(super) async fn blob(&self, id: BlobId) -> Result<Option<Blob>, ObjectError> {
        match self.writable().await? {
            Some(folder) => on_thread(folder, move |folder| folder.touch_blob(id)).await,
            None => Ok(self.wire.blob(id).await?),
        }
    }

    pub(super) async fn put(&self, bytes: Vec<u8>) -> Result<Blob, ObjectError> {
        if let Some(folder) = self.writable().await? {
            return on_thread(folder, move |folder| folder.put_blob(&mut &bytes[..])).await;
        }
        let id = BlobId::of(&bytes);
        if bytes.len() > ASK_FIRST_BYTES
            && let Some(blob) = self.wire.blob(id).await?
        {
            return Ok(blob);
        }
        if bytes.len() as u64 <= self.about().await?.blob_bytes_max.min(AT_ONCE_BYTES) {
            return Ok(self.wire.put(id, Bytes::from(bytes)).await?);
        }
        let cache = self.cache().await?;
        on_thread(cache.folder(), move |folder| folder.put_blob(&mut &bytes[..])).await?;
        let file = cache.local_file(id, &self.wire).await?;
        self.put_file(file.path()).await
    }

    pub(super) async fn put_file(&self, path: &Path) -> Result<Blob, ObjectError> {
        if let Some(folder) = self.writable().await? {
            return store_file(folder, path, Arc::default()).await;
        }
        let given = path.to_owned();
        let hashed = tokio::task::spawn_blocking(move || {
            let file = Outgoing::new(&given)?;
            let opened = std::fs::File::open(&file.path);
            let mut data =
                opened.map_err(|source| ObjectError::File { path: given.clone(), source })?;
            let blob = BlobHasher::of(&mut data)?.blob();
            Ok::<_, ObjectError>((file, blob.id))
        });
        let (file, id) = hashed.await.expect("hashing does not panic")?;
        if let Some(blob) = self.wire.blob(id).await? {
            return Ok(blob);
        }
        let mut nobody = |_, _| {};
        let mut sender = Sender::new(&self.wire, file, &mut nobody);
        loop {
            let place = sender.begin(Some(id)).await?;
            if let Some(blob) = sender.send(&place).await? {
                return Ok(blob);
            }
        }
    }

    /// Sends a file, which is hashed on the way. Called again, it goes on where it was.
    pub(super) async fn upload_file(
        &self,
        path: &Path,
        progress: &mut (dyn FnMut(u64, u64) + Send),
    ) -> Result<Blob, ObjectError> {
        if let Some(folder) = self.writable().await? {
            return store_with_progress(folder, path, progress).await;
        }
        let given = path.to_owned();
        let looked = tokio::task::spawn_blocking(move || Outgoing::new(&given)).await;
        let file = looked.expect("looking at a file does not panic")?;
        let memo = self.memo(&file).await?;
        let failed = |source| ObjectError::File { path: memo.clone(), source };
        let mut sender = Sender::new(&self.wire, file, progress);
        let mut place = tokio::fs::read_to_string(&memo).await.ok();
        loop {
            let current = match place.take() {
                Some(place) => place,
                None => {
                    let place = sender.begin(None).await?;
                    tokio::fs::write(&memo, &place).await.map_err(failed)?;
                    place
                }
            };
            let sent = sender.send(&current).await;
            // Only an upload that may go on is worth remembering: trouble with the server may pass.
            if !matches!(&sent, Err(ObjectError::Server(_))) {
                let _ = tokio::fs::remove_file(&memo).await;
            }
            if let Some(blob) = sent? {
                return Ok(blob);
            }
        }
    }

    pub(super) async fn local_file(&self, id: BlobId) -> Result<LocalFile, ObjectError> {
        match self.direct().await? {
            Some(direct) => LocalFile::in_folder(&direct.folder, id).await,
            None => self.cache().await?.local_file(id, &self.wire).await,
        }
    }

    pub(super) async fn open(
        &self,
        id: BlobId,
        part: Range<u64>,
    ) -> Result<BlobStream, ObjectError> {
        match self.direct().await? {
            Some(direct) => BlobStream::from_folder(&direct.folder, id, part).await,
            None => BlobStream::from_server(&self.wire, id, part).await,
        }
    }

    pub(super) async fn remove_blob(&self, id: BlobId) -> Result<bool, ObjectError> {
        Ok(self.wire.remove_blob(id).await?)
    }

    pub(super) async fn record(
        &self,
        name: &RecordName,
    ) -> Result<Option<(Vec<u8>, Version)>, ObjectError> {
        Ok(self.wire.record(name).await?)
    }

    pub(super) async fn put_record(
        &self,
        name: &RecordName,
        bytes: Vec<u8>,
    ) -> Result<(), ObjectError> {
        self.wire.write_record(name, None, bytes).await?;
        Ok(())
    }

    pub(super) async fn replace_record(
        &self,
        name: &RecordName,
        expected: Option<Version>,
        bytes: Vec<u8>,
    ) -> Result<bool, ObjectError> {
        Ok(self.wire.write_record(name, Some(expected), bytes).await?)
    }

    pub(super) async fn remove_record(&self, name: &RecordName) -> Result<bool, ObjectError> {
        Ok(self.wire.remove_record(name).await?)
    }

    pub(super) async fn record_names(&self, prefix: &str) -> Result<Vec<RecordName>, ObjectError> {
        Ok(self.wire.record_names(prefix).await?)
    }

    async fn about(&self) -> Result<&About, ObjectError> {
        Ok(self.about.get_or_try_init(|| self.wire.about()).await?)
    }

    async fn writable(&self) -> Result<Option<&Folder>, ObjectError> {
        let direct = self.direct().await?;
        Ok(direct.filter(|direct| direct.is_writable).map(|direct| &direct.folder))
    }

    /// The server's folder, if it can be seen from here.
    async fn direct(&self) -> Result<Option<&Direct>, ObjectError> {
        let Some(path) = self.reach.folder.clone() else { return Ok(None) };
        let attached = self.direct.get_or_try_init(|| async {
            let identity = self.about().await?.identity.clone();
            let attach = move || {
                let folder = Folder::attach(path).ok()?;
                // A folder of the same path on another machine, or of another server, is not the one.
                if folder.identity().ok()? != identity {
                    return None;
                }
                let is_writable = folder.stage().is_ok();
                Some(Direct { folder, is_writable })
            };
            let attached = tokio::task::spawn_blocking(attach).await;
            Ok::<_, ObjectError>(attached.expect("looking at a folder does not panic"))
        });
        Ok(attached.await?.as_ref())
    }

    async fn cache(&self) -> Result<&Arc<Cache>, ObjectError> {
        let opened = self.cache.get_or_try_init(|| async {
            let (root, bytes_max) = (self.reach.cache.clone(), self.reach.cache_bytes);
            let opened = tokio::task::spawn_blocking(move || Cache::open(root, bytes_max)).await;
            Ok::<_, ObjectError>(Arc::new(opened.expect("opening a folder does not panic")?))
        });
        opened.await
    }

    /// Where it is written down which upload a file goes into.
    async fn memo(&self, file: &Outgoing) -> Result<PathBuf, ObjectError> {
        let folder = self.reach.cache.join("resume");
        let made = tokio::fs::create_dir_all(&folder).await;
        made.map_err(|source| ObjectError::File { path: folder.clone(), source })?;
        Ok(folder.join(file.key(self.wire.api.server())))
    }
}

/// Stores a file in a folder of this machine and tells how far it is.
pub(super) async fn store_with_progress(
    folder: &Folder,
    path: &Path,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Result<Blob, ObjectError> {
    let found = tokio::fs::metadata(path).await;
    let total = found.map_err(|source| ObjectError::File { path: path.to_owned(), source })?.len();
    let done = Arc::new(AtomicU64::new(0));
    let storing = store_file(folder, path, Arc::clone(&done));
    tokio::pin!(storing);
    loop {
        tokio::select! {
            stored = &mut storing => {
                let blob = stored?;
                progress(blob.size, blob.size);
                return Ok(blob);
            }
            () = tokio::time::sleep(std::time::Duration::from_millis(200)) => {
                progress(done.load(Ordering::Relaxed), total);
            }
        }
    }
}
