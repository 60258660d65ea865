//! Asks a second time when the first is slow.
//!
//! Everything runs in the task of the caller: the losers are dropped before the answer is returned.
//!
//! The tracker learns how long the *first* attempt took. If a hedge was faster, it learns how long the first had
//! been waited for: it would have taken at least that long. So the quantile keeps its meaning; if it learned the
//! latencies of the winners, it would fall, and more and more would be hedged. Failures teach nothing.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;

use super::clock::{Clock, RuntimeClock};
use crate::hedge::{Decision, Hedging, Settings, Statistics};
use crate::setting::Invalid;
use crate::timeout::SharedTracker;

type Question = Box<dyn Fn() -> bool + Send + Sync>;

/// Hedges calls of one kind.
pub struct Hedger {
    hedging: Hedging,
    tracker: Arc<SharedTracker>,
    may_spend: Question,
    saturated: Question,
}

impl fmt::Debug for Hedger {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Hedger")
            .field("hedging", &self.hedging)
            .field("tracker", &self.tracker)
            .finish_non_exhaustive()
    }
}

impl Hedger {
    /// Hedges within a budget: `may_spend` takes one hedge out of it, or says no.
    ///
    /// # Errors
    /// When a setting makes no sense.
    pub fn new(
        settings: Settings,
        tracker: Arc<SharedTracker>,
        may_spend: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Self, Invalid> {
        let hedging = Hedging::new(settings)?;
        Ok(Self { hedging, tracker, may_spend: Box::new(may_spend), saturated: Box::new(|| false) })
    }

    /// Sends no hedge while `saturated`, such as [`crate::concurrency::Limiter::is_saturated`].
    #[must_use]
    pub fn unless(mut self, saturated: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.saturated = Box::new(saturated);
        self
    }

    /// What was counted so far.
    pub fn statistics(&self) -> Statistics {
        self.hedging.statistics()
    }

    /// Asks, and asks again when it is slow. `ask` gets the number of the attempt: 0 is the first, the others are
    /// hedges. The first success is the answer.
    ///
    /// # Errors
    /// The last failure, when every attempt that was begun has failed.
    pub async fn call<T, E, F>(&self, mut ask: impl FnMut(u32) -> F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
    {
        let clock = RuntimeClock::default();
        let began = clock.now();
        let mut call = self.hedging.begin(&self.tracker, began);
        let mut first_failed = false;
        let mut attempts = FuturesUnordered::new();
        let number = |attempt: u32, answer: F| async move { (attempt, answer.await) };
        attempts.push(number(0, ask(0)));
        let mut sent = 0;
        loop {
            let now = clock.now();
            let ended = match call.next_at() {
                None => attempts.next().await,
                Some(at) => {
                    let due = std::pin::pin!(tokio::time::sleep(at.saturating_sub(now)));
                    match select(attempts.next(), due).await {
                        Either::Left((ended, _)) => ended,
                        Either::Right(_) => {
                            let decision = call.poll(clock.now(), &self.saturated, &self.may_spend);
                            if decision == Decision::Send {
                                sent += 1;
                                attempts.push(number(sent, ask(sent)));
                            }
                            continue;
                        }
                    }
                }
            };
            let (attempt, answer) = ended.expect("an attempt is under way, or this had returned");
            match answer {
                Ok(value) => {
                    if !first_failed {
                        self.tracker.record(clock.now().saturating_sub(began));
                    }
                    call.won(attempt);
                    return Ok(value);
                }
                Err(error) if attempts.is_empty() => return Err(error),
                Err(_) => first_failed |= attempt == 0,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::hedge::Delay;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn hedger(hedges_max: u32) -> Hedger {
        let settings =
            Settings { delay: Delay::Fixed(millis(10)), hedges_max, ..Settings::default() };
        Hedger::new(settings, Arc::default(), || true).unwrap()
    }

    struct Alive<'a>(&'a AtomicUsize);

    impl Drop for Alive<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_success_wins_and_losers_are_gone() {
        let hedger = hedger(2);
        let alive = AtomicUsize::new(0);
        let began = Instant::now();
        let answer = hedger.call(|attempt| {
            alive.fetch_add(1, Ordering::Relaxed);
            let guard = Alive(&alive);
            async move {
                let _guard = guard;
                sleep(millis([500, 400, 5][attempt as usize])).await;
                Ok::<_, ()>(attempt)
            }
        });
        assert_eq!(answer.await, Ok(2));
        assert_eq!(began.elapsed(), millis(25));
        assert_eq!(alive.load(Ordering::Relaxed), 0);
        let statistics = hedger.statistics();
        assert_eq!((statistics.sent, statistics.hedged, statistics.won), (2, 1, 1));
        assert_eq!(
            hedger.tracker.snapshot().quantile(1.0),
            Some(millis(25)),
            "what the first took at least"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_counts_only_when_nobody_else_is_under_way() {
        let ask = |attempt: u32| async move {
            sleep(millis([20, 15][attempt as usize])).await;
            if attempt == 0 { Err("first") } else { Ok(attempt) }
        };
        let rescued = hedger(1);
        assert_eq!(rescued.call(ask).await, Ok(1));
        assert!(
            rescued.tracker.snapshot().is_empty(),
            "a first attempt that failed has no latency"
        );
        let early = |_| async { Err::<(), _>("at once") };
        let hedger = hedger(1);
        assert_eq!(hedger.call(early).await, Err("at once"));
        assert_eq!(hedger.statistics().sent, 0, "a failure is for a retry");
        let late = |attempt: u32| async move {
            sleep(millis(30)).await;
            Err::<(), _>(attempt)
        };
        assert_eq!(hedger.call(late).await, Err(1), "the last failure");
        assert!(hedger.tracker.snapshot().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn no_hedge_without_budget_or_when_saturated() {
        let slow = |_| async {
            sleep(millis(50)).await;
            Ok::<_, ()>(())
        };
        let settings = Settings { delay: Delay::Fixed(millis(10)), ..Settings::default() };
        let poor = Hedger::new(settings, Arc::default(), || false).unwrap();
        poor.call(slow).await.unwrap();
        assert_eq!((poor.statistics().sent, poor.statistics().over_budget), (0, 1));
        let busy = hedger(1).unless(|| true);
        busy.call(slow).await.unwrap();
        assert_eq!((busy.statistics().sent, busy.statistics().saturated), (0, 1));
    }
}
