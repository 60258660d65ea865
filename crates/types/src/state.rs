//! Where a task is in its life. `docs/states.md` has the picture.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The seven places a task can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    /// Waits for tasks that it depends on.
    Blocked,
    /// Waits for a point in time: its `run_at`, or the end of a retry's backoff.
    Scheduled,
    /// Waits for a worker.
    Ready,
    /// Granted to a worker, which runs it or is about to.
    Leased,
    /// Finished with a result. Final.
    Done,
    /// Failed for good: a dead letter. Final unless replayed.
    Dead,
    /// Will not run, because someone said so or something it needs failed. Final unless retried.
    Cancelled,
}

impl TaskState {
    /// All states, in the order of a life.
    pub const ALL: [Self; 7] = [
        Self::Blocked,
        Self::Scheduled,
        Self::Ready,
        Self::Leased,
        Self::Done,
        Self::Dead,
        Self::Cancelled,
    ];

    /// Whether nothing more will happen by itself.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Dead | Self::Cancelled)
    }

    /// Whether it ended without a result.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Dead | Self::Cancelled)
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Scheduled => "scheduled",
            Self::Ready => "ready",
            Self::Leased => "leased",
            Self::Done => "done",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that is no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a state: expected blocked, scheduled, ready, leased, done, dead or cancelled"
)]
pub struct InvalidState(pub String);

impl FromStr for TaskState {
    type Err = InvalidState;
    fn from_str(text: &str) -> Result<Self, InvalidState> {
        // People ask for what runs; what a worker has and has not begun is leased too.
        let text = if text == "running" { "leased" } else { text };
        let state = Self::ALL.into_iter().find(|s| s.as_str() == text);
        state.ok_or_else(|| InvalidState(text.chars().take(64).collect()))
    }
}
