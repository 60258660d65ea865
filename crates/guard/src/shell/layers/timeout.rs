//! A learned timeout around a service.
//!
//! One tracker for all clones. The inner future is dropped when the time is up. What is learned from is said in
//! [`crate::shell::timeout`].

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::shell::timeout::{Error, Wait};
use crate::timeout::SharedTracker;

/// Bounds every request by what the tracker suggests.
#[derive(Clone, Debug)]
pub struct Layer {
    tracker: Arc<SharedTracker>,
}

impl Layer {
    /// A layer with a tracker, which others may share.
    pub fn new(tracker: Arc<SharedTracker>) -> Self {
        Self { tracker }
    }
}

impl<S> tower_layer::Layer<S> for Layer {
    type Service = Service<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Service { inner, tracker: Arc::clone(&self.tracker) }
    }
}

/// A service with a learned timeout.
#[derive(Clone, Debug)]
pub struct Service<S> {
    inner: S,
    tracker: Arc<SharedTracker>,
}

impl<S, Request> tower_service::Service<Request> for Service<S>
where
    S: tower_service::Service<Request>,
{
    type Response = S::Response;
    type Error = Error<S::Error>;
    type Future = Answer<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Error::Inner)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let wait = Wait::begin(&self.tracker);
        Answer {
            inner: self.inner.call(request),
            time_up: tokio::time::sleep(wait.limit),
            wait,
            tracker: Arc::clone(&self.tracker),
        }
    }
}

pin_project_lite::pin_project! {
    /// The answer, or the end of the time.
    #[derive(Debug)]
    pub struct Answer<F> {
        #[pin]
        inner: F,
        #[pin]
        time_up: tokio::time::Sleep,
        wait: Wait,
        tracker: Arc<SharedTracker>,
    }
}

impl<F, T, E> Future for Answer<F>
where
    F: Future<Output = Result<T, E>>,
{
    type Output = Result<T, Error<E>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(answer) = this.inner.poll(context) {
            return Poll::Ready(this.wait.answered(this.tracker, answer));
        }
        this.time_up.poll(context).map(|()| Err(this.wait.in_vain(this.tracker)))
    }
}
