//! Sends files to a server by the tus protocol: goes on where it was after a broken connection, a restart of the server,
//! or, for a file that is sent under its path, a restart of this program.
//!
//! Decides when to go on and when to give up. What an upload is, and when it is whole, is decided by the server.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use divvy_client::Patience;
use divvy_objects::{Blob, BlobHasher, BlobId};
use futures_util::StreamExt as _;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Body, Method, Response};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio_util::io::ReaderStream;

use super::ObjectError;
use super::wire::{Wire, is_absent};
use crate::client::Error;

/// Bytes read at once from the file.
const STEP: usize = 256 << 10;
/// How often progress is told and looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long the server may take nothing before the connection is given up. At the end it brings the data to its disk.
const STALL_MAX: Duration = Duration::from_secs(120);
/// The protocol.
const TUS: (&str, &str) = ("tus-resumable", "1.0.0");

/// A file to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub(super) path: PathBuf,
    pub(super) size: u64,
    changed: SystemTime,
}

/// How far the sending and the hashing of a file are.
#[derive(Debug, Default)]
struct Track {
    /// The hash of the file up to where it was read for the first time.
    hasher: BlobHasher,
    /// Where the next bytes are read.
    position: u64,
}

/// Where an upload stands.
struct Standing {
    offset: u64,
    blob: Option<BlobId>,
}

/// Sends one file.
pub(super) struct Sender<'a> {
    wire: &'a Wire,
    file: Outgoing,
    track: Arc<Mutex<Track>>,
    /// No two threads may call it, so whatever waits borrows the sender for itself alone.
    progress: &'a mut (dyn FnMut(u64, u64) + Send),
}

impl Outgoing {
    /// The file as it is now. Waits for the disk.
    pub(super) fn new(path: &Path) -> Result<Self, ObjectError> {
        let failed = |source| ObjectError::File { path: path.to_owned(), source };
        let path = fs::canonicalize(path).map_err(failed)?;
        let found = fs::metadata(&path).map_err(failed)?;
        if !found.is_file() {
            return Err(failed(std::io::Error::other("it is not a file")));
        }
        Ok(Self { size: found.len(), changed: found.modified().map_err(failed)?, path })
    }

    /// The same text for the same file and server, as long as the file does not change.
    pub(super) fn key(&self, server: &str) -> String {
        BlobId::of(format!("{server}\n{self:?}").as_bytes()).to_string()
    }
}

impl<'a> Sender<'a> {
    pub(super) fn new(
        wire: &'a Wire,
        file: Outgoing,
        progress: &'a mut (dyn FnMut(u64, u64) + Send),
    ) -> Self {
        Self { wire, file, track: Arc::default(), progress }
    }

    /// Begins an upload; says where it is.
    pub(super) async fn begin(&mut self, expected: Option<BlobId>) -> Result<String, ObjectError> {
        let (wire, size) = (self.wire, self.file.size);
        let request = || {
            let request = wire.request(Method::POST, "/uploads").header(TUS.0, TUS.1);
            let request = request.header("upload-length", size);
            match expected {
                Some(blob) => request.header("divvy-blob", blob.to_string()),
                None => request,
            }
        };
        let answer = wire.good(wire.ask(request).await?).await?;
        let place = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let id = place.and_then(|place| place.rsplit('/').next()).filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| Error::protocol("an upload without a place"))?;
        Ok(format!("/uploads/{id}"))
    }

    /// Sends what the server does not have yet. Nothing if the server does not know the upload.
    pub(super) async fn send(&mut self, place: &str) -> Result<Option<Blob>, ObjectError> {
        let mut patience = Patience::default();
        let mut furthest = 0;
        loop {
            let Some(standing) = self.standing(place).await? else { return Ok(None) };
            if standing.offset > furthest {
                furthest = standing.offset;
                patience.renew();
            }
            let ended = match standing.blob {
                Some(blob) => Ok(Some(blob)),
                None => self.piece(place, standing.offset).await,
            };
            match ended {
                Ok(Some(blob)) => return self.check(blob).await.map(Some),
                Ok(None) => {}
                Err(ObjectError::Server(error)) => {
                    patience.bear(may_go_on(error)).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether what the server has is what was read here.
    async fn check(&mut self, found: BlobId) -> Result<Blob, ObjectError> {
        let (path, size) = (self.file.path.clone(), self.file.size);
        self.hash_to(size).await?;
        let now = tokio::task::spawn_blocking(move || Outgoing::new(&path)).await;
        if now.expect("looking at a file does not panic")? != self.file {
            return Err(ObjectError::Changed { path: self.file.path.clone() });
        }
        let blob = self.track().hasher.blob();
        if blob.id != found {
            return Err(divvy_objects::Error::Mismatch { expected: blob.id, found }.into());
        }
        (self.progress)(size, size);
        Ok(blob)
    }

    async fn standing(&mut self, place: &str) -> Result<Option<Standing>, ObjectError> {
        let wire = self.wire;
        let request = || wire.request(Method::HEAD, place).header(TUS.0, TUS.1);
        let answer = wire.ask(request).await?;
        if is_absent(&answer) {
            return Ok(None);
        }
        let answer = wire.good(answer).await?;
        Ok(Some(self.standing_of(answer.headers())?))
    }

    fn standing_of(&self, headers: &HeaderMap) -> Result<Standing, ObjectError> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let offset = text("upload-offset").and_then(|text| text.parse().ok());
        let offset = offset.filter(|offset| *offset <= self.file.size);
        let offset = offset.ok_or_else(|| Error::protocol("an upload without an offset"))?;
        let blob = text("divvy-blob").map(str::parse).transpose()?;
        Ok(Standing { offset, blob })
    }

    /// Sends all from there on in one request.
    async fn piece(&mut self, place: &str, offset: u64) -> Result<Option<BlobId>, ObjectError> {
        self.hash_to(offset).await?;
        self.track().position = offset;
        let failed = |source| ObjectError::File { path: self.file.path.clone(), source };
        let mut file = tokio::fs::File::open(&self.file.path).await.map_err(failed)?;
        file.seek(std::io::SeekFrom::Start(offset)).await.map_err(failed)?;
        let rest = self.file.size - offset;
        let track = Arc::clone(&self.track);
        let steps = ReaderStream::with_capacity(file.take(rest), STEP).inspect(move |step| {
            if let Ok(bytes) = step {
                track.lock().unwrap_or_else(PoisonError::into_inner).take(bytes);
            }
        });
        let request = self.wire.request(Method::PATCH, place).header(TUS.0, TUS.1);
        let request = request
            .header(CONTENT_TYPE, "application/offset+octet-stream")
            .header(CONTENT_LENGTH, rest)
            .header("upload-offset", offset)
            .body(Body::wrap_stream(steps));
        let api = self.wire.api.clone();
        let answer = self.watch(api.transmit(request)).await?;
        let answer = self.wire.good(answer).await?;
        Ok(self.standing_of(answer.headers())?.blob)
    }

    /// Waits for an answer as long as something moves, and tells how far it is.
    async fn watch(
        &mut self,
        sending: impl Future<Output = Result<Response, Error>>,
    ) -> Result<Response, Error> {
        tokio::pin!(sending);
        let (mut last, mut since) = (u64::MAX, tokio::time::Instant::now());
        loop {
            tokio::select! {
                answer = &mut sending => return answer,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let position = self.track().position;
            if position != last {
                (last, since) = (position, tokio::time::Instant::now());
                (self.progress)(position, self.file.size);
            } else if since.elapsed() > STALL_MAX {
                return Err(self.wire.api.unreachable("it takes no more data"));
            }
        }
    }

    /// Hashes the file up to there, if that was not done.
    async fn hash_to(&mut self, end: u64) -> Result<(), ObjectError> {
        let hashed = self.track().hasher.size();
        if hashed >= end {
            return Ok(());
        }
        let failed = |source| ObjectError::File { path: self.file.path.clone(), source };
        let mut file = tokio::fs::File::open(&self.file.path).await.map_err(failed)?;
        file.seek(std::io::SeekFrom::Start(hashed)).await.map_err(failed)?;
        let mut steps = ReaderStream::with_capacity(file.take(end - hashed), STEP);
        while let Some(step) = steps.next().await {
            self.track().hasher.update(&step.map_err(failed)?);
        }
        Ok(())
    }

    fn track(&self) -> std::sync::MutexGuard<'_, Track> {
        self.track.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Track {
    /// Notes bytes that are being sent; those that are sent again are not hashed again.
    fn take(&mut self, bytes: &Bytes) {
        let known = self.hasher.size().saturating_sub(self.position);
        if let Some(new) = usize::try_from(known).ok().and_then(|known| bytes.get(known..)) {
            self.hasher.update(new);
        }
        self.position += bytes.len() as u64;
    }
}

/// Refusals after which the offset is asked for again: the piece before is still being received, or was cut.
fn may_go_on(error: Error) -> Error {
    const AGAIN: [&str; 5] =
        ["upload_busy", "wrong_offset", "upload_ended", "body_broken", "body_timeout"];
    match error {
        Error::Refused { code, message, field, status, .. } if AGAIN.contains(&code.as_str()) => {
            Error::Refused { code, message, field, status, retry_after: Some(Duration::ZERO) }
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_sent_again_are_hashed_once() {
        let mut track = Track::default();
        for (position, bytes) in [(0, "abc"), (1, "bcd"), (0, "ab"), (2, "cdef"), (6, "g")] {
            track.position = position;
            track.take(&Bytes::from_static(bytes.as_bytes()));
        }
        assert_eq!(track.hasher.blob(), Blob { id: BlobId::of(b"abcdefg"), size: 7 });
        assert_eq!(track.position, 7);
    }
}
