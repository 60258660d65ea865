//! A fixed limit around a service.
//!
//! A request waits for a place in its response future, not in `poll_ready`: so the queue is bounded and has a time
//! limit, and a request that is dropped leaves it. The service must be `Clone`, since the ready one goes with the
//! request.

use std::task::{Context, Poll};

use futures_util::future::BoxFuture;

use super::take_ready;
use crate::bulkhead::Full;
use crate::shell::bulkhead::Bulkhead;

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error<E> {
    /// There was no place for it.
    #[error(transparent)]
    Full(Full),
    /// It failed by itself.
    #[error(transparent)]
    Inner(E),
}

/// Lets so many requests in as there are places.
#[derive(Clone, Debug)]
pub struct Layer {
    bulkhead: Bulkhead,
}

impl Layer {
    /// A layer with a bulkhead, which others may share.
    pub fn new(bulkhead: Bulkhead) -> Self {
        Self { bulkhead }
    }
}

impl<S> tower_layer::Layer<S> for Layer {
    type Service = Service<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Service { inner, bulkhead: self.bulkhead.clone() }
    }
}

/// A service behind a bulkhead.
#[derive(Clone, Debug)]
pub struct Service<S> {
    inner: S,
    bulkhead: Bulkhead,
}

impl<S, Request> tower_service::Service<Request> for Service<S>
where
    S: tower_service::Service<Request> + Clone + Send + 'static,
    S::Future: Send,
    Request: Send + 'static,
{
    type Response = S::Response;
    type Error = Error<S::Error>;
    type Future = BoxFuture<'static, Result<S::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Error::Inner)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let mut inner = take_ready(&mut self.inner);
        let bulkhead = self.bulkhead.clone();
        Box::pin(async move {
            let _entered = bulkhead.enter().await.map_err(Error::Full)?;
            inner.call(request).await.map_err(Error::Inner)
        })
    }
}
