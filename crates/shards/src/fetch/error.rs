//! Why there is no page, cut by what the crawler does about it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::net::{ConnectError, NameError};

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum FetchError {
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// No answer began in time.
    #[error("no answer from {target} within {limit:?}")]
    FirstByte {
        /// Host and port.
        target: String,
        /// How long was waited.
        limit: Duration,
    },
    /// The answer did not end in time.
    #[error("the answer of {target} has not ended within {limit:?}")]
    Whole {
        /// Host and port.
        target: String,
        /// How long was waited.
        limit: Duration,
    },
    /// The answer comes too slowly.
    #[error("{target} sent less than {bytes} bytes within {window:?}")]
    TooSlow {
        /// Host and port.
        target: String,
        /// What was expected at least.
        bytes: u64,
        /// In which time.
        window: Duration,
    },
    /// The connection broke before the answer was whole.
    #[error("the connection to {target} broke: {source}")]
    Broken {
        /// Host and port.
        target: String,
        /// What happened.
        source: hyper::Error,
    },
    /// The head of the answer is too large.
    #[error("the headers of {target} are more than {count} or {bytes} bytes")]
    Headers {
        /// Host and port.
        target: String,
        /// How many there may be.
        count: usize,
        /// How large they may be.
        bytes: usize,
    },
    /// The answer is not HTTP.
    #[error("{target} does not speak HTTP as it should: {problem}")]
    Malformed {
        /// Host and port.
        target: String,
        /// What is wrong.
        problem: String,
    },
}

/// What went wrong, in one word that is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// Scheme, port or address are not asked, or the crawler has no name.
    Refused,
    /// There is no such host.
    NameUnknown,
    /// Nobody could say what the host stands for.
    NameFailed,
    /// The machine refuses or there is no way to it.
    Connect,
    /// The machine cannot prove who it is.
    Tls,
    /// No connection, no answer or no end in time.
    Timeout,
    /// The answer came too slowly.
    TooSlow,
    /// The connection broke.
    Broken,
    /// Headers without bounds.
    Headers,
    /// Not HTTP.
    Malformed,
}

/// What the crawler does about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// Nothing: another try cannot help.
    Drop,
    /// One more try, in an hour.
    Once,
    /// Several tries, each later than the one before.
    Retry,
}

impl Trouble {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::NameUnknown => "name_unknown",
            Self::NameFailed => "name_failed",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::TooSlow => "too_slow",
            Self::Broken => "broken",
            Self::Headers => "headers",
            Self::Malformed => "malformed",
        }
    }

    /// What the crawler does about it.
    pub fn course(self) -> Course {
        match self {
            Self::Refused | Self::Headers => Course::Drop,
            Self::NameUnknown | Self::Tls | Self::Malformed => Course::Once,
            Self::NameFailed | Self::Connect | Self::Timeout | Self::TooSlow | Self::Broken => {
                Course::Retry
            }
        }
    }
}

impl FetchError {
    /// What went wrong, in one word.
    pub fn trouble(&self) -> Trouble {
        match self {
            Self::Connect(error) => match error {
                ConnectError::Target(_)
                | ConnectError::Address(_)
                | ConnectError::Unidentified(_) => Trouble::Refused,
                ConnectError::Name(NameError::Unknown(_)) => Trouble::NameUnknown,
                ConnectError::Name(NameError::Failed { .. }) => Trouble::NameFailed,
                ConnectError::Connect { .. } => Trouble::Connect,
                ConnectError::Timeout { .. } => Trouble::Timeout,
                ConnectError::Tls { .. } => Trouble::Tls,
            },
            Self::FirstByte { .. } | Self::Whole { .. } => Trouble::Timeout,
            Self::TooSlow { .. } => Trouble::TooSlow,
            Self::Broken { .. } => Trouble::Broken,
            Self::Headers { .. } => Trouble::Headers,
            Self::Malformed { .. } => Trouble::Malformed,
        }
    }
}
