//! Bodies of other libraries as bodies of requests and answers.

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use reqwest::Body;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body that may be shared between threads, which those of axum and tonic may not: nobody does, but reqwest asks.
struct Shared(Mutex<UnsyncBoxBody<Bytes, BoxError>>);

/// Any body of bytes, as reqwest wants it.
pub(crate) fn wrap<B>(body: B) -> Body
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    Body::wrap(Shared(Mutex::new(body.map_err(Into::into).boxed_unsync())))
}

impl HttpBody for Shared {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let body = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        Pin::new(body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).size_hint()
    }
}
