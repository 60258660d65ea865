//! The server's edge: gRPC for workers and submitters, HTTP/JSON for people and programs, events and metrics, all on
//! one port around a [`divvy_engine::Handle`].
//!
//! Reading order: [`Options`] and [`Server`] (how it is started), `router` (which address does what), `guard` (who
//! may ask), `alerts` (what is not well), `http` (one file per resource), `grpc` (one file per service).
//!
//! **Invariant:** nothing is decided here about tasks. A request is checked for form, handed to the engine, and
//! answered with what the engine says.

mod alerts;
mod app;
mod budget;
mod grpc;
mod guard;
mod http;
mod listen;
mod objects;
mod options;
mod router;
mod samples;
mod session;
mod settings_file;

pub use listen::{Port, Server, Unbound};
pub use options::{Error, Options};
pub use settings_file::{FileSections, SettingsFile};
