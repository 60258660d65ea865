//! Threads: a work-stealing pool with priorities, inboxes and tiers.
//!
//! [`Pool`] runs closures on threads that take work from each other; [`Options`] says how many, where tasks are placed
//! and who steals from whom; [`Handle`] and [`Scope`] bring values back; [`Tiers`] puts four ways to run code side by
//! side: async, blocking, cpu, process. How the queues and the wake-ups work: `README.md` beside this file.
//!
//! **Invariant:** a task that was submitted runs exactly once, or is handed back by [`Pool::shutdown`]. A task of the
//! protected band that was placed on a worker runs there. `unsafe` is only in `task.rs` and `scope.rs`.

#![cfg_attr(
    test,
    allow(clippy::duplicate_mod, reason = "the model compiles the parking with loom's types")
)]

pub mod adaptive;
mod crew;
mod handle;
#[cfg(test)]
mod model;
mod options;
mod parking;
mod place;
mod pool;
mod queues;
mod scope;
mod shared;
mod stats;
mod sync;
mod task;
pub mod tiers;
mod worker;

pub use handle::{Handle, JoinError};
pub use options::{
    Band, Error, Options, Placement, STACK_BYTES_MIN, Start, StartHook, Victim, WORKERS_MAX,
};
pub use pool::{Pool, Report, Route, Shutdown, To};
pub use scope::Scope;
pub use stats::{Load, Stats, WorkerStats};
pub use task::{INLINE_WORDS, Task};
pub use tiers::{Tier, Tiers};
