//! Bounds a future by what was seen before.
//!
//! Answers are recorded, and so are waits in vain (the true latency is at least as long), so the timeout grows when
//! everything has become slow. Failures and cancelled calls are not recorded; nor is a wait that the caller's own
//! deadline cut short, since it says nothing about the other side.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use super::deadline;
use crate::timeout::SharedTracker;

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error<E> {
    /// It took too long.
    #[error("no answer within {after:?}")]
    TimedOut {
        /// How long was waited.
        after: Duration,
    },
    /// It failed by itself.
    #[error(transparent)]
    Inner(E),
}

/// Waits for a future as long as the tracker suggests, and not beyond the deadline of the scope.
///
/// # Errors
/// When the time is up, or the future fails.
pub async fn within<T, E>(
    tracker: &SharedTracker,
    future: impl Future<Output = Result<T, E>>,
) -> Result<T, Error<E>> {
    let wait = Wait::begin(tracker);
    match tokio::time::timeout(wait.limit, future).await {
        Ok(answer) => wait.answered(tracker, answer),
        Err(_) => Err(wait.in_vain(tracker)),
    }
}

/// One wait for an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    began: Instant,
    pub(super) limit: Duration,
    /// Whether the limit is that of the tracker, and not that of the caller's deadline.
    is_learned: bool,
}

impl Wait {
    pub(super) fn begin(tracker: &SharedTracker) -> Self {
        let suggested = tracker.suggested();
        let limit = deadline::at_most(suggested);
        Self { began: Instant::now(), limit, is_learned: limit == suggested }
    }

    pub(super) fn answered<T, E>(
        &self,
        tracker: &SharedTracker,
        answer: Result<T, E>,
    ) -> Result<T, Error<E>> {
        if answer.is_ok() {
            tracker.record(self.began.elapsed());
        }
        answer.map_err(Error::Inner)
    }

    pub(super) fn in_vain<E>(&self, tracker: &SharedTracker) -> Error<E> {
        if self.is_learned {
            tracker.record(self.limit);
        }
        Error::TimedOut { after: self.limit }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    async fn answer_after(wait: Duration) -> Result<u8, &'static str> {
        sleep(wait).await;
        Ok(7)
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_calls_get_the_default_and_later_ones_what_was_learned() {
        let tracker = SharedTracker::default();
        for _ in 0..5 {
            assert_eq!(within(&tracker, answer_after(millis(50))).await, Ok(7));
        }
        let outcome = within(&tracker, answer_after(millis(300))).await;
        assert_eq!(outcome, Err(Error::TimedOut { after: millis(100) }));
        assert_eq!(tracker.snapshot().len(), 6, "the wait in vain is recorded");
        let outcome = within(&tracker, async { Err::<(), _>("broken") }).await;
        assert_eq!(outcome.unwrap_err().to_string(), "broken");
        assert_eq!(tracker.snapshot().len(), 6, "a failure has no latency");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_cut_short_by_the_caller_teaches_nothing() {
        let tracker = SharedTracker::default();
        let outcome = deadline::scope(millis(20), within(&tracker, answer_after(millis(50)))).await;
        assert!(matches!(outcome, Err(_) | Ok(Err(Error::TimedOut { .. }))));
        drop(within(&tracker, answer_after(millis(50))));
        assert!(tracker.snapshot().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_that_becomes_slow_for_good_is_waited_for_in_the_end() {
        let tracker = SharedTracker::default();
        for _ in 0..20 {
            within(&tracker, answer_after(millis(5))).await.unwrap();
        }
        let mut calls = 0;
        while within(&tracker, answer_after(millis(400))).await.is_err() {
            calls += 1;
            assert!(calls < 60, "stuck at {:?}", tracker.suggested());
        }
    }
}
