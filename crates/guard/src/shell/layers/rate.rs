//! A rate limit in front of a service.
//!
//! The service is ready when it has a token and the inner service is ready. The token is taken first, so that no place
//! of the inner service is held while waiting for the limit. A caller that would wait longer than is set is let
//! through to `call` and refused there, without reaching the inner service. Clones share the limit, in no order; a
//! ready service that is dropped without a call has used its token.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};

use crate::rate::{Limiter, Refused};
use crate::shell::clock::{Clock, RuntimeClock};

/// Why a service behind a rate limit gave no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error<E> {
    /// The limit is reached.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The service failed.
    #[error(transparent)]
    Inner(E),
}

/// Puts a rate limit in front of a service; all services of one layer share it.
#[derive(Clone, Debug)]
pub struct Layer<C = RuntimeClock> {
    limiter: Arc<Limiter>,
    clock: C,
    wait_max: Duration,
}

impl Layer {
    /// Callers wait for their turn.
    pub fn new(limiter: impl Into<Arc<Limiter>>) -> Self {
        Self::with_clock(limiter, RuntimeClock::default())
    }
}

impl<C> Layer<C> {
    /// On this clock.
    pub fn with_clock(limiter: impl Into<Arc<Limiter>>, clock: C) -> Self {
        Self { limiter: limiter.into(), clock, wait_max: Duration::MAX }
    }

    /// Callers that would wait longer are refused; zero refuses at once.
    #[must_use]
    pub fn wait_at_most(self, wait_max: Duration) -> Self {
        Self { wait_max, ..self }
    }
}

impl<S, C: Clone> tower_layer::Layer<S> for Layer<C> {
    type Service = Service<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        Service { inner, layer: self.clone(), turn: Turn::Ask }
    }
}

/// A service behind a rate limit.
#[derive(Debug)]
pub struct Service<S, C = RuntimeClock> {
    inner: S,
    layer: Layer<C>,
    turn: Turn,
}

/// How far a service has come on the way to its next call.
#[derive(Debug)]
enum Turn {
    Ask,
    Wait { since: Duration, timer: Pin<Box<Sleep>> },
    HasToken,
    Ready,
    Refused(Refused),
}

impl<S: Clone, C: Clone> Clone for Service<S, C> {
    /// The clone has to become ready by itself.
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone(), turn: Turn::Ask }
    }
}

impl<C: Clock> Layer<C> {
    /// Asks the limiter, on behalf of a caller that has waited since then.
    fn ask(&self, since: Duration) -> Turn {
        let now = self.clock.now();
        match self.limiter.check(now) {
            Ok(()) => Turn::HasToken,
            Err(Refused::Wait(wait)) if now.saturating_sub(since) + wait <= self.wait_max => {
                Turn::Wait { since, timer: Box::pin(sleep(wait)) }
            }
            Err(refused) => Turn::Refused(refused),
        }
    }
}

impl<S: tower_service::Service<R>, R, C: Clock> tower_service::Service<R> for Service<S, C> {
    type Response = S::Response;
    type Error = Error<S::Error>;
    type Future = Answer<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        loop {
            self.turn = match &mut self.turn {
                Turn::Ask => self.layer.ask(self.layer.clock.now()),
                Turn::Wait { since, timer } => {
                    ready!(timer.as_mut().poll(context));
                    self.layer.ask(*since)
                }
                Turn::HasToken => {
                    ready!(self.inner.poll_ready(context)).map_err(Error::Inner)?;
                    Turn::Ready
                }
                Turn::Ready | Turn::Refused(_) => return Poll::Ready(Ok(())),
            };
        }
    }

    fn call(&mut self, request: R) -> Self::Future {
        let step = match std::mem::replace(&mut self.turn, Turn::Ask) {
            Turn::Ready => Step::Called { call: self.inner.call(request) },
            Turn::Refused(refused) => Step::Refused { refused },
            Turn::Ask | Turn::Wait { .. } | Turn::HasToken => {
                panic!("poll_ready must say that the service is ready before it is called")
            }
        };
        Answer { step }
    }
}

pin_project! {
    /// A call behind a rate limit.
    #[derive(Debug)]
    pub struct Answer<Call> {
        #[pin]
        step: Step<Call>,
    }
}

pin_project! {
    #[project = StepProjection]
    #[derive(Debug)]
    enum Step<Call> {
        Called {
            #[pin]
            call: Call,
        },
        Refused {
            refused: Refused,
        },
    }
}

impl<Call: Future<Output = Result<T, E>>, T, E> Future for Answer<Call> {
    type Output = Result<T, Error<E>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().step.project() {
            StepProjection::Called { call } => call.poll(context).map_err(Error::Inner),
            StepProjection::Refused { refused } => Poll::Ready(Err(Error::Refused(*refused))),
        }
    }
}
