//! Tries a future again.
//!
//! It decides nothing: the policy does. It waits on the runtime's timer and never cuts a try off; put a timeout into
//! the try for that.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::breaker::CallError;
use super::clock::{Clock, RuntimeClock};
use crate::retry::{Decision, Policy, Reason, Verdict};

/// A call that failed for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GaveUp<E> {
    /// The error of the last try.
    pub error: E,
    /// How many tries were made.
    pub attempts: u32,
    /// Why there was no other.
    pub reason: Reason,
}

impl<E: fmt::Display> fmt::Display for GaveUp<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tries = if self.attempts == 1 { "try" } else { "tries" };
        write!(f, "{} (after {} {tries}: {})", self.error, self.attempts, self.reason)
    }
}

impl<E: Error + 'static> Error for GaveUp<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

/// A policy and a clock. Clones share the policy.
#[derive(Clone, Debug)]
pub struct Retrier<C = RuntimeClock> {
    policy: Arc<Policy>,
    clock: C,
}

impl Retrier {
    /// On the runtime's clock.
    pub fn new(policy: impl Into<Arc<Policy>>) -> Self {
        Self::with_clock(policy, RuntimeClock::default())
    }
}

impl<C: Clock> Retrier<C> {
    /// On this clock; it must be the one that the policy's breakers, limiters and budget are used with. The waits
    /// themselves are the runtime's.
    pub fn with_clock(policy: impl Into<Arc<Policy>>, clock: C) -> Self {
        Self { policy: policy.into(), clock }
    }

    /// The policy.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Calls `attempt` until it succeeds or the policy gives up; `classify` says which errors are worth another try.
    pub async fn run<T, E, F: Future<Output = Result<T, E>>>(
        &self,
        attempt: impl FnMut() -> F,
        classify: impl Fn(&E) -> Verdict,
    ) -> Result<T, GaveUp<E>> {
        self.run_until(None, attempt, classify).await
    }

    /// The same, and no retry starts at the deadline (a time on this clock) or after it.
    pub async fn run_until<T, E, F: Future<Output = Result<T, E>>>(
        &self,
        deadline: Option<Duration>,
        mut attempt: impl FnMut() -> F,
        classify: impl Fn(&E) -> Verdict,
    ) -> Result<T, GaveUp<E>> {
        let mut attempts = self.policy.begin(deadline, self.clock.now());
        loop {
            let error = match attempt().await {
                Ok(value) => {
                    self.policy.succeeded(self.clock.now());
                    return Ok(value);
                }
                Err(error) => error,
            };
            match self.policy.failed(&mut attempts, classify(&error), self.clock.now()) {
                Decision::RetryIn(wait) => tokio::time::sleep(wait).await,
                Decision::GiveUp(reason) => {
                    return Err(GaveUp { error, attempts: attempts.made(), reason });
                }
            }
        }
    }
}

impl<E> CallError<E> {
    /// What a retry should make of this: nothing if a breaker refused, a retry after a probe timeout, and what
    /// `classify` says of the call's own error.
    pub fn verdict(&self, classify: impl FnOnce(&E) -> Verdict) -> Verdict {
        match self {
            Self::Open { .. } => Verdict::Stop,
            Self::ProbeTimeout => Verdict::Retry,
            Self::Inner(error) => classify(error),
        }
    }
}
