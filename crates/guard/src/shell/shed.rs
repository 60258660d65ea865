//! Lets futures in by priority.
//!
//! Shedding has to see the queue that it protects, so an [`Entrance`] is both: the shedder, and the bulkhead behind
//! which requests wait. How long each waited (in vain or not), and how many places are taken, is what the shedder goes
//! by.

use std::future::Future;
use std::sync::Arc;

use tokio::time::Instant;

use super::bulkhead::{Bulkhead, Entered};
use super::clock::{Clock, RuntimeClock};
use crate::bulkhead::Full;
use crate::shed::{Priority, Shed, Shedder, Statistics};

/// Why a request was not let in.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// It was turned away by its priority.
    #[error(transparent)]
    Shed(#[from] Shed),
    /// There was no place for it.
    #[error(transparent)]
    Full(#[from] Full),
}

/// A queue that turns the least important away when it grows old, shared by its clones.
#[derive(Clone, Debug)]
pub struct Entrance {
    shedder: Arc<Shedder>,
    bulkhead: Bulkhead,
    clock: RuntimeClock,
}

impl Entrance {
    /// Puts a shedder in front of a bulkhead.
    pub fn new(shedder: Shedder, bulkhead: Bulkhead) -> Self {
        Self { shedder: Arc::new(shedder), bulkhead, clock: RuntimeClock::default() }
    }

    /// Waits for a place, unless the request is turned away.
    ///
    /// # Errors
    /// When it is turned away or there is no place for it.
    pub async fn enter(&self, priority: Priority) -> Result<Entered, Refused> {
        self.shedder.admit(priority, self.clock.now())?;
        let began = Instant::now();
        let entered = self.bulkhead.enter().await;
        let now = self.clock.now();
        let turned_away_at_once = matches!(entered, Err(Full::Queue { .. }));
        if self.shedder.settings().age.is_some() && !turned_away_at_once {
            self.shedder.observe_age(began.elapsed(), now);
        }
        if self.shedder.settings().utilisation.is_some() {
            let inside = self.bulkhead.statistics().inside as f64;
            let places = self.bulkhead.settings().places as f64;
            self.shedder.observe_utilisation(inside / places, now);
        }
        Ok(entered?)
    }

    /// Runs a future when there is a place for it, unless it is turned away.
    ///
    /// # Errors
    /// When it is turned away or there is no place for it.
    pub async fn run<F: Future>(
        &self,
        priority: Priority,
        future: F,
    ) -> Result<F::Output, Refused> {
        let _entered = self.enter(priority).await?;
        Ok(future.await)
    }

    /// What was counted so far.
    pub fn statistics(&self) -> Statistics {
        self.shedder.statistics(self.clock.now())
    }

    /// The bulkhead.
    pub fn bulkhead(&self) -> &Bulkhead {
        &self.bulkhead
    }
}
