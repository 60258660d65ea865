//! The server's edge for people and programs: HTTP/JSON, pages and metrics, beside the gRPC and the connections of
//! [`divvy_wire`], all on one port around a [`divvy_engine::Handle`].
//!
//! Reading order: [`Options`] and [`Server`] (how it is started), `router` (which address does what), `guard` (who may ask),
//! `tokens` (what they show), `tls` (what the server shows), `alerts` (what is not well), `pulse` (what dashboards follow),
//! [`lab`] (experiments from a page), `scale` (pools of workers), `keda` (who else asks for them), `traces` (spans for
//! collectors), `http` (one file per resource).
//!
//! **Invariant:** nothing is decided here about tasks. A request is checked for form, handed to the engine, and
//! answered with what the engine says. What every task passes is in `divvy-wire`, which is optimised; this crate is
//! not, because people wait for its compiler more than for its answers.

mod alerts;
mod app;
mod durable;
mod files;
mod guard;
mod guesses;
mod http;
mod keda;
pub mod lab;
mod listen;
mod objects;
mod options;
mod pulse;
mod router;
mod samples;
mod scale;
mod session;
mod settings_file;
mod tls;
mod tokens;
mod traces;

pub use alerts::{AlertOptions, Command, RULES, Rule, RuleOptions, Sink, Webhook};
pub use listen::{Port, Server, Unbound};
pub use options::{Error, Options, TOKEN_LEN_MIN};
pub use scale::{LocalOrder, LocalWorkers, Scaling};
pub use settings_file::{FileSections, SettingsFile};
pub use tls::TlsFiles;
pub use tokens::{NewToken, TOKEN_NAME_LEN_MAX, TOKENS_MAX, TokenError, Tokens};
