//! Where a job is: `state.json`, written by the driver when a stage is done or the job has ended, and by the server when
//! somebody cancels.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::view::StageView;
use crate::job::{OutputFile, Summary};

/// Where a job is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct JobFile {
    /// Whether somebody wants it to end.
    pub(crate) is_cancelled: bool,
    /// Stages that are done, as people see them.
    pub(crate) stages: Vec<StageView>,
    /// How it ended, if it has.
    pub(crate) ended: Option<Ended>,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ended {
    /// When, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// How.
    pub(crate) state: JobState,
    /// Why, if it is not done.
    #[serde(default)]
    pub(crate) reason: Option<String>,
    /// What it says, if it is done.
    #[serde(default)]
    pub(crate) summary: Option<Summary>,
}

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FlowState")]
#[serde(rename_all = "snake_case")]
pub(crate) enum JobState {
    /// No part runs yet.
    Waiting,
    /// Parts run.
    Running,
    /// A stream that was told to stop closes its windows with what it has read.
    Stopping,
    /// It was cancelled and ends what it has begun.
    Cancelling,
    /// The result is there.
    Done,
    /// A part cannot be done.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl JobState {
    /// Whether nothing more happens.
    pub(crate) fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }

    /// As people write it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Cancelling => "cancelling",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The result of a job: `out/manifest.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FlowManifest")]
pub(crate) struct Manifest {
    /// The job.
    pub(crate) job: String,
    /// Its kind.
    pub(crate) kind: String,
    /// Rows of all files.
    pub(crate) rows: u64,
    /// Bytes of all files.
    pub(crate) bytes: u64,
    /// Of a sort: the checksum of all rows, whatever their order, as 16 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) checksum: Option<String>,
    /// The files, in the order in which they belong together.
    pub(crate) files: Vec<OutputFile>,
}
