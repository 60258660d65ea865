//! How long a server that is away is waited for, and how its callers rest between their tries: decided once for all.
//!
//! Knows neither what is asked nor how. What is temporary is [`Error::is_temporary`]. The rests grow, and chance spreads
//! them, because callers who failed together would come back together; who is told when to come back does not ask
//! before. Time counts from the first failure on, so a request may take as long as it likes before it fails.
//!
//! Only a worker's connection rests in a way of its own: it never gives up, and there are thousands of them.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use divvy_guard::backoff::{Backoff, Jitter};
use tokio::time::Instant;

use crate::Error;

/// How long trouble is borne: longer than a restart, and than any lease of a worker that is not told otherwise.
const LASTS: Duration = Duration::from_secs(60);
/// The first rest, about; it doubles.
const REST_FIRST: Duration = Duration::from_millis(100);
/// The longest rest.
const REST_MAX: Duration = Duration::from_secs(2);

/// Patience with a server: counts failures, and rests after each.
#[derive(Debug)]
pub struct Patience {
    lasts: Duration,
    /// Whether trouble is borne at all.
    is_begun: bool,
    /// When the first failure of this trouble was.
    since: Option<Instant>,
    failures: u32,
    backoff: Backoff,
    random: fastrand::Rng,
}

impl Default for Patience {
    /// A minute of it.
    fn default() -> Self {
        let backoff = Backoff::new(REST_FIRST, 2.0, REST_MAX, Jitter::Equal);
        Self {
            lasts: LASTS,
            is_begun: true,
            since: None,
            failures: 0,
            backoff: backoff.expect("the rests are in order"),
            random: fastrand::Rng::with_seed(RandomState::new().hash_one(0u8)),
        }
    }
}

impl Patience {
    /// Patience that never ends.
    pub fn endless() -> Self {
        Self { lasts: Duration::MAX, ..Self::default() }
    }

    /// A minute, but none before the first [`renew`](Self::renew): what never answered may be the wrong address, and
    /// the one who typed it waits.
    pub fn once_answered() -> Self {
        Self { is_begun: false, ..Self::default() }
    }

    /// Rests; or gives the error back if another try is of no use, or there was enough trouble.
    ///
    /// # Errors
    /// The one that was given.
    pub async fn bear(&mut self, error: Error) -> Result<(), Error> {
        let asked = match &error {
            Error::Refused { retry_after, .. } => retry_after.unwrap_or_default(),
            _ => Duration::ZERO,
        };
        let rest = self.next_rest().max(asked);
        let since = *self.since.get_or_insert_with(Instant::now);
        let is_enough = since.elapsed().saturating_add(rest) > self.lasts;
        if !error.is_temporary() || !self.is_begun || is_enough {
            return Err(error);
        }
        tokio::time::sleep(rest).await;
        Ok(())
    }

    /// Rests after what was no error, such as a stream that ended too early.
    pub async fn rest(&mut self) {
        tokio::time::sleep(self.next_rest()).await;
    }

    /// Something worked: later trouble is new trouble.
    pub fn renew(&mut self) {
        (self.is_begun, self.since, self.failures) = (true, None, 0);
    }

    /// Whether there was a failure since all was well.
    pub fn is_used(&self) -> bool {
        self.failures > 0
    }

    fn next_rest(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.backoff.wait(self.failures, &mut self.random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> Error {
        Error::Unreachable { server: "http://a".into(), problem: "gone".into() }
    }

    fn busy(seconds: u64) -> Error {
        Error::Refused {
            code: "overloaded".into(),
            message: "later".into(),
            field: None,
            status: Some(503),
            retry_after: Some(Duration::from_secs(seconds)),
        }
    }

    /// How long trouble is borne that does not end.
    async fn borne(patience: &mut Patience) -> Duration {
        let began = Instant::now();
        while patience.bear(away()).await.is_ok() {}
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_is_waited_for_longer_than_a_lease_but_not_for_ever() {
        let mut patience = Patience::default();
        let first = borne(&mut patience).await;
        assert!(first > Duration::from_secs(30) && first <= LASTS, "{first:?}");
        let more = borne(&mut patience).await;
        assert!(first + more <= LASTS, "it does not begin anew by itself: {first:?}, {more:?}");
        patience.renew();
        assert!(borne(&mut patience).await > Duration::from_secs(30), "new trouble, new patience");
    }

    #[tokio::test(start_paused = true)]
    async fn time_counts_from_the_first_failure_on() {
        let mut patience = Patience::default();
        tokio::time::sleep(LASTS * 10).await;
        assert!(patience.bear(away()).await.is_ok() && patience.is_used());
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_told_when_to_come_back_does_not_come_before() {
        let mut patience = Patience::default();
        let began = Instant::now();
        patience.bear(busy(20)).await.unwrap();
        assert!(began.elapsed() >= Duration::from_secs(20));
        assert_eq!(patience.bear(busy(u64::MAX)).await.unwrap_err().code(), "overloaded");
    }

    #[tokio::test(start_paused = true)]
    async fn what_no_other_try_mends_is_not_borne() {
        assert!(Patience::endless().bear(Error::Token).await.is_err());
        let mut hasty = Patience::once_answered();
        assert!(hasty.bear(away()).await.is_err(), "it has never answered");
        hasty.renew();
        assert!(hasty.bear(away()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn endless_patience_outlasts_any_trouble_and_rests_within_bounds() {
        let mut patience = Patience::endless();
        for _ in 0..1_000 {
            let began = Instant::now();
            patience.bear(away()).await.unwrap();
            assert!(began.elapsed() <= REST_MAX + Duration::from_millis(1));
        }
    }
}
