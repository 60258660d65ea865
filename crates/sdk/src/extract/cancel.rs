//! The order to stop.
//!
//! An attempt is told to stop when its task is cancelled, when it runs over its time limit, and when the worker
//! stops at once. Stopping is a request: an async handler that goes on is dropped after a grace time, a thread is
//! left behind, and what either returns afterwards does not count.

use std::future::Future;

use super::Extract;
use crate::context::Context;
use crate::failure::Failure;

/// Tells a handler to stop.
#[derive(Clone, Debug)]
pub struct Cancel(divvy_worker::Cancel);

impl Cancel {
    /// Never tells to stop: for code of handlers that is called without an attempt.
    pub fn never() -> Self {
        let spec = divvy_types::TaskSpec::new(crate::task::fresh_id(), "none");
        let (attempt, _) =
            divvy_worker::Attempt::detached(spec, divvy_types::Token(1), 1, [].into());
        Self(attempt.cancelled())
    }

    /// Whether the attempt shall stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Why, once it shall.
    pub fn reason(&self) -> Option<String> {
        self.0.reason().map(|reason| reason.to_string())
    }

    /// Returns when the attempt shall stop.
    pub async fn cancelled(&self) {
        self.0.wait().await;
    }

    /// An error once the attempt shall stop: for the loops of synchronous handlers, with `?`.
    pub fn check(&self) -> Result<(), Failure> {
        if self.is_cancelled() { Err(self.failure()) } else { Ok(()) }
    }

    /// Waits for `work`, or for the order to stop if that comes first; then `work` is dropped.
    pub async fn guard<F: Future>(&self, work: F) -> Result<F::Output, Failure> {
        tokio::select! {
            biased;
            () = self.cancelled() => Err(self.failure()),
            output = work => Ok(output),
        }
    }

    fn failure(&self) -> Failure {
        match self.reason() {
            Some(reason) => Failure::cancelled().because(reason),
            None => Failure::cancelled(),
        }
    }
}

impl Extract for Cancel {
    fn extract(context: &Context) -> Result<Self, Failure> {
        Ok(Self(context.cancel()))
    }
}
