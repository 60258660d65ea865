//! Shedding by priority in front of a service.
//!
//! The layer holds the queue as well, because shedding goes by its age: requests wait in their response futures, and
//! the least important are turned away when waits grow long. The service must be `Clone`, since the ready one goes
//! with the request.

use std::task::{Context, Poll};

use futures_util::future::BoxFuture;

use super::take_ready;
use crate::shed::Priority;
use crate::shell::shed::{Entrance, Refused};

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Error<E> {
    /// It was turned away, or there was no place for it.
    #[error(transparent)]
    Refused(Refused),
    /// It failed by itself.
    #[error(transparent)]
    Inner(E),
}

/// Lets requests in by priority, which a function reads from the request.
#[derive(Clone, Debug)]
pub struct Layer<P> {
    entrance: Entrance,
    priority: P,
}

impl<P> Layer<P> {
    /// A layer with an entrance, which others may share.
    pub fn new(entrance: Entrance, priority: P) -> Self {
        Self { entrance, priority }
    }
}

impl<S, P: Clone> tower_layer::Layer<S> for Layer<P> {
    type Service = Service<S, P>;

    fn layer(&self, inner: S) -> Self::Service {
        Service { inner, entrance: self.entrance.clone(), priority: self.priority.clone() }
    }
}

/// A service that turns the least important requests away when there are too many.
#[derive(Clone, Debug)]
pub struct Service<S, P> {
    inner: S,
    entrance: Entrance,
    priority: P,
}

impl<S, P, Request> tower_service::Service<Request> for Service<S, P>
where
    S: tower_service::Service<Request> + Clone + Send + 'static,
    S::Future: Send,
    P: Fn(&Request) -> Priority,
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
        let entrance = self.entrance.clone();
        let priority = (self.priority)(&request);
        Box::pin(async move {
            let _entered = entrance.enter(priority).await.map_err(Error::Refused)?;
            inner.call(request).await.map_err(Error::Inner)
        })
    }
}
