//! Runs tasks: takes grants from a server, executes handlers on tiers, and reports how attempts ended.
//!
//! Reading order: [`Options`] (what a worker offers), [`Registry`] and the handler traits (what it can run),
//! [`Attempt`] (what a handler gets), [`Worker`] (the loop), [`Shutdown`] (how it ends), [`builtin`] (the kinds
//! that every worker can serve).
//!
//! A grant waits in a local queue of its tier until a slot is free. The end of an attempt goes to the outbox, where
//! it stays until the server answered it, over reconnects too; the next task does not wait for that answer. A grant that
//! still waits may be recalled by the server, for another worker.
//!
//! **Invariant:** an attempt is reported exactly once per token, whoever ends it first: its handler, its time-out,
//! a stop, a recall, or the shutdown of the worker. Nothing is sent while no task is held.

mod attempt;
pub mod builtin;
mod checkpoint;
mod error;
mod handler;
mod machine;
mod notes;
mod options;
mod outgoing;
mod recall;
mod run;
mod session;
mod shutdown;
mod state;
mod worker;

pub use divvy_pool::Tier;

pub use attempt::{Attempt, AttemptProbe, Cancel, CancelReason, ProgressReporter};
pub use checkpoint::{CheckpointError, Checkpointer};
pub use error::Error;
pub use handler::{BlockingHandler, BoxFuture, Handler, Registry};
pub use options::{Options, Slots};
pub use shutdown::Shutdown;
pub use worker::{Summary, Worker};
