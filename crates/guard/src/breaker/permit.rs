//! The leave to make one call, which must come back: with an outcome, or by being dropped.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::circuit::{Breaker, Ticket};
use super::state::{Outcome, Rejected};

/// Leave to make one call. Dropped without an outcome, the call counts as cancelled and a probe's place is free again.
///
/// It borrows the breaker, or owns a share of it after [`Breaker::admit_owned`].
#[derive(Debug)]
#[must_use = "a permit that is dropped at once counts as a cancelled call"]
pub struct Permit<B: Deref<Target = Breaker>> {
    breaker: B,
    ticket: Ticket,
    settled: bool,
}

impl<B: Deref<Target = Breaker>> Permit<B> {
    /// Whether the call is a probe of a half-open breaker.
    pub fn is_probe(&self) -> bool {
        self.ticket.is_probe()
    }

    /// How long the call may take: the probe timeout for a probe, no limit for others.
    pub fn time_limit(&self) -> Option<Duration> {
        self.breaker.settings().probe_timeout.filter(|_| self.is_probe())
    }

    /// The call went well.
    pub fn success(self, now: Duration) {
        self.record(Outcome::Success, now);
    }

    /// The call failed.
    pub fn failure(self, now: Duration) {
        self.record(Outcome::Failure, now);
    }

    /// The call ended like this. It took the time since it was admitted.
    pub fn record(mut self, outcome: Outcome, now: Duration) {
        self.settled = true;
        self.breaker.report(&self.ticket, outcome, now);
    }

    /// The call was called off. It counts as failed if it had run for `cancelled_fails_after`.
    pub fn cancel(mut self, now: Duration) {
        self.settled = true;
        self.breaker.cancelled(&self.ticket, Some(now));
    }
}

impl<B: Deref<Target = Breaker>> Drop for Permit<B> {
    fn drop(&mut self) {
        if !self.settled {
            self.breaker.cancelled(&self.ticket, None);
        }
    }
}

impl Breaker {
    /// Asks to make a call.
    pub fn admit(&self, now: Duration) -> Result<Permit<&Self>, Rejected> {
        let ticket = self.enter(now)?;
        Ok(Permit { breaker: self, ticket, settled: false })
    }

    /// Asks to make a call that may outlive the borrow.
    pub fn admit_owned(self: &Arc<Self>, now: Duration) -> Result<Permit<Arc<Self>>, Rejected> {
        let ticket = self.enter(now)?;
        Ok(Permit { breaker: Arc::clone(self), ticket, settled: false })
    }
}
