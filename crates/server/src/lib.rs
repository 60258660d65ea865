//! The server's edge: gRPC for workers and submitters, HTTP/JSON for people and programs, events and metrics, all on
//! one port around a [`divvy_engine::Handle`].
//!
//! Reading order: [`Options`] and [`Server`] (how it is started), `router` (which address does what), `door` and `guard`
//! (who may ask), `tokens` (what they show), `tls` (what the server shows), `alerts` (what is not well), `pulse` (what dashboards follow), [`lab`] (experiments from a page), `scale` (pools of workers), `http` (one file
//! per resource), `grpc` (one file per service).
//!
//! **Invariant:** nothing is decided here about tasks. A request is checked for form, handed to the engine, and
//! answered with what the engine says.

mod alerts;
mod app;
mod budget;
mod door;
mod durable;
mod files;
mod grpc;
mod guard;
mod guesses;
mod http;
pub mod lab;
mod listen;
mod objects;
mod options;
mod pulse;
mod quiet;
mod router;
mod samples;
mod scale;
mod session;
mod settings_file;
mod tls;
mod tokens;

pub use listen::{Port, Server, Unbound};
pub use options::{Error, Options, TOKEN_LEN_MIN};
pub use scale::{LocalOrder, LocalWorkers, Scaling};
pub use settings_file::{FileSections, SettingsFile};
pub use tls::TlsFiles;
pub use tokens::{NewToken, TOKEN_NAME_LEN_MAX, TOKENS_MAX, TokenError, Tokens};
