//! Reads the bytes of a body as they travel: so many, in such a time, at such a speed. Does not decode them.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::{Instant, sleep_until};

use super::Limits;
use super::session::Connection;
use super::speed::Speed;

/// What travelled.
#[derive(Debug, Default)]
pub(super) struct Wire {
    pub(super) pieces: Vec<Bytes>,
    pub(super) bytes: usize,
    /// There was more than there was room for.
    pub(super) is_cut: bool,
}

/// Why a body could not be read to its end.
#[derive(Debug)]
pub(super) enum Unread {
    Broken(hyper::Error),
    Late,
    TooSlow,
}

/// Reads a body until its end, or until there is no more room.
pub(super) async fn read(
    connection: &mut Connection,
    mut incoming: Incoming,
    room: usize,
    deadline: Instant,
    limits: &Limits,
) -> Result<Wire, Unread> {
    let mut wire = Wire::default();
    let mut speed = Speed::new(limits.slow_window, limits.slow_bytes_min);
    let mut alarm = std::pin::pin!(sleep_until(deadline.min(Instant::now() + speed.tick_length())));
    loop {
        let frame = tokio::select! {
            biased;
            frame = connection.drive(incoming.frame()) => frame,
            () = &mut alarm => {
                let now = Instant::now();
                if now >= deadline {
                    return Err(Unread::Late);
                }
                if !speed.tick() {
                    return Err(Unread::TooSlow);
                }
                alarm.as_mut().reset(deadline.min(now + speed.tick_length()));
                continue;
            }
        };
        let Some(frame) = frame else { return Ok(wire) };
        // Trailers say nothing that is needed.
        let Ok(piece) = frame.map_err(Unread::Broken)?.into_data() else { continue };
        speed.add(piece.len());
        wire.add(piece, room);
        if wire.is_cut {
            return Ok(wire);
        }
    }
}

impl Wire {
    fn add(&mut self, mut piece: Bytes, room: usize) {
        let left = room - self.bytes;
        if piece.len() > left {
            self.is_cut = true;
            piece.truncate(left);
        }
        self.bytes += piece.len();
        self.pieces.push(piece);
    }
}
