//! Durable tasks for Rust programs: describe work as types, run it on workers, wait for results.
//!
//! ```no_run
//! use divvy::prelude::*;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Greet { name: String }
//!
//! impl Task for Greet {
//!     const KIND: &'static str = "greet";
//!     type Output = String;
//! }
//!
//! async fn greet(task: Greet) -> Outcome<String> {
//!     Ok(format!("hello, {}", task.name))
//! }
//!
//! # async fn example() -> anyhow::Result<()> {
//! tokio::spawn(Worker::new("greeter").on(greet).run());      // here, or in any other process
//! let client = Client::connect_env().await?;                 // needs a server: `divvy up`
//! let handle = client.submit(Greet { name: "world".into() }).await?;
//! assert_eq!(handle.wait().await?, "hello, world");
//! # Ok(()) }
//! ```
//!
//! Reading order: [`Task`] (what work is), [`extract`] (what a handler may ask for), [`Failure`] (how it says that it
//! did not work), [`Worker`] (who runs it), [`Client`] (who wants it), [`Workflow`] (tasks that wait for each other),
//! `testing` (the same without a server, behind the feature of that name).
//!
//! A handler may run more than once: a worker may die after the work was done and before that was recorded. Its
//! *finish* is recorded exactly once. Use the token of [`extract::Attempt`] where an outside system must refuse an
//! attempt that was replaced.
//!
//! **Invariant:** nothing here decides about tasks; the server does. A submission that returned is durable.

mod client;
#[cfg(feature = "worker")]
mod context;
#[cfg(feature = "worker")]
pub mod extract;
#[cfg(feature = "worker")]
mod failure;
#[cfg(feature = "worker")]
mod handler;
#[cfg(feature = "worker")]
pub mod net;
#[cfg(feature = "objects")]
pub mod objects;
mod options;
pub mod prelude;
#[cfg(doctest)]
mod readme;
mod task;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "worker")]
mod worker;
mod workflow;

pub use client::{
    Api, Batch, Client, DEFAULT_SERVER, Error, Follow, NewSchedule, News, Reply, RunProgress,
    Schedules, Submitted, Target, TaskHandle, WaitError,
};
#[cfg(feature = "worker")]
pub use context::{Context, MissingState, States};
pub use divvy_client as api;
pub use divvy_types as types;
pub use divvy_types::schedule::{CatchUp, Overlap, ScheduleView};
#[cfg(feature = "worker")]
pub use divvy_worker::{Registry, Shutdown, Slots, Summary};
#[cfg(feature = "worker")]
pub use failure::{Failure, Outcome};
#[cfg(feature = "worker")]
pub use handler::{AsyncHandler, SyncHandler};
pub use task::{Task, TaskOptions};
#[cfg(feature = "worker")]
pub use worker::{Worker, WorkerError};
pub use workflow::{Node, Nodes, Run, RunSummary, UnfinishedRun, Workflow, in_batches};
