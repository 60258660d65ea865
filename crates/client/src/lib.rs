//! How a server is reached, decided once for the command line, programs and workers.
//!
//! Reading order: [`Target`] (where a server is, and what proves it), [`Api`] (JSON requests, over sockets or in
//! process), [`Reply`] (an answer, kept as it came), [`Frames`] (server-sent events), [`Channel`] (gRPC), [`Error`],
//! [`Patience`] (how long a server that is away is waited for).
//!
//! - `https://` trusts the authorities of this machine, or only the one that [`Target::ca`] names.
//! - A proxy of the environment is used for `https://` alone, as a tunnel: it never sees a token. Loopback is reached
//!   directly in any case.
//! - Only divvy's own words are refusals. Every one of them bears the header [`MARK`]; an answer without it comes from
//!   something in between and means no more than that the server was not reached.
//! - Over sockets and in process the same code runs; [`Api::in_process`] merely calls the server's service where the
//!   other sends bytes.
//!
//! **Invariant:** nothing here knows what a task is; what is asked and what an answer means belongs to the callers.

mod api;
mod body;
mod error;
mod frames;
mod grpc;
mod patience;
mod reply;
mod target;
mod tls;
mod wire;

pub use divvy_types::REFUSAL_MARK as MARK;

pub use api::{Api, Asked, Query, is_own};
pub use error::{Error, cause};
pub use frames::{Frame, Frames};
pub use grpc::Channel;
pub use patience::Patience;
pub use reply::{Reply, parse_rows};
pub use reqwest;
pub use target::{DEFAULT_SERVER, Target};
pub use wire::plain;
