//! Hands a deadline on to everything that a future calls, without naming it in each signature.
//!
//! Knows no transport. The deadline of a scope belongs to the task that runs it. A task that is spawned does not
//! inherit it: wrap its future in [`carry`]. [`super::timeout::within`], [`super::fanout::fan_out`] and
//! [`super::bulkhead::Bulkhead::enter`] wait no longer than the scope that they are called in.
//!
//! A deadline on another clock of this process begins from [`left`]: `Deadline::after(clock.now(), left)`.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

tokio::task_local! {
    static DEADLINE: Instant;
}

/// The deadline has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the deadline has passed; nobody waits for the answer any more")]
pub struct Expired;

/// The time left in the present scope; none if there is no deadline.
pub fn left() -> Option<Duration> {
    DEADLINE.try_with(|at| at.saturating_duration_since(Instant::now())).ok()
}

/// `span`, or the time left in the present scope if that is less.
pub fn at_most(span: Duration) -> Duration {
    left().map_or(span, |left| left.min(span))
}

/// Runs a future that has `span` from now, and never more than the scope around it. At the end of the time it is
/// dropped; with no time at all it is not even begun.
///
/// # Errors
/// When the time is up.
pub async fn scope<F: Future>(span: Duration, future: F) -> Result<F::Output, Expired> {
    let span = at_most(span);
    if span.is_zero() {
        return Err(Expired);
    }
    let Some(at) = Instant::now().checked_add(span) else {
        // A moment that cannot be named never comes.
        return Ok(future.await);
    };
    DEADLINE.scope(at, timeout_at(at, future)).await.map_err(|_| Expired)
}

/// A future that keeps the deadline of the present scope when it is spawned.
///
/// # Errors
/// The future ends with an error when the time is up.
pub fn carry<F: Future>(future: F) -> impl Future<Output = Result<F::Output, Expired>> {
    let at = DEADLINE.try_with(|at| *at).ok();
    async move {
        let Some(at) = at else { return Ok(future.await) };
        scope(at.saturating_duration_since(Instant::now()), future).await
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[tokio::test(start_paused = true)]
    async fn an_inner_scope_never_outlives_the_outer_one() {
        assert_eq!(left(), None);
        let began = Instant::now();
        let outcome = scope(millis(100), async {
            sleep(millis(40)).await;
            assert_eq!(left(), Some(millis(60)));
            scope(millis(500), sleep(millis(500))).await
        })
        .await;
        assert!(matches!(outcome, Ok(Err(Expired)) | Err(Expired)));
        assert_eq!(began.elapsed(), millis(100));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_begins_without_time() {
        let outcome = scope(millis(10), async {
            tokio::time::advance(millis(10)).await;
            scope(millis(5), async { unreachable!("there is no time for it") }).await
        });
        assert!(matches!(outcome.await, Ok(Err::<(), _>(Expired)) | Err(Expired)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_spawned_task_keeps_the_deadline_if_it_is_carried() {
        let (bare, carried) = scope(millis(100), async {
            let bare = tokio::spawn(async { left() });
            let carried = tokio::spawn(carry(async { left() }));
            (bare.await.unwrap(), carried.await.unwrap())
        })
        .await
        .unwrap();
        assert_eq!(bare, None);
        assert_eq!(carried, Ok(Some(millis(100))));
        assert_eq!(scope(Duration::MAX, async { left() }).await, Ok(None));
    }
}
