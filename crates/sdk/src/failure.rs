//! How a handler says that it did not work, and what shall follow.
//!
//! [`Failure`] is a plain struct and not a `std::error::Error`: only so may *any* error become one through `?`.

use std::fmt;
use std::time::Duration;

use divvy_types::limits::RETRY_WAIT_MS_MAX;
use divvy_types::{AttemptOutcome, ErrorClass, FailureVerdict, TaskError};

/// What a handler returns.
pub type Outcome<T> = Result<T, Failure>;

/// A failed attempt and what shall follow from it.
///
/// Any error becomes a failure through `?`, with the verdict *retry by the task's policy*. The other verdicts are said
/// in so many words:
///
/// ```
/// use divvy::prelude::*;
///
/// fn check(size: u64, busy: bool) -> Outcome<u64> {
///     if size == 0 { return Err(Failure::dead("empty video")); }          // no retry can help
///     if busy { return Err(Failure::snooze(Duration::from_secs(30))); }   // later, and not an attempt
///     Ok("12".parse::<u64>()?)                                            // any error: retry
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    verdict: FailureVerdict,
    class: ErrorClass,
    message: String,
}

impl Failure {
    /// Retry by the task's policy.
    pub fn retry(message: impl fmt::Display) -> Self {
        Self::new(FailureVerdict::Retry, message.to_string())
    }

    /// Retry after this span instead of the policy's; counts as an attempt.
    pub fn retry_after(span: Duration) -> Self {
        Self::new(
            FailureVerdict::RetryAfterMs(millis(span)),
            format!("asked to be retried after {span:?}"),
        )
    }

    /// Try again after this span; does not count as an attempt.
    pub fn snooze(span: Duration) -> Self {
        Self::new(FailureVerdict::SnoozeMs(millis(span)), format!("snoozed for {span:?}"))
    }

    /// No retry can help: a dead letter at once.
    pub fn dead(message: impl fmt::Display) -> Self {
        Self::new(FailureVerdict::Dead, message.to_string())
    }

    /// The handler was asked to stop and did. If nobody asked, the task goes back and runs again a second later,
    /// without this attempt being counted; a task that shall not run again is [`Failure::dead`].
    pub fn cancelled() -> Self {
        let message = "stopped because it was asked to".to_owned();
        Self { verdict: FailureVerdict::Cancelled, class: ErrorClass::Cancelled, message }
    }

    /// The same verdict with words of your own.
    pub fn because(mut self, message: impl fmt::Display) -> Self {
        self.message = message.to_string();
        self
    }

    /// What shall follow.
    pub fn verdict(&self) -> FailureVerdict {
        self.verdict
    }

    /// What happened, in words.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn into_outcome(self) -> AttemptOutcome {
        let error = TaskError::new(self.class, &self.message);
        AttemptOutcome::Failed(divvy_types::Failure { verdict: self.verdict, error })
    }

    fn new(verdict: FailureVerdict, message: String) -> Self {
        Self { verdict, class: ErrorClass::Failed, message }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        // The alternate form has the whole chain of causes in one line.
        Self::retry(format_args!("{:#}", error.into()))
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).min(RETRY_WAIT_MS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn any_error_is_a_retry_with_its_causes() {
        fn parse() -> Outcome<u8> {
            Ok("x".parse::<u8>().context("the size")?)
        }
        let failure = parse().unwrap_err();
        assert_eq!(failure.verdict(), FailureVerdict::Retry);
        assert_eq!(failure.message(), "the size: invalid digit found in string");
    }

    #[test]
    fn each_verdict_reaches_the_report() {
        let second = Duration::from_secs(1);
        let cases = [
            (Failure::retry("a"), FailureVerdict::Retry),
            (Failure::retry_after(second), FailureVerdict::RetryAfterMs(1_000)),
            (Failure::snooze(second), FailureVerdict::SnoozeMs(1_000)),
            (Failure::snooze(Duration::MAX), FailureVerdict::SnoozeMs(RETRY_WAIT_MS_MAX)),
            (Failure::dead("a"), FailureVerdict::Dead),
            (Failure::cancelled(), FailureVerdict::Cancelled),
        ];
        for (failure, verdict) in cases {
            let AttemptOutcome::Failed(reported) = failure.because("why").into_outcome() else {
                panic!("not failed")
            };
            assert_eq!((reported.verdict, reported.error.message.as_str()), (verdict, "why"));
        }
    }
}
