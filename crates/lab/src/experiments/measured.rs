//! Decides how experiments that measure this machine get their tiers: real threads, processes and clocks.

use std::io::Error as IoError;
use std::sync::Arc;

use divvy_pool::tiers::{Options, Tiers};
use tokio::runtime::{Builder, Runtime};

use crate::experiment::Error;

/// The four tiers, and the runtime that they stand on.
pub(super) struct Stage {
    pub(super) tiers: Arc<Tiers>,
    // Dropped last: the tiers use it.
    pub(super) runtime: Runtime,
}

/// Starts them. The async tier has one thread, so that what blocks it can be seen.
pub(super) fn stage(options: Options) -> Result<Stage, Error> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let tiers = Tiers::new(runtime.handle().clone(), options).map_err(broken)?;
    Ok(Stage { tiers: Arc::new(tiers), runtime })
}

/// An error of a part that the machine is to blame for.
pub(super) fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Machine(IoError::other(error))
}
