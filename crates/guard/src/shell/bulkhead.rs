//! Runs futures under a fixed limit.
//!
//! Callers that find no place wait in order, up to the time limit and never beyond the deadline of the scope. A
//! caller that is cancelled, waiting or inside, gives its place back.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::deadline;
use crate::bulkhead::{Bulkhead as Counts, Full, Place, Settings, Statistics};
use crate::setting::Invalid;

/// A fixed number of places with a queue in front, shared by its clones.
#[derive(Clone, Debug)]
pub struct Bulkhead {
    counts: Counts,
    /// Has as many permits as there are places, and keeps those that wait in order.
    order: Arc<Semaphore>,
}

impl Bulkhead {
    /// A bulkhead with all places free.
    ///
    /// # Errors
    /// When a setting makes no sense.
    pub fn new(settings: Settings) -> Result<Self, Invalid> {
        let counts = Counts::new(settings)?;
        Ok(Self { counts, order: Arc::new(Semaphore::new(settings.places)) })
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// When as many wait as may, or no place became free in time.
    pub async fn enter(&self) -> Result<Entered, Full> {
        if let Ok(permit) = Arc::clone(&self.order).try_acquire_owned() {
            return Ok(self.entered(permit));
        }
        let waiting = self.counts.try_wait()?;
        let began = Instant::now();
        let limit = deadline::at_most(self.counts.settings().wait_max);
        match tokio::time::timeout(limit, Arc::clone(&self.order).acquire_owned()).await {
            Ok(permit) => Ok(self.entered(permit.expect("nobody closes the semaphore"))),
            Err(_) => Err(waiting.give_up(began.elapsed())),
        }
    }

    /// Runs a future when there is a place for it.
    ///
    /// # Errors
    /// When as many wait as may, or no place became free in time.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, Full> {
        let _entered = self.enter().await?;
        Ok(future.await)
    }

    /// What it was made with.
    pub fn settings(&self) -> &Settings {
        self.counts.settings()
    }

    /// What was counted so far.
    pub fn statistics(&self) -> Statistics {
        self.counts.statistics()
    }

    fn entered(&self, permit: OwnedSemaphorePermit) -> Entered {
        let place = self.counts.try_enter();
        let place =
            place.expect("a place is given back before its permit, so there is one for each");
        Entered { _place: place, _permit: permit }
    }
}

/// A place inside, given back when it is dropped.
#[derive(Debug)]
#[must_use = "the place is given back as soon as this is dropped"]
pub struct Entered {
    // Fields are dropped in this order: the place first, then the permit that lets the next caller take it.
    _place: Place,
    _permit: OwnedSemaphorePermit,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::future::join_all;
    use tokio::time::{sleep, timeout};

    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn bulkhead(places: usize, waiting_max: usize) -> Bulkhead {
        Bulkhead::new(Settings { places, waiting_max, wait_max: millis(100) }).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn callers_wait_in_order_and_the_rest_is_refused_at_once() {
        let bulkhead = bulkhead(1, 2);
        let began = Instant::now();
        let calls = (0..4).map(|_| {
            bulkhead.run(async {
                sleep(millis(30)).await;
                began.elapsed()
            })
        });
        let ends = join_all(calls).await;
        assert_eq!(ends[..3], [Ok(millis(30)), Ok(millis(60)), Ok(millis(90))]);
        assert_eq!(ends[3], Err(Full::Queue { places: 1, waiting: 2 }));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_with_the_time_limit_or_the_deadline() {
        let bulkhead = bulkhead(1, 2);
        let _inside = bulkhead.enter().await.unwrap();
        let waited = bulkhead.enter().await.unwrap_err();
        assert_eq!(waited, Full::Wait { waited: millis(100) });
        let began = Instant::now();
        let outcome = deadline::scope(millis(40), bulkhead.enter()).await;
        assert!(!matches!(outcome, Ok(Ok(_))));
        assert_eq!(began.elapsed(), millis(40));
        assert_eq!(bulkhead.statistics().waiting, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_callers_give_everything_back() {
        let bulkhead = bulkhead(1, 1);
        let endless = bulkhead.run(std::future::pending::<()>());
        let behind = bulkhead.enter();
        let both = futures_util::future::join(endless, behind);
        assert!(timeout(millis(10), both).await.is_err());
        let statistics = bulkhead.statistics();
        assert_eq!((statistics.inside, statistics.waiting), (0, 0));
        assert!(bulkhead.enter().await.is_ok());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn many_tasks_never_find_a_place_without_its_permit() {
        let bulkhead = bulkhead(3, 1000);
        let tasks = (0..200).map(|_| {
            let bulkhead = bulkhead.clone();
            tokio::spawn(async move {
                let inside = bulkhead.run(async {
                    tokio::task::yield_now().await;
                    bulkhead.statistics().inside
                });
                inside.await.unwrap()
            })
        });
        for inside in join_all(tasks).await {
            assert!((1..=3).contains(&inside.unwrap()));
        }
        assert_eq!(bulkhead.statistics().entered, 200);
    }
}
