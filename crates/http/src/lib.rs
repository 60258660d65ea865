//! The HTTP kit: what the server and every workload build their addresses from, so that all of them have the same
//! shape of errors, the same checks of bodies and parameters, the same limits and the same time-outs.
//!
//! Reading order: [`Routes`] (which address does what), [`Operation`] and [`Document`] (what OpenAPI says about it), [`ApiError`] (how a request is refused), [`JsonBody`],
//! [`Parameters`] and [`PathText`] (how a request is read), [`range`] (parts of large answers), [`Ring`] and
//! [`events`] (server-sent events that can be resumed), [`pages`] (what browsers show), [`figures`] (what monitors read).
//!
//! Knows neither the engine nor the server: a workload builds beside them, not after them.
//!
//! **Invariant:** what comes from outside is bounded in size, in number and in time, and a refusal names the field.

mod body;
#[cfg(debug_assertions)]
mod check;
mod document;
mod error;
mod operation;
mod parameters;
mod path;
mod ring;
mod routes;

pub mod events;
pub mod feed;
pub mod figures;
pub mod frame;
pub mod pages;
pub mod range;

pub use divvy_types::{Scope, Scopes};

pub use body::{BodyRoom, JsonBody, JsonBytes, NoFields, RawBytes, apart, form, parse};
pub use document::Document;
pub use error::{ApiError, no_such_address};
pub use feed::Feeds;
pub use frame::Frame;
pub use operation::{Described, Gives, Operation, Takes};
pub use parameters::{Parameters, rows};
pub use path::{Id, PathText, path_texts};
pub use ring::{Following, News, Ring};
pub use routes::{Mounted, Route, Routes, delete, get, head, options, patch, post, put};
