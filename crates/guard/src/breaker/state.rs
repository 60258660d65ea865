//! The words of a breaker: its states, what moves it, what it answers. Data only.

use std::fmt;
use std::time::Duration;

/// Whether calls pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// Calls pass.
    Closed = 0,
    /// Calls are refused until the open time is over.
    Open = 1,
    /// A few calls pass, to see whether the part is well again.
    HalfOpen = 2,
    /// Calls are refused until somebody says otherwise.
    ForcedOpen = 3,
    /// Calls pass, whatever happens to them, until somebody says otherwise.
    ForcedClosed = 4,
}

impl State {
    /// How many states there are.
    pub(super) const COUNT: usize = 5;

    /// Whether calls are kept away, all or all but a few.
    pub fn keeps_away(self) -> bool {
        matches!(self, Self::Open | Self::HalfOpen | Self::ForcedOpen)
    }

    /// The name by which it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
            Self::ForcedOpen => "forced open",
            Self::ForcedClosed => "forced closed",
        }
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        match bits {
            0 => Self::Closed,
            1 => Self::Open,
            2 => Self::HalfOpen,
            3 => Self::ForcedOpen,
            _ => Self::ForcedClosed,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a call ended, as far as the part that was called is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Success,
    /// Badly.
    Failure,
    /// In a way that says nothing about the part, such as an error of the caller.
    Ignored,
}

/// Why a breaker changed its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Too many calls failed one after the other.
    ConsecutiveFailures,
    /// Too large a share of the recent calls failed.
    FailureRate,
    /// Too large a share of the recent calls was slow.
    SlowRate,
    /// The open time is over.
    Recovery,
    /// Enough probes went well.
    ProbesSucceeded,
    /// A probe failed or was slow.
    ProbeFailed,
    /// A probe did not report in time.
    ProbeTimedOut,
    /// Somebody forced it.
    Forced,
    /// Somebody reset it.
    Reset,
}

/// One change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The state before.
    pub from: State,
    /// The state after.
    pub to: State,
    /// When.
    pub at: Duration,
    /// Why.
    pub cause: Cause,
}

/// A call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The state that refuses.
    pub state: State,
    /// How long to wait before a call can pass, if that is known: not when forced, nor while others probe.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the breaker is {} and refuses the call", self.state)?;
        match self.retry_after {
            Some(wait) => write!(f, "; try again in {wait:?}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Rejected {}
