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
//! says). What commands of workloads do alike is in [`View`] (things that people start, watch and end) and [`follow`], what they share
//! on disk in [`files`], where their workers keep what goes with them in [`Scratch`], how their workers run programs of others in [`confine`] and [`provider`].
//!
//! **Invariant:** nothing here decides. A workload depends on this crate and the SDK, never on the server or the engine.

mod clock;
pub mod confine;
mod context;
pub mod files;
mod finding;
pub mod follow;
mod listing;
pub mod private;
pub mod provider;
mod scratch;
mod server;
pub mod settings;
mod up;
pub mod view;
mod worker;
mod workload;

pub use clap;
pub use clock::now_ms;
pub use context::Context;
pub use divvy_console as console;
pub use divvy_http as http;
pub use finding::{Finding, Grade};
pub use listing::Listing;
pub use scratch::Scratch;
pub use server::{RegisterMetrics, ServerContext, ServerPart};
pub use settings::{Origin, Row, Setting, Sources};
pub use up::{Prepared, SampleContext, UpContext};
pub use view::View;
pub use worker::{WorkerContext, WorkerPart};
pub use workload::{BoxFuture, DataFolders, Doing, Workload};
