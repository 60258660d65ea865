//! Waits for a rate limiter.
//!
//! Those who wait through one [`Pacer`] go in the order in which they came: only the first of the line watches the
//! limiter. Whoever gives up leaves the line and has taken nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::clock::{Clock, RuntimeClock};
use crate::rate::{Limiter, Refused};

/// A limiter, a clock and a line. Clones share the limiter and the line.
#[derive(Clone, Debug)]
pub struct Pacer<C = RuntimeClock> {
    limiter: Arc<Limiter>,
    clock: C,
    line: Arc<Mutex<()>>,
}

impl Pacer {
    /// On the runtime's clock.
    pub fn new(limiter: impl Into<Arc<Limiter>>) -> Self {
        Self::with_clock(limiter, RuntimeClock::default())
    }
}

impl<C: Clock> Pacer<C> {
    /// On this clock; guards that are used together must share one. The waits themselves are the runtime's.
    pub fn with_clock(limiter: impl Into<Arc<Limiter>>, clock: C) -> Self {
        Self { limiter: limiter.into(), clock, line: Arc::default() }
    }

    /// The limiter.
    pub fn limiter(&self) -> &Arc<Limiter> {
        &self.limiter
    }

    /// The time on this pacer's clock.
    pub fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Takes one token now or not at all, past those who wait.
    pub fn check(&self) -> Result<(), Refused> {
        self.limiter.check(self.now())
    }

    /// Waits for one token, however long it takes.
    pub async fn until_ready(&self) {
        let _turn = self.line.lock().await;
        while let Err(Refused::Wait(wait)) = self.limiter.check(self.now()) {
            tokio::time::sleep(wait).await;
        }
    }

    /// Waits for so many tokens at once, however long it takes. Fails only if they are more than the burst.
    pub async fn until_ready_cost(&self, cost: u32) -> Result<(), Refused> {
        let _turn = self.line.lock().await;
        loop {
            match self.limiter.check_cost(cost, self.now()) {
                Err(Refused::Wait(wait)) => tokio::time::sleep(wait).await,
                decided => return decided,
            }
        }
    }

    /// Waits for so many tokens, but no longer than `wait_max`.
    pub async fn until_ready_within(&self, cost: u32, wait_max: Duration) -> Result<(), Refused> {
        match tokio::time::timeout(wait_max, self.until_ready_cost(cost)).await {
            Ok(decided) => decided,
            // The token came just now, or the limiter says how much longer it would take.
            Err(_) => self.limiter.check_cost(cost, self.now()),
        }
    }
}
