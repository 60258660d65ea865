//! Deadlines handed on through a service.
//!
//! Two layers. [`AcceptLayer`] stands in front of a service: it reads the time left from a request, refuses what has
//! expired or cannot be read, and runs the rest in a scope ([`crate::shell::deadline`]). [`ForwardLayer`] stands in
//! front of a client: it writes the time left of the present scope, less a reserve for the way back, into the request.
//! How a request carries the text is for a function to say, so that any kind of request will do.

use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::take_ready;
use crate::deadline::{DecodeError, decode_span, encode_span};
use crate::shell::deadline::{self, Expired};

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error<E> {
    /// The time is up, or was up before it began.
    #[error(transparent)]
    Expired(#[from] Expired),
    /// The time left that the request carries cannot be read.
    #[error(transparent)]
    Unreadable(DecodeError),
    /// It failed by itself.
    #[error(transparent)]
    Inner(E),
}

/// Reads the time left from each request.
#[derive(Clone, Debug)]
pub struct AcceptLayer<R> {
    read: R,
    span_max: Duration,
}

impl<R> AcceptLayer<R> {
    /// `read` gives the text that a request carries, if any. A request without one has `span_max`, and none has more.
    pub fn new<Request>(span_max: Duration, read: R) -> Self
    where
        R: for<'a> Fn(&'a Request) -> Option<&'a str>,
    {
        Self { read, span_max }
    }
}

impl<S, R: Clone> tower_layer::Layer<S> for AcceptLayer<R> {
    type Service = Accept<S, R>;

    fn layer(&self, inner: S) -> Self::Service {
        Accept { inner, read: self.read.clone(), span_max: self.span_max }
    }
}

/// A service that keeps to the deadlines of its callers.
#[derive(Clone, Debug)]
pub struct Accept<S, R> {
    inner: S,
    read: R,
    span_max: Duration,
}

impl<S, R, Request> tower_service::Service<Request> for Accept<S, R>
where
    S: tower_service::Service<Request> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    S::Response: Send,
    R: for<'a> Fn(&'a Request) -> Option<&'a str>,
    Request: Send + 'static,
{
    type Response = S::Response;
    type Error = Error<S::Error>;
    type Future = BoxFuture<'static, Result<S::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Error::Inner)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let span = (self.read)(&request).map_or(Ok(self.span_max), decode_span);
        let span = span.map(|span| span.min(self.span_max));
        let mut inner = take_ready(&mut self.inner);
        Box::pin(async move {
            let span = span.map_err(Error::Unreadable)?;
            // The request is handed over inside of the scope, so that layers further in see the deadline at once.
            deadline::scope(span, async move { inner.call(request).await })
                .await?
                .map_err(Error::Inner)
        })
    }
}

/// Writes the time left into each request.
#[derive(Clone, Debug)]
pub struct ForwardLayer<W> {
    write: W,
    reserve: Duration,
}

impl<W> ForwardLayer<W> {
    /// `write` puts a text into a request. The other side is told `reserve` less than is left.
    pub fn new<Request>(reserve: Duration, write: W) -> Self
    where
        W: Fn(&mut Request, String),
    {
        Self { write, reserve }
    }
}

impl<S, W: Clone> tower_layer::Layer<S> for ForwardLayer<W> {
    type Service = Forward<S, W>;

    fn layer(&self, inner: S) -> Self::Service {
        Forward { inner, write: self.write.clone(), reserve: self.reserve }
    }
}

/// A client that tells the other side how much time is left.
#[derive(Clone, Debug)]
pub struct Forward<S, W> {
    inner: S,
    write: W,
    reserve: Duration,
}

impl<S, W, Request> tower_service::Service<Request> for Forward<S, W>
where
    S: tower_service::Service<Request>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    S::Response: Send + 'static,
    W: Fn(&mut Request, String),
{
    type Response = S::Response;
    type Error = Error<S::Error>;
    type Future = BoxFuture<'static, Result<S::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Error::Inner)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let left = deadline::left().map(|left| left.saturating_sub(self.reserve));
        if left.is_some_and(|left| left.is_zero()) {
            return Box::pin(async { Err(Error::Expired(Expired)) });
        }
        if let Some(left) = left {
            (self.write)(&mut request, encode_span(left));
        }
        let answer = self.inner.call(request);
        Box::pin(async move { answer.await.map_err(Error::Inner) })
    }
}
