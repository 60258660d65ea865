//! Where the machines meet: one synchronous step ([`core`]) and the loop that drives it ([`runner`]).
//!
//! Reading order: [`request`] (what can be asked), [`core`] (request → machines → facts and effects;
//! `task_requests`, `worker_requests`, `locate` and `recover` are its parts), [`group`]
//! (what is committed together), `writer` (commit, then let the effects out), [`runner`] (the loop), [`handle`]
//! (the way in), [`query`] (reads).
//!
//! **Invariant:** an effect (a reply, a grant, an answer) leaves the process only after every fact recorded before
//! it is durable. Groups are committed one after another; while one is being synced the loop fills the next.

pub mod core;
mod explain;
pub mod group;
pub mod handle;
pub mod inline;
pub mod live;
mod locate;
pub mod query;
mod reconfigure;
mod recover;
pub mod request;
pub mod runner;
pub mod stats;
mod task_requests;
mod worker_requests;
mod writer;

pub use handle::Handle;
pub use inline::InlineEngine;
pub use query::{TaskFilter, TaskLog};
pub use request::{
    Error, GrantedTask, Outbox, ProgressUpdate, Request, SettingsChange, Submitted, ToWorker,
    WorkerHello, WorkerReport,
};
pub use runner::{Engine, Options, Stopper};
pub use stats::Snapshot;
