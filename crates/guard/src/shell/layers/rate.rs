//! A rate limit in front of a service.
//!
//! The service is ready when it has a token and the inner service is ready. The token is taken first, so that no place
//! of the inner service is held while waiting for the limit. A caller that would wait longer than is set is let
//! through to `call` and refused there, without reaching the inner service. Clones share the limit, in no order; a
//! ready service that is dropped without a call has used its token.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tower_layer::Layer;
use tower_service::Service;

use crate::rate::{Limiter, Refused};
use crate::shell::clock::{Clock, RuntimeClock};

/// Why a service behind a rate limit gave no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateError<E> {
    /// The limit is reached.
    Refused(Refused),
    /// The service failed.
    Inner(E),
}

impl<E: fmt::Display> fmt::Display for RateError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refused) => refused.fmt(f),
            Self::Inner(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for RateError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Refused(refused) => Some(refused),
            Self::Inner(error) => error.source(),
        }
    }
}

/// Puts a rate limit in front of a service; all services of one layer share it.
#[derive(Clone, Debug)]
pub struct RateLayer<C = RuntimeClock> {
    limiter: Arc<Limiter>,
    clock: C,
    wait_max: Duration,
}

impl RateLayer {
    /// Callers wait for their turn.
    pub fn new(limiter: impl Into<Arc<Limiter>>) -> Self {
        Self::with_clock(limiter, RuntimeClock::default())
    }
}

impl<C> RateLayer<C> {
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

impl<S, C: Clone> Layer<S> for RateLayer<C> {
    type Service = Paced<S, C>;

    fn layer(&self, inner: S) -> Self::Service {
        Paced { inner, layer: self.clone(), turn: Turn::Ask }
    }
}

/// A service behind a rate limit.
#[derive(Debug)]
pub struct Paced<S, C = RuntimeClock> {
    inner: S,
    layer: RateLayer<C>,
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

impl<S: Clone, C: Clone> Clone for Paced<S, C> {
    /// The clone has to become ready by itself.
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone(), turn: Turn::Ask }
    }
}

impl<C: Clock> RateLayer<C> {
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

impl<S: Service<R>, R, C: Clock> Service<R> for Paced<S, C> {
    type Response = S::Response;
    type Error = RateError<S::Error>;
    type Future = PacedFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        loop {
            self.turn = match &mut self.turn {
                Turn::Ask => self.layer.ask(self.layer.clock.now()),
                Turn::Wait { since, timer } => {
                    ready!(timer.as_mut().poll(context));
                    self.layer.ask(*since)
                }
                Turn::HasToken => {
                    ready!(self.inner.poll_ready(context)).map_err(RateError::Inner)?;
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
        PacedFuture { step }
    }
}

pin_project! {
    /// A call behind a rate limit.
    #[derive(Debug)]
    pub struct PacedFuture<Call> {
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

impl<Call: Future<Output = Result<T, E>>, T, E> Future for PacedFuture<Call> {
    type Output = Result<T, RateError<E>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().step.project() {
            StepProjection::Called { call } => call.poll(context).map_err(RateError::Inner),
            StepProjection::Refused { refused } => Poll::Ready(Err(RateError::Refused(*refused))),
        }
    }
}
