//! A learned limit around a service.
//!
//! A request beyond the limit is refused at once; it does not wait in `poll_ready`, because a queue is what the limit
//! is there to prevent. The place is taken in `call` and given back when the response future ends or is dropped.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::concurrency::{Limiter, Outcome};
use crate::shell::concurrency::{Entered, Error, Limited};

/// Lets so many requests in as the limiter has learned; `judge` says what each answer teaches, such as
/// [`crate::shell::concurrency::judge_success`].
#[derive(Clone, Debug)]
pub struct Layer<J> {
    limited: Limited,
    judge: J,
}

impl<J> Layer<J> {
    /// A layer with a limiter, which others may share.
    pub fn new(limiter: Limiter, judge: J) -> Self {
        Self { limited: Limited::new(limiter), judge }
    }
}

impl<S, J: Clone> tower_layer::Layer<S> for Layer<J> {
    type Service = Service<S, J>;

    fn layer(&self, inner: S) -> Self::Service {
        Service { inner, limited: self.limited.clone(), judge: self.judge.clone() }
    }
}

/// A service with a learned limit.
#[derive(Clone, Debug)]
pub struct Service<S, J> {
    inner: S,
    limited: Limited,
    judge: J,
}

impl<S, J, Request> tower_service::Service<Request> for Service<S, J>
where
    S: tower_service::Service<Request>,
    J: Fn(&Result<S::Response, S::Error>) -> Outcome + Clone,
{
    type Response = S::Response;
    type Error = Error<S::Error>;
    type Future = Answer<S::Future, J>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Error::Inner)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let state = match self.limited.enter() {
            Ok(entered) => {
                State::Inside { inner: self.inner.call(request), entered: Some(entered) }
            }
            Err(saturated) => State::Refused { limit: saturated.limit },
        };
        Answer { state, judge: self.judge.clone() }
    }
}

pin_project_lite::pin_project! {
    /// The answer, or a refusal.
    #[derive(Debug)]
    pub struct Answer<F, J> {
        #[pin]
        state: State<F>,
        judge: J,
    }
}

pin_project_lite::pin_project! {
    #[project = StateProjection]
    #[derive(Debug)]
    enum State<F> {
        Inside { #[pin] inner: F, entered: Option<Entered> },
        Refused { limit: u32 },
    }
}

impl<F, J, T, E> Future for Answer<F, J>
where
    F: Future<Output = Result<T, E>>,
    J: Fn(&Result<T, E>) -> Outcome,
{
    type Output = Result<T, Error<E>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.state.project() {
            StateProjection::Refused { limit } => {
                let saturated = crate::concurrency::Saturated { limit: *limit };
                Poll::Ready(Err(Error::Saturated(saturated)))
            }
            StateProjection::Inside { inner, entered } => inner.poll(context).map(|answer| {
                if let Some(entered) = entered.take() {
                    entered.finish((this.judge)(&answer));
                }
                answer.map_err(Error::Inner)
            }),
        }
    }
}
