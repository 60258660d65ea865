//! Bodies that go to the disk as they arrive: a piece is written while the next one is read, and never more than two
//! are in memory. A sender that is faster than the disk is slowed down by its own connection.
//!
//! A body that breaks off is not an error here: what came before is written, and the caller decides what it is worth.

use std::time::Duration;

use axum::body::Body;
use divvy_engine::Error as EngineError;
use divvy_http::ApiError;
use divvy_objects::{Appending, Error};
use http::StatusCode;
use http_body_util::BodyExt as _;
use tokio_util::sync::CancellationToken;

use crate::objects::on_thread;

/// Bytes that are written at once.
const PIECE_BYTES: usize = 1 << 20;
/// How long a sender may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(60);

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
    let mut piece = next_piece(&mut body, shutdown).await;
    loop {
        let Piece { bytes, end } = piece;
        let written = on_thread(move || {
            sink.take(&bytes)?;
            Ok(sink)
        });
        match end {
            Some(end) => return Ok((written.await?, end)),
            None => {
                let (taken, next) = tokio::join!(written, next_piece(&mut body, shutdown));
                (sink, piece) = (taken?, next);
            }
        }
    }
}

async fn next_piece(body: &mut Body, shutdown: &CancellationToken) -> Piece {
    let mut bytes = Vec::new();
    let end = loop {
        let frame = tokio::select! {
            () = shutdown.cancelled() => break Err(ApiError::from(EngineError::Stopping)),
            frame = tokio::time::timeout(SILENCE_MAX, body.frame()) => frame,
        };
        match frame {
            Err(_) => break Err(silent()),
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

fn silent() -> ApiError {
    let message = format!("no data came for {} seconds; go on from here", SILENCE_MAX.as_secs());
    ApiError::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", message)
}
