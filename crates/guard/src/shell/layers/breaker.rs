//! A breaker around a service.
//!
//! The service is ready when the inner one is, or when the breaker refuses: a call that will be refused need not wait
//! for a service that hangs. Such a call is answered at once with [`CallError::Open`] and never reaches the inner
//! service. The permit is taken when the call is made, not when the service says that it is ready, so a caller that
//! polls and goes away holds nothing.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};

use crate::breaker::{Breaker, Outcome};
use crate::shell::breaker::{CallError, Circuit, Running, blame_errors};
use crate::shell::clock::{Clock, RuntimeClock};

/// Says what each result of a service says about it.
pub type Classify<T, E> = fn(&Result<T, E>) -> Outcome;

/// Puts a breaker around a service; all services of one layer share it.
#[derive(Clone, Debug)]
pub struct Layer<F, C = RuntimeClock> {
    circuit: Circuit<C>,
    classify: F,
}

impl<T, E> Layer<Classify<T, E>> {
    /// Every error is a failure.
    pub fn new(breaker: impl Into<Arc<Breaker>>) -> Self {
        Self::with_circuit(Circuit::new(breaker), blame_errors)
    }
}

impl<F, C> Layer<F, C> {
    /// `classify` says what each result says about the service, such as a response with status 503.
    pub fn with_circuit(circuit: Circuit<C>, classify: F) -> Self {
        Self { circuit, classify }
    }
}

impl<S, F: Clone, C: Clone> tower_layer::Layer<S> for Layer<F, C> {
    type Service = Service<S, F, C>;

    fn layer(&self, inner: S) -> Self::Service {
        Service {
            inner,
            circuit: self.circuit.clone(),
            classify: self.classify.clone(),
            is_inner_ready: false,
        }
    }
}

/// A service behind a breaker.
#[derive(Debug)]
pub struct Service<S, F, C = RuntimeClock> {
    inner: S,
    circuit: Circuit<C>,
    classify: F,
    is_inner_ready: bool,
}

impl<S: Clone, F: Clone, C: Clone> Clone for Service<S, F, C> {
    /// The clone has to become ready by itself.
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            circuit: self.circuit.clone(),
            classify: self.classify.clone(),
            is_inner_ready: false,
        }
    }
}

impl<S, R, F, C> tower_service::Service<R> for Service<S, F, C>
where
    S: tower_service::Service<R>,
    F: Fn(&Result<S::Response, S::Error>) -> Outcome + Clone,
    C: Clock + Clone,
{
    type Response = S::Response;
    type Error = CallError<S::Error>;
    type Future = Answer<S::Future, F, C>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        if !self.is_inner_ready && self.circuit.breaker().check(self.circuit.now()).is_ok() {
            ready!(self.inner.poll_ready(context)).map_err(CallError::Inner)?;
            self.is_inner_ready = true;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        let admitted = self.circuit.admit_owned();
        let step = match admitted {
            // What the inner service reserved when it became ready is kept for the next call.
            Err(rejected) => Step::Refused { retry_after: rejected.retry_after },
            // The breaker refused when it was asked whether it is ready, and closed since.
            Ok(_) if !self.is_inner_ready => Step::Refused { retry_after: Some(Duration::ZERO) },
            Ok(running) => {
                self.is_inner_ready = false;
                Step::Running {
                    limit: running.time_limit().map(sleep),
                    call: self.inner.call(request),
                    running: Some(running),
                    classify: self.classify.clone(),
                }
            }
        };
        Answer { step }
    }
}

pin_project! {
    /// A call under a breaker.
    pub struct Answer<Call, F, C: Clock> {
        #[pin]
        step: Step<Call, F, C>,
    }
}

pin_project! {
    #[project = StepProjection]
    enum Step<Call, F, C: Clock> {
        Running {
            #[pin]
            call: Call,
            #[pin]
            limit: Option<Sleep>,
            running: Option<Running<Arc<Breaker>, C>>,
            classify: F,
        },
        Refused {
            retry_after: Option<Duration>,
        },
    }
}

impl<Call, T, E, F, C> Future for Answer<Call, F, C>
where
    Call: Future<Output = Result<T, E>>,
    F: Fn(&Result<T, E>) -> Outcome,
    C: Clock,
{
    type Output = Result<T, CallError<E>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().step.project() {
            StepProjection::Refused { retry_after } => {
                Poll::Ready(Err(CallError::Open { retry_after: *retry_after }))
            }
            StepProjection::Running { call, limit, running, classify } => {
                let end = |running: &mut Option<Running<_, _>>, outcome| {
                    if let Some(running) = running.take() {
                        running.end(outcome);
                    }
                };
                if let Poll::Ready(result) = call.poll(context) {
                    end(running, classify(&result));
                    return Poll::Ready(result.map_err(CallError::Inner));
                }
                let Some(limit) = limit.as_pin_mut() else { return Poll::Pending };
                ready!(limit.poll(context));
                end(running, Outcome::Failure);
                Poll::Ready(Err(CallError::ProbeTimeout))
            }
        }
    }
}
