//! A part of a blob as it is read, for those who pass it on.

use std::io::SeekFrom;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use divvy_client::Patience;
use divvy_objects::{BlobId, Folder};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio_util::io::ReaderStream;

use super::wire::Wire;
use super::{ObjectError, on_thread};

/// Bytes read at once from a file.
const STEP: usize = 128 << 10;

/// The bytes of a part of a blob, in order. It ends early only with an error.
pub struct BlobStream {
    size: u64,
    steps: Pin<Box<dyn Stream<Item = Result<Bytes, ObjectError>> + Send>>,
}

impl Stream for BlobStream {
    type Item = Result<Bytes, ObjectError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.steps.as_mut().poll_next(context)
    }
}

impl std::fmt::Debug for BlobStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BlobStream")
    }
}

impl BlobStream {
    fn new(
        size: u64,
        steps: impl Stream<Item = Result<Bytes, ObjectError>> + Send + 'static,
    ) -> Self {
        Self { size, steps: Box::pin(steps) }
    }

    /// How many bytes the whole blob has.
    pub fn size(&self) -> u64 {
        self.size
    }

    pub(super) async fn from_folder(
        folder: &Folder,
        id: BlobId,
        part: Range<u64>,
    ) -> Result<Self, ObjectError> {
        let (blob, file) = on_thread(folder, move |folder| folder.open_blob(id)).await?;
        check(id, &part, blob.size)?;
        let path = folder.blob_path(id);
        let failed = move |source| ObjectError::File { path: path.clone(), source };
        let mut file = tokio::fs::File::from_std(file);
        file.seek(SeekFrom::Start(part.start)).await.map_err(&failed)?;
        let steps = ReaderStream::with_capacity(file.take(part.end - part.start), STEP);
        Ok(Self::new(blob.size, steps.map_err(failed)))
    }

    pub(super) async fn from_server(
        wire: &Wire,
        id: BlobId,
        part: Range<u64>,
    ) -> Result<Self, ObjectError> {
        let blob = wire.blob(id).await?.ok_or(divvy_objects::Error::NoBlob(id))?;
        check(id, &part, blob.size)?;
        if part.is_empty() {
            return Ok(Self::new(blob.size, futures_util::stream::empty()));
        }
        let mut patience = Patience::default();
        let answer = loop {
            match wire.part(id, &part).await {
                Ok(answer) => break answer,
                Err(error) => patience.bear(error).await?,
            }
        };
        let api = wire.api.clone();
        let steps = answer.bytes_stream();
        Ok(Self::new(
            blob.size,
            steps.map(move |step| step.map_err(|error| ObjectError::Server(api.lost(&error)))),
        ))
    }
}

fn check(id: BlobId, part: &Range<u64>, size: u64) -> Result<(), ObjectError> {
    if part.start > part.end || part.end > size {
        return Err(ObjectError::Range { id, start: part.start, end: part.end, size });
    }
    Ok(())
}
