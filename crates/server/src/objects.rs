//! The objects of this server, as its handlers reach them: file work on threads that may wait, refusals in the one
//! shape, and a limit on how much is received at once.

use std::sync::Arc;
use std::time::Duration;

use divvy_http::ApiError;
use divvy_objects::{Error, Folder, UPLOAD_LIFE, Uploads};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Bodies that are received into objects at once; each takes up to 2 MiB of memory.
const RECEIVING_MAX: usize = 64;
/// What a caller waits when that many are under way.
const RETRY_AFTER_MS: u64 = 1_000;
/// How often uploads that rest for too long are looked for.
const EXPIRE_EVERY: Duration = Duration::from_secs(3_600);

/// The objects of this server; a clone is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// Blobs and records.
    pub(crate) folder: Folder,
    /// Blobs that still arrive.
    pub(crate) uploads: Uploads,
    receiving: Arc<Semaphore>,
}

impl Stored {
    pub(crate) fn open(folder: Folder) -> Result<Self, Error> {
        let uploads = Uploads::open(&folder)?;
        Ok(Self { folder, uploads, receiving: Arc::new(Semaphore::new(RECEIVING_MAX)) })
    }

    /// Does file work on a thread that may wait.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let stored = self.clone();
        on_thread(move || work(&stored)).await
    }

    /// Room for one more body; held while it is received.
    pub(crate) fn room(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        Arc::clone(&self.receiving).try_acquire_owned().map_err(|_| {
            ApiError::from(divvy_engine::Error::Overloaded { retry_after_ms: RETRY_AFTER_MS })
        })
    }

    /// Gives up uploads that rest for too long, until the server stops.
    pub(crate) async fn expire(self, shutdown: CancellationToken) {
        loop {
            let uploads = self.uploads.clone();
            let expired = tokio::task::spawn_blocking(move || uploads.expire(UPLOAD_LIFE)).await;
            match expired {
                Ok(Ok(expired)) if expired.is_empty() => {}
                Ok(Ok(expired)) => {
                    let count = expired.len();
                    tracing::info!(count, "gave up uploads that nobody went on with");
                }
                Ok(Err(error)) => tracing::warn!(%error, "cannot look for uploads that rest"),
                Err(_) => return,
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(EXPIRE_EVERY) => {}
            }
        }
    }
}

/// Does file work on a thread that may wait.
pub(crate) async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, ApiError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(ApiError::from(divvy_engine::Error::Stopping)),
    }
}
