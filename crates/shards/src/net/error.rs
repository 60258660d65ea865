//! Why a machine could not be reached, cut by what the crawler does about it.

use std::io;
use std::time::Duration;

use divvy::net::RefusedAddress;
use thiserror::Error;

use super::{NameError, RefusedTarget};

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The URL is not one that is asked. Another try cannot help.
    #[error(transparent)]
    Target(#[from] RefusedTarget),
    /// The name stands for an address that may not be reached. Another try cannot help.
    #[error(
        "`{}` stands for {}, which is {}; allow it with --allow-private {} of the crawl and --allow-private of its worker",
        .0.host, .0.address, .0.sort, .0.address
    )]
    Address(Box<RefusedAddress>),
    /// The crawler does not say who it is. Another try cannot help.
    #[error(
        "`{0}` is not on this machine, and the crawler does not say who it is; give --user-agent 'name/1.0 (+https://…)'"
    )]
    Unidentified(String),
    /// The name cannot be resolved.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The machine refuses, or there is no way to it.
    #[error("cannot connect to {target}: {source}")]
    Connect {
        /// Host and port.
        target: String,
        /// What the system says.
        source: io::Error,
    },
    /// The machine does not answer.
    #[error("cannot connect to {target} within {limit:?}")]
    Timeout {
        /// Host and port.
        target: String,
        /// How long was waited.
        limit: Duration,
    },
    /// The machine cannot prove who it is, or speaks no TLS.
    #[error("cannot speak TLS with {target}: {source}")]
    Tls {
        /// Host and port.
        target: String,
        /// What went wrong.
        source: io::Error,
    },
}

impl From<RefusedAddress> for ConnectError {
    fn from(refused: RefusedAddress) -> Self {
        Self::Address(Box::new(refused))
    }
}
