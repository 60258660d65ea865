//! Hedged requests to a service.
//!
//! A hedge is a clone of the request, sent through a clone of the service as soon as that is ready. Only for requests
//! that may be done twice.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;

use super::take_ready;
use crate::shell::hedge::Hedger;

/// Asks a second time when the first is slow.
#[derive(Clone, Debug)]
pub struct Layer {
    hedger: Arc<Hedger>,
}

impl Layer {
    /// A layer with a hedger, which others may share.
    pub fn new(hedger: Arc<Hedger>) -> Self {
        Self { hedger }
    }
}

impl<S> tower_layer::Layer<S> for Layer {
    type Service = Service<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Service { inner, hedger: Arc::clone(&self.hedger) }
    }
}

/// A service whose slow requests are hedged.
#[derive(Clone, Debug)]
pub struct Service<S> {
    inner: S,
    hedger: Arc<Hedger>,
}

impl<S, Request> tower_service::Service<Request> for Service<S>
where
    S: tower_service::Service<Request> + Clone + Send + 'static,
    S::Future: Send,
    S::Response: Send,
    S::Error: Send,
    Request: Clone + Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let spare = self.inner.clone();
        let mut ready = Some(take_ready(&mut self.inner));
        let hedger = Arc::clone(&self.hedger);
        Box::pin(async move {
            let ask = move |_attempt| {
                let first = ready.take();
                let (mut other, request) = (spare.clone(), request.clone());
                async move {
                    match first {
                        Some(mut first) => first.call(request).await,
                        None => {
                            poll_fn(|context| other.poll_ready(context)).await?;
                            other.call(request).await
                        }
                    }
                }
            };
            hedger.call(ask).await
        })
    }
}
