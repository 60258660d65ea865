//! Everything that a file with tasks, handlers or workflows usually needs.

pub use std::time::Duration;

pub use divvy_types::{Matching, OnConflict};
pub use serde::{Deserialize, Serialize};

pub use crate::client::{Client, NewSchedule, TaskHandle};
#[cfg(feature = "worker")]
pub use crate::extract::{
    Attempt, Cancel, Checkpoint, Child, Log, Parents, Progress, Spawner, State, Upstream, Upstreams,
};
#[cfg(feature = "worker")]
pub use crate::failure::{Failure, Outcome};
pub use crate::task::{Task, TaskOptions};
#[cfg(feature = "worker")]
pub use crate::worker::Worker;
pub use crate::workflow::{Node, Run, Workflow};
pub use divvy_types::schedule::{CatchUp, Overlap};
