//! The interface through which a workload plugs into divvy. One value brings everything that it consists of: the kinds
//! of its tasks, addresses and pages, its part of the API's description, a section of `divvy.yaml`, a subcommand, flags
//! of workers, checks of `divvy doctor`, a benchmark, a sample, and what of the data folder it needs.
//!
//! The binary lists its workloads; nothing else in the command line and the server knows any by name:
//!
//! ```ignore
//! fn main() -> std::process::ExitCode {
//!     divvy_cli::main(vec![Arc::new(divvy_video::VideoWorkload), Arc::new(MyWorkload)])
//! }
//! ```
//!
//! Reading order: [`Workload`] (everything that one can bring; each part has a default, so a small workload is short),
//! [`settings`] (where values come from), [`Context`] (what a command works with), [`WorkerContext`] and
//! [`ServerContext`] (what a worker and a server give), [`UpContext`] (how `divvy up` starts), [`Finding`] (what a check
//! says).
//!
//! **Invariant:** nothing here decides. A workload depends on this crate and the SDK, never on the server or the engine.

mod context;
mod finding;
mod listing;
pub mod private;
mod server;
pub mod settings;
mod up;
mod worker;
mod workload;

pub use clap;
pub use context::Context;
pub use divvy_console as console;
pub use divvy_http as http;
pub use finding::{Finding, Grade};
pub use listing::Listing;
pub use server::{RegisterMetrics, ServerContext, ServerPart};
pub use settings::{Origin, Row, Setting, Sources};
pub use up::{Prepared, SampleContext, UpContext};
pub use worker::{WorkerContext, WorkerPart};
pub use workload::{BoxFuture, DataFolders, Doing, Workload};
