//! What the handlers of a worker share: where objects are, the tools, and a place to work.

use std::path::PathBuf;
use std::sync::Arc;

use divvy::objects::{BlobId, ObjectError, Objects};
use divvy::prelude::*;

use crate::plan::Plan;
use crate::tools::Tools;

/// What the handlers of a worker share; a clone is cheap.
#[derive(Clone, Debug)]
pub struct Studio {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    objects: Objects,
    tools: Tools,
    scratch: PathBuf,
}

impl Studio {
    /// A studio that works in `scratch`.
    pub fn new(objects: Objects, tools: Tools, scratch: PathBuf) -> Self {
        Self { shared: Arc::new(Shared { objects, tools, scratch }) }
    }

    /// Where objects are.
    pub fn objects(&self) -> &Objects {
        &self.shared.objects
    }

    /// The tools.
    pub fn tools(&self) -> &Tools {
        &self.shared.tools
    }

    /// A folder for one attempt; it is removed with everything in it when it is dropped.
    pub fn folder(&self) -> Outcome<tempfile::TempDir> {
        Ok(tempfile::Builder::new().prefix("video-").tempdir_in(&self.shared.scratch)?)
    }

    /// A plan.
    pub async fn plan(&self, id: BlobId) -> Outcome<Plan> {
        let bytes = self.objects().get(id).await.map_err(failure)?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Failure::dead(format_args!("plan {id} cannot be read: {error}")))
    }
}

/// What a problem with objects means for the task: one that is not there will not come back, the rest may.
pub(crate) fn failure(error: ObjectError) -> Failure {
    Failure::retry(error)
}
