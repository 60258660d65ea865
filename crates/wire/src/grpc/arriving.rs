//! Messages that still arrive: how much memory they may take together, and how long each may take.
//!
//! A message is kept until its last byte is here, so many that are sent slowly would fill the memory, whatever is done
//! with them then. A large one gets its room when its length is known, all at once: if each took some as it grows, all
//! could wait for each other. It keeps the room until the next one is asked for, which is after it was read.
//!
//! Reads the five bytes before every message, and nothing of the message.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Error;
use axum::body::Body;
use bytes::Bytes;
use divvy_types::limits::MESSAGE_BYTES_MAX;
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::PollSemaphore;
use tonic::Status;

/// Bytes of all large messages together that arrive or are being read.
const ROOM_BYTES: usize = 256 << 20;
/// Bytes of a message that is not large, and what room is counted in.
const PIECE_BYTES: usize = 256 << 10;
/// How long a large message may take, the wait for room included.
const WITHIN: Duration = Duration::from_secs(60);

/// Room for the messages of all callers.
pub(crate) fn room() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(ROOM_BYTES / PIECE_BYTES))
}

/// A body whose large messages wait for room.
pub(crate) struct Arriving {
    body: Body,
    room: PollSemaphore,
    framing: Framing,
    /// What came and waits for the room of the message that begins in it.
    held: Option<(Frame<Bytes>, u32)>,
    share: Option<OwnedSemaphorePermit>,
    until: Option<Pin<Box<Sleep>>>,
}

impl Arriving {
    pub(crate) fn new(body: Body, room: Arc<Semaphore>) -> Self {
        let room = PollSemaphore::new(room);
        let framing = Framing::default();
        Self { body, room, framing, held: None, share: None, until: None }
    }

    /// Gives what is held on, once there is room for it.
    fn poll_held(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Some((_, pieces)) = &self.held
            && *pieces > 0
            && self.share.is_none()
        {
            self.share = ready!(self.room.poll_acquire_many(cx, *pieces));
        }
        Poll::Ready(self.held.take().map(|(frame, _)| Ok(frame)))
    }
}

impl hyper::body::Body for Arriving {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        if let Some(until) = &mut this.until
            && until.as_mut().poll(cx).is_ready()
        {
            (this.share, this.held) = (None, None);
            let problem = format!("the message did not arrive within {} seconds", WITHIN.as_secs());
            return Poll::Ready(Some(Err(Error::new(Status::deadline_exceeded(problem)))));
        }
        if this.held.is_some() {
            return this.poll_held(cx);
        }
        if this.framing.left == 0 {
            // Whoever asks for more has read what came before.
            (this.share, this.until) = (None, None);
        }
        let frame = match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            // A proxy that loses its caller cancels the call, which tonic would take for its regular end.
            Some(Err(error)) => {
                let broken = Status::unavailable(format!("the stream broke: {error}"));
                return Poll::Ready(Some(Err(Error::new(broken))));
            }
            None => return Poll::Ready(None),
        };
        let large = frame.data_ref().and_then(|data| this.framing.take(data));
        if large.is_some() {
            (this.share, this.until) = (None, Some(Box::pin(sleep(WITHIN))));
        }
        this.held = Some((frame, large.map_or(0, pieces)));
        if large.is_some() {
            // It must be polled once, to be woken by it.
            cx.waker().wake_by_ref();
        }
        this.poll_held(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn pieces(bytes: usize) -> u32 {
    u32::try_from(bytes.min(MESSAGE_BYTES_MAX).div_ceil(PIECE_BYTES)).unwrap_or(u32::MAX)
}

/// Where one message ends and the next begins.
#[derive(Default)]
struct Framing {
    head: [u8; 5],
    head_len: usize,
    /// Bytes of the present message that have not come.
    left: usize,
}

impl Framing {
    /// Goes on; gives the length of a large message that begins here and ends later.
    fn take(&mut self, mut data: &[u8]) -> Option<usize> {
        let mut large = None;
        while let Some((byte, rest)) = data.split_first() {
            if self.left > 0 {
                let taken = self.left.min(data.len());
                self.left -= taken;
                data = &data[taken..];
                continue;
            }
            self.head[self.head_len] = *byte;
            self.head_len += 1;
            data = rest;
            if self.head_len == self.head.len() {
                let [_, length @ ..] = self.head;
                self.left = u32::from_be_bytes(length) as usize;
                self.head_len = 0;
                large = (self.left > PIECE_BYTES).then_some(self.left);
            }
        }
        large.filter(|_| self.left > 0)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use futures_util::stream;
    use http_body_util::BodyExt as _;

    use super::*;

    fn head(length: u32) -> Vec<u8> {
        [&[0][..], &length.to_be_bytes()].concat()
    }

    fn body(frames: Vec<Vec<u8>>, room: &Arc<Semaphore>) -> Arriving {
        let frames = frames.into_iter().map(Ok::<_, std::io::Error>);
        Arriving::new(Body::from_stream(stream::iter(frames)), Arc::clone(room))
    }

    #[tokio::test]
    async fn a_large_message_holds_its_room_until_the_next_is_asked_for() {
        let room = Arc::new(Semaphore::new(4));
        let large = 4 * PIECE_BYTES;
        let frames = || {
            let small = [head(3), vec![7; 3]].concat();
            let begin = [small.clone(), head(large as u32), vec![7; large - 10]].concat();
            vec![small.clone(), begin, vec![7; 10], small]
        };
        let mut first = body(frames(), &room);
        let mut second = body(frames(), &room);
        assert!(first.frame().await.is_some() && second.frame().await.is_some());
        assert_eq!(room.available_permits(), 4, "small messages need no room");
        assert!(first.frame().await.is_some());
        assert_eq!(room.available_permits(), 0);
        assert!(second.frame().now_or_never().is_none(), "it waits for room");
        assert!(first.frame().await.is_some(), "its end");
        assert!(second.frame().now_or_never().is_none(), "it may still be read");
        assert!(first.frame().await.is_some());
        assert!(second.frame().await.is_some());
        assert_eq!(room.available_permits(), 0);
        drop(second);
        assert_eq!(room.available_permits(), 4);
        assert!(first.frame().await.is_none());
    }

    #[test]
    fn messages_are_told_apart_however_they_are_cut() {
        let large = PIECE_BYTES as u32 + 1;
        let bytes = [head(2), vec![1, 2], head(0), head(large), vec![9; large as usize]].concat();
        for step in [1, 3, 5, 7, 1_000] {
            let mut framing = Framing::default();
            let found: Vec<usize> =
                bytes.chunks(step).filter_map(|part| framing.take(part)).collect();
            assert_eq!((found, framing.left), (vec![large as usize], 0), "{step}");
        }
        assert_eq!(Framing::default().take(&bytes), None, "it ends here as well");
    }
}
