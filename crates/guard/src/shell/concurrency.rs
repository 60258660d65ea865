//! Runs futures under a learned limit.
//!
//! A call that is cancelled gives its place back and teaches nothing. A call that was given up because it took too
//! long is the clearest sign of overload there is: so put the timeout *inside* of the limit, and let `judge` say
//! [`Outcome::Overloaded`].

use std::future::Future;

use super::clock::{Clock, RuntimeClock};
use crate::concurrency::{Limiter, Outcome, Permit, Saturated};

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error<E> {
    /// As many calls were in flight as may be; it was not begun.
    #[error(transparent)]
    Saturated(Saturated),
    /// It failed by itself.
    #[error(transparent)]
    Inner(E),
}

/// A learned limit with a clock, shared by its clones.
#[derive(Clone, Debug)]
pub struct Limited {
    limiter: Limiter,
    clock: RuntimeClock,
}

impl Limited {
    /// Puts a clock to a limiter. Use clones of this one, so that all of them tell the same time.
    pub fn new(limiter: Limiter) -> Self {
        Self { limiter, clock: RuntimeClock::default() }
    }

    /// The limiter.
    pub fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// A place for a call that begins now.
    ///
    /// # Errors
    /// When as many are in flight as may be.
    pub fn enter(&self) -> Result<Entered, Saturated> {
        let permit = self.limiter.try_acquire(self.clock.now())?;
        Ok(Entered { permit, clock: self.clock })
    }

    /// Runs a future if there is a place, and learns from how it ends.
    ///
    /// # Errors
    /// When there is no place, or the future fails.
    pub async fn call<T, E>(
        &self,
        future: impl Future<Output = Result<T, E>>,
        judge: impl FnOnce(&Result<T, E>) -> Outcome,
    ) -> Result<T, Error<E>> {
        let entered = self.enter().map_err(Error::Saturated)?;
        let answer = future.await;
        entered.finish(judge(&answer));
        answer.map_err(Error::Inner)
    }
}

/// What is usually right: an answer is a sample, a failure says nothing about load.
pub fn judge_success<T, E>(answer: &Result<T, E>) -> Outcome {
    if answer.is_ok() { Outcome::Success } else { Outcome::Ignored }
}

/// One call that was let in; dropped, it gives its place back and teaches nothing.
#[derive(Debug)]
#[must_use = "the place is given back as soon as this is dropped"]
pub struct Entered {
    permit: Permit,
    clock: RuntimeClock,
}

impl Entered {
    /// Ends the call now.
    pub fn finish(self, outcome: Outcome) {
        let latency = self.clock.now().saturating_sub(self.permit.started());
        self.permit.finish(outcome, latency);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::future::join_all;
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::concurrency::{Law, Settings};

    fn limited(initial: u32) -> Limited {
        let settings = Settings {
            initial,
            window_calls: 1,
            window: Duration::ZERO,
            measure_every: None,
            law: Law::Aimd,
            ..Settings::default()
        };
        Limited::new(Limiter::new(settings).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn calls_over_the_limit_are_refused_and_the_limit_learns() {
        let limited = limited(2);
        let slow = || async {
            sleep(Duration::from_millis(10)).await;
            Ok::<_, ()>(())
        };
        let calls = (0..3).map(|_| limited.call(slow(), judge_success));
        let answers = join_all(calls).await;
        assert_eq!(answers[..2], [Ok(()), Ok(())]);
        assert_eq!(answers[2], Err(Error::Saturated(Saturated { limit: 2 })));
        assert_eq!(limited.limiter().limit(), 4);
        let overloaded = limited.call(async { Err::<(), _>("full") }, |_| Outcome::Overloaded);
        assert_eq!(overloaded.await, Err(Error::Inner("full")));
        assert_eq!(limited.limiter().limit(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_call_gives_its_place_back() {
        let limited = limited(1);
        let endless = limited.call(std::future::pending::<Result<(), ()>>(), judge_success);
        assert!(timeout(Duration::from_millis(5), endless).await.is_err());
        assert_eq!(limited.limiter().statistics().in_flight, 0);
        assert_eq!(limited.limiter().limit(), 1);
    }
}
