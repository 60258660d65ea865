//! News of a running attempt: how far it is, and what it has to say.
//!
//! Both are cheap to call as often as the handler likes: the worker sends what changed with its next heartbeat.

use super::Extract;
use crate::context::Context;
use crate::failure::Failure;

/// Says how far the attempt is.
#[derive(Clone, Debug)]
pub struct Progress(divvy_worker::ProgressReporter);

impl Progress {
    /// `done` of `total` units; a `total` of 0 means that it is not known.
    pub fn set(&self, done: u64, total: u64) {
        self.0.set(done, total);
    }

    /// What the attempt does at the moment.
    pub fn message(&self, text: impl AsRef<str>) {
        self.0.message(text.as_ref());
    }
}

/// Adds lines to the attempt's log, whose last 64 KiB are kept with the task.
#[derive(Clone, Debug)]
pub struct Log(divvy_worker::ProgressReporter);

impl Log {
    /// Adds a line.
    pub fn line(&self, text: impl AsRef<str>) {
        self.0.log(text.as_ref());
    }
}

impl Extract for Progress {
    fn extract(context: &Context) -> Result<Self, Failure> {
        Ok(Self(context.reporter()))
    }
}

impl Extract for Log {
    fn extract(context: &Context) -> Result<Self, Failure> {
        Ok(Self(context.reporter()))
    }
}
