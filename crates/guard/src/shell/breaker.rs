//! Runs functions and futures under a breaker.
//!
//! It decides nothing: the breaker does. It reads the clock, reports each outcome, and cuts a probe off at the probe
//! timeout. A panic is a failure. A future that is dropped before it ends gives its permit back and counts as
//! cancelled, or as failed if it had run for `cancelled_fails_after`.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::clock::{Clock, RuntimeClock, SystemClock};
use crate::breaker::{Breaker, Outcome, Permit, Rejected};

/// Why a call under a breaker brought no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError<E> {
    /// It was not made.
    #[error("the breaker refuses the call{}", hint(.retry_after))]
    Open {
        /// How long to wait before a call can pass, if that is known.
        retry_after: Option<Duration>,
    },
    /// It was made and failed.
    #[error(transparent)]
    Inner(E),
    /// It was a probe and was cut off at the probe timeout.
    #[error("the probe took longer than the probe timeout")]
    ProbeTimeout,
}

impl<E> From<Rejected> for CallError<E> {
    fn from(rejected: Rejected) -> Self {
        Self::Open { retry_after: rejected.retry_after }
    }
}

fn hint(retry_after: &Option<Duration>) -> String {
    retry_after.map_or_else(String::new, |wait| format!("; try again in {wait:?}"))
}

/// A breaker and a clock: what calls are made through. Clones share the breaker.
#[derive(Clone, Debug)]
pub struct Circuit<C = RuntimeClock> {
    breaker: Arc<Breaker>,
    clock: C,
}

impl Circuit {
    /// On the runtime's clock, which a test can pause.
    pub fn new(breaker: impl Into<Arc<Breaker>>) -> Self {
        Self::with_clock(breaker, RuntimeClock::default())
    }
}

impl Circuit<SystemClock> {
    /// On the system's clock, for programs without a runtime. Without one nothing can cut a probe off; one that takes too
    /// long has failed, whatever it returns.
    pub fn without_runtime(breaker: impl Into<Arc<Breaker>>) -> Self {
        Self::with_clock(breaker, SystemClock::default())
    }
}

impl<C: Clock + Clone> Circuit<C> {
    /// On this clock; guards that are used together must share one.
    pub fn with_clock(breaker: impl Into<Arc<Breaker>>, clock: C) -> Self {
        Self { breaker: breaker.into(), clock }
    }

    /// The breaker.
    pub fn breaker(&self) -> &Arc<Breaker> {
        &self.breaker
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// The time on this circuit's clock, for [`Breaker::metrics`] and the like.
    pub fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Calls a function; every `Err` is a failure. A probe cannot be cut off here, but one that takes too long has
    /// failed, whatever it returns.
    pub fn call<T, E>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E>> {
        self.call_with(call, blame_errors)
    }

    /// Calls a function; `classify` says what each result says about the part that was called.
    pub fn call_with<T, E>(
        &self,
        call: impl FnOnce() -> Result<T, E>,
        classify: impl FnOnce(&Result<T, E>) -> Outcome,
    ) -> Result<T, CallError<E>> {
        let permit = Running::new(self.breaker.admit(self.now())?, &self.clock);
        let result = call();
        permit.end(classify(&result));
        result.map_err(CallError::Inner)
    }

    /// Awaits a future; every `Err` is a failure. The future is not polled if the breaker refuses.
    pub async fn call_async<T, E>(
        &self,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, CallError<E>> {
        self.call_async_with(call, blame_errors).await
    }

    /// Awaits a future; `classify` says what each result says about the part that was called.
    pub async fn call_async_with<T, E>(
        &self,
        call: impl Future<Output = Result<T, E>>,
        classify: impl FnOnce(&Result<T, E>) -> Outcome,
    ) -> Result<T, CallError<E>> {
        let permit = Running::new(self.breaker.admit(self.now())?, &self.clock);
        let result = match permit.time_limit() {
            None => call.await,
            Some(limit) => match tokio::time::timeout(limit, call).await {
                Ok(result) => result,
                Err(_) => {
                    permit.end(Outcome::Failure);
                    return Err(CallError::ProbeTimeout);
                }
            },
        };
        permit.end(classify(&result));
        result.map_err(CallError::Inner)
    }

    #[cfg(feature = "tower")]
    pub(super) fn admit_owned(&self) -> Result<Running<Arc<Breaker>, C>, Rejected> {
        let permit = self.breaker.admit_owned(self.now())?;
        Ok(Running::new(permit, self.clock.clone()))
    }
}

/// Every error is the fault of the part that was called.
pub fn blame_errors<T, E>(result: &Result<T, E>) -> Outcome {
    if result.is_ok() { Outcome::Success } else { Outcome::Failure }
}

/// A call under way. Dropped without an end, it tells the breaker when that was.
#[derive(Debug)]
pub(super) struct Running<B: Deref<Target = Breaker>, C: Clock> {
    permit: Option<Permit<B>>,
    clock: C,
}

impl<B: Deref<Target = Breaker>, C: Clock> Running<B, C> {
    fn new(permit: Permit<B>, clock: C) -> Self {
        Self { permit: Some(permit), clock }
    }

    pub(super) fn time_limit(&self) -> Option<Duration> {
        let limit = self.permit.as_ref().and_then(Permit::time_limit);
        limit.filter(|_| self.clock.has_timer())
    }

    pub(super) fn end(mut self, outcome: Outcome) {
        if let Some(permit) = self.permit.take() {
            permit.record(outcome, self.clock.now());
        }
    }
}

impl<B: Deref<Target = Breaker>, C: Clock> Drop for Running<B, C> {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        let now = self.clock.now();
        if thread::panicking() {
            permit.failure(now);
        } else {
            permit.cancel(now);
        }
    }
}
