//! What the handlers of a worker share: where objects are, the tools, the server, and a place to work.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use divvy::objects::{BlobId, ObjectError, Objects};
use divvy::prelude::*;
use divvy_workload::Scratch;

use crate::plan::Plan;
use crate::room::Room;
use crate::tools::Tools;

/// Plans that are kept; a worker runs tasks of few videos at once.
const PLANS_MAX: usize = 8;

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
    room: Room,
    /// Removes what is in `scratch` at the end.
    place: Option<Arc<Scratch>>,
    client: Option<Client>,
    fetch: FetchRules,
    plans: Arc<Mutex<Plans>>,
}

/// The plans that were used last, the latest at the end. A plan is a blob, so what is kept never goes stale.
type Plans = VecDeque<(BlobId, Arc<Plan>)>;

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
        let shared = Shared {
            objects,
            tools,
            room: Room::at(&scratch),
            scratch,
            place: None,
            client: None,
            fetch: FetchRules::default(),
            plans: Arc::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// A studio that works in a place of its own, which goes with it.
    pub(crate) fn in_place(objects: Objects, tools: Tools, place: Scratch) -> Self {
        let mut studio = Self::new(objects, tools, place.path().to_owned());
        Arc::make_mut(&mut studio.shared).place = Some(Arc::new(place));
        studio
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

    /// The room that there is to work.
    pub(crate) fn room(&self) -> &Room {
        &self.shared.room
    }

    /// A folder for one attempt; it is removed with everything in it when it is dropped. Where the disk is nearly full,
    /// the attempt has to wait.
    pub fn folder(&self) -> Outcome<tempfile::TempDir> {
        self.room().check(0)?;
        Ok(tempfile::Builder::new().prefix("video-").tempdir_in(&self.shared.scratch)?)
    }

    /// A plan. It is read once for many tasks: that of a long video has megabytes.
    pub async fn plan(&self, id: BlobId) -> Outcome<Arc<Plan>> {
        if let Some(plan) = self.kept_plan(id) {
            return Ok(plan);
        }
        let bytes = self.objects().get(id).await.map_err(failure)?;
        let plan: Plan = serde_json::from_slice(&bytes)
            .map_err(|error| Failure::dead(format_args!("plan {id} cannot be read: {error}")))?;
        let plan = Arc::new(plan);
        let mut plans = self.plans();
        plans.retain(|(name, _)| *name != id);
        plans.push_back((id, plan.clone()));
        while plans.len() > PLANS_MAX {
            plans.pop_front();
        }
        Ok(plan)
    }

    fn kept_plan(&self, id: BlobId) -> Option<Arc<Plan>> {
        let mut plans = self.plans();
        let at = plans.iter().position(|(name, _)| *name == id)?;
        let kept = plans.remove(at)?;
        let plan = kept.1.clone();
        plans.push_back(kept);
        Some(plan)
    }

    fn plans(&self) -> MutexGuard<'_, Plans> {
        // A panic while it was held left a list that is whole.
        self.shared.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a problem with objects means for the task: one that is not there will not come back, the rest may.
pub(crate) fn failure(error: ObjectError) -> Failure {
    Failure::retry(error)
}
