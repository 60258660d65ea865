//! Bodies that go to the disk as they arrive: a piece is written while the next one is read, and never more than two
//! are in memory. A sender that is faster than the disk is slowed down by its own connection.
//!
//! A body that breaks off is not an error here: what came before is written, and the caller decides what it is worth.
//! So does one that comes too slowly: places are few, and whoever sends a byte now and then must not hold one for ever.
//! Only the time counts for which the sender lets us wait, not that in which the disk does.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use divvy_engine::Error as EngineError;
use divvy_http::ApiError;
use divvy_objects::{Appending, Error};
use http::StatusCode;
use http_body_util::BodyExt as _;
use hyper::body::Frame;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::objects::on_thread;

/// Bytes that are written at once.
const PIECE_BYTES: usize = 1 << 20;
/// How much a sender must send while it is waited for so long: 4 KiB a second.
const PACE: Pace = Pace::new(Duration::from_secs(30), 120 << 10);

/// What takes a body piece by piece.
pub(crate) trait Sink: Send + 'static {
    /// Takes the next bytes.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Error>;
}

impl Sink for Appending {
    fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.write(bytes)
    }
}

/// A part of a body, and how the body ended if this is its last.
struct Piece {
    bytes: Vec<u8>,
    end: Option<Result<(), ApiError>>,
}

/// Receives a body. Gives back who took it, and how the body ended.
///
/// # Errors
/// If it could not be written.
pub(crate) async fn receive<S: Sink>(
    mut sink: S,
    mut body: Body,
    shutdown: &CancellationToken,
) -> Result<(S, Result<(), ApiError>), ApiError> {
    let mut pace = PACE;
    let mut piece = next_piece(&mut body, &mut pace, shutdown).await;
    loop {
        let Piece { bytes, end } = piece;
        let written = on_thread(move || {
            sink.take(&bytes)?;
            Ok(sink)
        });
        match end {
            Some(end) => return Ok((written.await?, end)),
            None => {
                let (taken, next) =
                    tokio::join!(written, next_piece(&mut body, &mut pace, shutdown));
                (sink, piece) = (taken?, next);
            }
        }
    }
}

/// Reads a body of at most so many bytes to its end without keeping it, or until it comes too slowly.
pub(crate) async fn discard(mut body: Body, bytes_max: u64) {
    let (mut pace, mut seen) = (PACE, 0);
    while let Ok(Some(Ok(frame))) = pace.frame(&mut body).await {
        seen += frame.data_ref().map_or(0, |data| data.len() as u64);
        if seen > bytes_max {
            return;
        }
    }
}

async fn next_piece(body: &mut Body, pace: &mut Pace, shutdown: &CancellationToken) -> Piece {
    let mut bytes = Vec::new();
    let end = loop {
        let frame = tokio::select! {
            () = shutdown.cancelled() => break Err(ApiError::from(EngineError::Stopping)),
            frame = pace.frame(body) => frame,
        };
        match frame {
            Err(error) => break Err(error),
            Ok(None) => break Ok(()),
            Ok(Some(Err(error))) => {
                let message = format!("the body broke off: {error}");
                break Err(ApiError::new(StatusCode::BAD_REQUEST, "body_broken", message));
            }
            Ok(Some(Ok(frame))) => {
                let Ok(data) = frame.into_data() else { continue };
                bytes.extend_from_slice(&data);
                if bytes.len() >= PIECE_BYTES {
                    return Piece { bytes, end: None };
                }
            }
        }
    };
    Piece { bytes, end: Some(end) }
}

/// How fast a sender must be.
#[derive(Clone, Copy)]
struct Pace {
    window: Duration,
    bytes_min: usize,
    waited: Duration,
    bytes: usize,
}

impl Pace {
    const fn new(window: Duration, bytes_min: usize) -> Self {
        Self { window, bytes_min, waited: Duration::ZERO, bytes: 0 }
    }

    /// The next part of a body; refused if too little came while it was waited for.
    async fn frame(
        &mut self,
        body: &mut Body,
    ) -> Result<Option<Result<Frame<Bytes>, axum::Error>>, ApiError> {
        loop {
            let begun = Instant::now();
            let frame = timeout(self.window.saturating_sub(self.waited), body.frame()).await;
            self.waited += begun.elapsed();
            if let Ok(Some(Ok(frame))) = &frame {
                self.bytes += frame.data_ref().map_or(0, Bytes::len);
            }
            let is_over = self.waited >= self.window || frame.is_err();
            if is_over && self.bytes < self.bytes_min && !matches!(frame, Ok(None)) {
                return Err(self.too_slow());
            }
            if is_over {
                *self = Self::new(self.window, self.bytes_min);
            }
            if let Ok(frame) = frame {
                return Ok(frame);
            }
        }
    }

    fn too_slow(&self) -> ApiError {
        let message = format!(
            "only {} bytes came in {} seconds, at least {} must; go on from here",
            self.bytes,
            self.window.as_secs(),
            self.bytes_min
        );
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", message)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    /// A body of so many parts of ten bytes, each of which takes two milliseconds.
    fn dripping(parts: u32) -> Body {
        Body::from_stream(stream::unfold(0, move |sent| async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            (sent < parts).then(|| (Ok::<_, std::io::Error>(vec![b'x'; 10]), sent + 1))
        }))
    }

    async fn read(body: &mut Body, pace: &mut Pace) -> Result<usize, ApiError> {
        let mut bytes = 0;
        while let Some(frame) = pace.frame(body).await? {
            bytes += frame.unwrap().data_ref().unwrap().len();
        }
        Ok(bytes)
    }

    #[tokio::test]
    async fn a_sender_that_drips_is_not_waited_for() {
        let window = Duration::from_millis(30);
        let error = read(&mut dripping(u32::MAX), &mut Pace::new(window, 10_000)).await;
        let error = error.unwrap_err();
        assert_eq!((error.status().as_u16(), error.code()), (408, "body_timeout"));
        let silent = &mut Body::from_stream(stream::pending::<std::io::Result<Vec<u8>>>());
        assert!(read(silent, &mut Pace::new(window, 1)).await.is_err());
    }

    #[tokio::test]
    async fn a_sender_that_keeps_pace_is_heard_to_the_end() {
        let mut pace = Pace::new(Duration::from_millis(200), 1);
        assert_eq!(read(&mut dripping(200), &mut pace).await.unwrap(), 2_000);
        let mut short = Pace::new(Duration::ZERO, 1_000);
        assert_eq!(read(&mut Body::empty(), &mut short).await.unwrap(), 0, "an end is never late");
    }
}
