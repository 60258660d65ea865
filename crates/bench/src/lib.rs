//! `divvy bench`: measures this machine, each figure beside a physical limit or a bare part in the same run.
//!
//! Every benchmark but `patterns` and `scheduler`, which stay in this process, starts a private server on a temporary
//! store and leaves nothing behind. `BENCHMARKING.md` says what the figures mean.

mod backlog;
mod command;
mod disk;
mod idle;
mod latency;
mod life;
mod lists;
mod lives;
mod patterns;
mod recovery;
mod scheduler;
mod store_only;
mod submitter;

pub use command::{Args, run};
