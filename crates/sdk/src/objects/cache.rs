//! Copies of a server's blobs on this machine: fetched once, kept while someone holds them, evicted by last use.
//!
//! The cache is a folder of objects itself, and a download is an upload into it: what arrived before a connection broke
//! is kept, and a blob has its name only when its hash is right. Several processes may share one cache. Knows nothing
//! about tasks; does not ask whether a blob is still wanted.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use divvy_client::Patience;
use divvy_objects::{
    Appending, Blob, BlobId, Error as FolderError, Folder, NewUpload, UPLOAD_LIFE, UploadId,
    Uploads,
};
use reqwest::Response;

use super::wire::Wire;
use super::{LocalFile, ObjectError, on_thread};

/// Bytes that are written at once.
const PIECE_BYTES: usize = 1 << 20;
/// How long the server may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The rest before a look whether another process is done with the same blob.
const OTHER_REST: Duration = Duration::from_millis(200);

/// Copies of blobs on this machine.
#[derive(Debug)]
pub(super) struct Cache {
    folder: Folder,
    uploads: Uploads,
    bytes_max: u64,
    /// Who fetches a blob holds its turn; the others wait for it.
    turns: Mutex<HashMap<BlobId, Weak<tokio::sync::Mutex<()>>>>,
}

impl Cache {
    /// Opens the cache, or makes it. Waits for the disk.
    pub(super) fn open(root: PathBuf, bytes_max: u64) -> Result<Self, FolderError> {
        let folder = Folder::open(root)?;
        let uploads = Uploads::open(&folder)?;
        uploads.expire(UPLOAD_LIFE)?;
        Ok(Self { folder, uploads, bytes_max, turns: Mutex::default() })
    }

    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The blob as a file, which is fetched if need be.
    pub(super) async fn local_file(
        &self,
        id: BlobId,
        wire: &Wire,
    ) -> Result<LocalFile, ObjectError> {
        if let Some(file) = self.find(id).await? {
            return Ok(file);
        }
        let turn = self.turn(id);
        let _held = turn.lock().await;
        loop {
            if let Some(file) = self.find(id).await? {
                return Ok(file);
            }
            let blob = wire.blob(id).await?.ok_or(FolderError::NoBlob(id))?;
            self.make_room(blob.size).await?;
            self.fetch(blob, wire).await?;
        }
    }

    async fn find(&self, id: BlobId) -> Result<Option<LocalFile>, ObjectError> {
        let path = self.folder.blob_path(id);
        let held = on_thread(&self.folder, move |folder| folder.hold_blob(id)).await?;
        Ok(held.map(|(_, file)| LocalFile { path, held: Some(Arc::new(file)) }))
    }

    fn turn(&self, id: BlobId) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = turns.get(&id).and_then(Weak::upgrade).unwrap_or_default();
        turns.insert(id, Arc::downgrade(&turn));
        turn
    }

    /// Evicts what was not used for longest and nobody holds, until so many bytes fit. A blob that is larger than the
    /// cache is fetched all the same: the work must go on.
    async fn make_room(&self, bytes: u64) -> Result<(), ObjectError> {
        let room = self.bytes_max.saturating_sub(bytes);
        let uploads = self.uploads.clone();
        on_thread(&self.folder, move |folder| {
            // Half a blob that nobody came back for takes room too.
            uploads.expire(UPLOAD_LIFE)?;
            let mut kept = folder.blobs().collect::<Result<Vec<_>, _>>()?;
            kept.sort_by_key(|(_, used)| *used);
            let mut total: u64 = kept.iter().map(|(blob, _)| blob.size).sum();
            for (blob, _) in kept {
                if total <= room {
                    break;
                }
                if folder.evict_blob(blob.id)? {
                    total -= blob.size;
                }
            }
            Ok(())
        })
        .await
    }

    async fn fetch(&self, blob: Blob, wire: &Wire) -> Result<(), ObjectError> {
        let id = UploadId::of(blob.id);
        let mut patience = Patience::default();
        loop {
            let Some(appending) = self.begin(blob).await? else {
                // Another process fetches it, or just did.
                tokio::time::sleep(OTHER_REST).await;
                if self.find(blob.id).await?.is_some() {
                    return Ok(());
                }
                continue;
            };
            let start = appending.offset();
            let (appending, end) = receive(appending, blob, wire).await?;
            if appending.offset() > start {
                patience.renew();
            }
            let uploads = self.uploads.clone();
            let is_whole = on_thread(&self.folder, move |_| {
                let is_whole = appending.finish()?.blob.is_some();
                if is_whole {
                    uploads.remove(id)?;
                }
                Ok(is_whole)
            });
            if is_whole.await? {
                return Ok(());
            }
            let cut = || wire.api.unreachable("it sent less than it said");
            patience.bear(end.err().unwrap_or_else(cut)).await?;
        }
    }

    /// Goes on with a download, unless another process is at it.
    async fn begin(&self, blob: Blob) -> Result<Option<Appending>, ObjectError> {
        let uploads = self.uploads.clone();
        let new = NewUpload { length: blob.size, metadata: String::new(), expected: Some(blob.id) };
        on_thread(&self.folder, move |_| {
            let id = UploadId::of(blob.id);
            let begun = uploads.create_as(id, new).and_then(|it| uploads.append(id, it.offset));
            match begun {
                Ok(appending) => Ok(Some(appending)),
                Err(
                    FolderError::UploadBusy(_)
                    | FolderError::WrongOffset { .. }
                    | FolderError::NoUpload(_),
                ) => Ok(None),
                Err(error) => Err(error),
            }
        })
        .await
    }
}

/// Receives what is missing, as far as it comes.
async fn receive(
    mut appending: Appending,
    blob: Blob,
    wire: &Wire,
) -> Result<(Appending, Result<(), crate::Error>), ObjectError> {
    let part = appending.offset()..blob.size;
    if part.is_empty() {
        return Ok((appending, Ok(())));
    }
    let mut answer = match wire.part(blob.id, &part).await {
        Ok(answer) => answer,
        Err(error) => return Ok((appending, Err(error))),
    };
    loop {
        let (bytes, end) = next_piece(&mut answer, wire).await;
        let written = tokio::task::spawn_blocking(move || {
            appending.write(&bytes)?;
            Ok::<_, FolderError>(appending)
        });
        appending = written.await.expect("writing does not panic")?;
        if let Some(end) = end {
            return Ok((appending, end));
        }
    }
}

async fn next_piece(
    answer: &mut Response,
    wire: &Wire,
) -> (Vec<u8>, Option<Result<(), crate::Error>>) {
    let mut bytes = Vec::new();
    while bytes.len() < PIECE_BYTES {
        match tokio::time::timeout(SILENCE_MAX, answer.chunk()).await {
            Ok(Ok(Some(chunk))) => bytes.extend_from_slice(&chunk),
            Ok(Ok(None)) => return (bytes, Some(Ok(()))),
            Ok(Err(error)) => return (bytes, Some(Err(wire.api.lost(&error)))),
            Err(_) => return (bytes, Some(Err(wire.api.unreachable("it fell silent")))),
        }
    }
    (bytes, None)
}
