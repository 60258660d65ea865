//! Where the machines meet: one synchronous step ([`core`]) and the loop that drives it ([`runner`]).
//!
//! Reading order: [`request`] (what can be asked), [`core`] (request → machines → facts and effects;
//! `task_requests`, `worker_requests`, `schedule_requests`, `locate`, `unique`, `settings` and `recover` are its
//! parts), [`group`] (what is committed together), `writer` (commit, then let the effects out), [`runner`] (the
//! loop), [`handle`] (the way in), [`query`] (reads; `list`, `workflow_query` and `workflow_graph` are its parts), [`bulk`] (many tasks by filter), [`schedules`] (tasks that
//! come by themselves).
//!
//! **Invariant:** an effect (a reply, a grant, an answer) leaves the process only after every fact recorded before
//! it is durable. Groups are committed one after another; while one is being synced the loop fills the next.

pub mod bulk;
pub mod clock;
pub mod core;
mod explain;
pub mod group;
pub mod handle;
pub mod inline;
mod list;
pub mod live;
mod locate;
mod outline;
pub mod query;
mod reads;
mod reconfigure;
mod recover;
mod refusal;
pub mod request;
mod resume;
pub mod runner;
mod schedule_requests;
pub mod schedules;
mod settings;
pub mod stats;
mod task_log;
mod task_requests;
mod times;
mod unique;
mod verdicts;
mod worker_requests;
mod workflow_graph;
mod workflow_query;
mod workflows;
mod writer;

pub use divvy_types::{Submitted, WorkerHello, WorkerTier};

pub use bulk::{Bulk, BulkAction, BulkReport};
pub use handle::Handle;
pub use inline::InlineEngine;
pub use request::{
    Error, GrantedTask, Outbox, ProgressUpdate, Request, SettingsChange, SubmitOptions, ToWorker,
    WorkerReport,
};
pub use runner::{Engine, Options, Stopper};
pub use schedule_requests::ScheduleRequest;
pub use stats::Snapshot;
pub use task_log::{AttemptLog, TaskLog};
