//! What the handlers of a worker share: where objects are, the tools, the server, and a place to work.

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

#[derive(Clone, Debug)]
struct Shared {
    objects: Objects,
    tools: Tools,
    scratch: PathBuf,
    client: Option<Client>,
    fetch: FetchRules,
}

/// What may be fetched from the web.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchRules {
    /// Whether loopback, private and other special addresses may be reached.
    pub allow_private: bool,
    /// The largest source, in bytes.
    pub bytes_max: u64,
}

impl Default for FetchRules {
    fn default() -> Self {
        Self { allow_private: false, bytes_max: 50_000_000_000 }
    }
}

impl Studio {
    /// A studio that works in `scratch`.
    pub fn new(objects: Objects, tools: Tools, scratch: PathBuf) -> Self {
        let (client, fetch) = (None, FetchRules::default());
        Self { shared: Arc::new(Shared { objects, tools, scratch, client, fetch }) }
    }

    /// Lets handlers ask the server about the other workers and about what tasks took. Without it a plan is made for
    /// this worker alone, and nothing is learnt.
    #[must_use]
    pub fn with_client(mut self, client: Client) -> Self {
        Arc::make_mut(&mut self.shared).client = Some(client);
        self
    }

    /// What may be fetched, instead of the default.
    #[must_use]
    pub fn with_fetch_rules(mut self, rules: FetchRules) -> Self {
        Arc::make_mut(&mut self.shared).fetch = rules;
        self
    }

    /// Where objects are.
    pub fn objects(&self) -> &Objects {
        &self.shared.objects
    }

    /// The tools.
    pub fn tools(&self) -> &Tools {
        &self.shared.tools
    }

    /// The server, if it may be asked.
    pub fn client(&self) -> Option<&Client> {
        self.shared.client.as_ref()
    }

    /// What may be fetched.
    pub fn fetch_rules(&self) -> FetchRules {
        self.shared.fetch
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
