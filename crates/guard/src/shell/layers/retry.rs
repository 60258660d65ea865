//! Retries around a service.
//!
//! Requests and the service must be `Clone`: each try gets a request of its own, and retries go to a clone of the
//! service, which becomes ready by itself. The result of the last try is the result of the call, unchanged. A breaker
//! or a rate limit belongs inside of this layer; add it to the policy as a gate too, so that it is asked before the
//! wait.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};

use crate::retry::{Attempts, Decision, Policy, Verdict};
use crate::shell::clock::{Clock, RuntimeClock};
use crate::shell::retry::Retrier;

/// Puts retries around a service; all services of one layer share the policy.
#[derive(Clone, Debug)]
pub struct Layer<F, C = RuntimeClock> {
    retrier: Retrier<C>,
    classify: F,
}

impl<F> Layer<F> {
    /// `classify` gives the verdict on each result: [`Verdict::Stop`] for one to keep, good or bad.
    pub fn new(policy: impl Into<Arc<Policy>>, classify: F) -> Self {
        Self::with_retrier(Retrier::new(policy), classify)
    }
}

impl<F, C> Layer<F, C> {
    /// On the clock of this retrier.
    pub fn with_retrier(retrier: Retrier<C>, classify: F) -> Self {
        Self { retrier, classify }
    }
}

impl<S, F: Clone, C: Clone> tower_layer::Layer<S> for Layer<F, C> {
    type Service = Service<S, F, C>;

    fn layer(&self, inner: S) -> Self::Service {
        Service { inner, layer: self.clone() }
    }
}

/// A service whose calls are tried again.
#[derive(Clone, Debug)]
pub struct Service<S, F, C = RuntimeClock> {
    inner: S,
    layer: Layer<F, C>,
}

impl<S, R, F, C> tower_service::Service<R> for Service<S, F, C>
where
    S: tower_service::Service<R> + Clone,
    R: Clone,
    F: Fn(&Result<S::Response, S::Error>) -> Verdict + Clone,
    C: Clock + Clone,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Answer<S, R, F, C>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let layer = self.layer.clone();
        let attempts = layer.retrier.policy().begin(None, layer.retrier.clock().now());
        let again = request.clone();
        Answer {
            step: Step::Call { call: self.inner.call(request) },
            service: self.inner.clone(),
            request: again,
            attempts,
            layer,
        }
    }
}

pin_project! {
    /// A call and its retries.
    pub struct Answer<S: tower_service::Service<R>, R, F, C> {
        #[pin]
        step: Step<S::Future>,
        service: S,
        request: R,
        attempts: Attempts,
        layer: Layer<F, C>,
    }
}

pin_project! {
    #[project = StepProjection]
    enum Step<Call> {
        Call {
            #[pin]
            call: Call,
        },
        Wait {
            #[pin]
            timer: Sleep,
        },
        Ready,
    }
}

impl<S, R, F, C> Future for Answer<S, R, F, C>
where
    S: tower_service::Service<R> + Clone,
    R: Clone,
    F: Fn(&Result<S::Response, S::Error>) -> Verdict,
    C: Clock,
{
    type Output = Result<S::Response, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.step.as_mut().project() {
                StepProjection::Call { call } => {
                    let result = ready!(call.poll(context));
                    match decide(this.layer, this.attempts, &result) {
                        Decision::GiveUp(_) => return Poll::Ready(result),
                        Decision::RetryIn(wait) => Step::Wait { timer: sleep(wait) },
                    }
                }
                StepProjection::Wait { timer } => {
                    ready!(timer.poll(context));
                    Step::Ready
                }
                StepProjection::Ready => {
                    ready!(this.service.poll_ready(context))?;
                    Step::Call { call: this.service.call(this.request.clone()) }
                }
            };
            this.step.set(next);
        }
    }
}

fn decide<T, E, F, C>(
    layer: &Layer<F, C>,
    attempts: &mut Attempts,
    result: &Result<T, E>,
) -> Decision
where
    F: Fn(&Result<T, E>) -> Verdict,
    C: Clock,
{
    let (policy, now) = (layer.retrier.policy(), layer.retrier.clock().now());
    let verdict = (layer.classify)(result);
    if verdict == Verdict::Stop && result.is_ok() {
        policy.succeeded(now);
    }
    policy.failed(attempts, verdict, now)
}
