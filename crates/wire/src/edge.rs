//! What the services of gRPC reach: the engine, room for what waits, and who else wants to know of workers.

use std::ops::Deref;
use std::sync::Arc;

use divvy_engine::Handle;
use divvy_proto::v1::MachineLoad;
use divvy_types::{Name, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::budget::Budget;

/// A cheap clone of what services share.
#[derive(Clone)]
pub struct Edge(Arc<Shared>);

/// What services share.
pub struct Shared {
    /// The engine.
    pub handle: Handle,
    /// Room for submissions that wait for the engine.
    pub budget: Budget,
    /// What workers are told about silence.
    pub lease_ms: u64,
    /// Cancelled when the server stops: endless answers end then.
    pub shutdown: CancellationToken,
    /// Who else wants to know of workers.
    pub crew: Box<dyn Crew>,
}

impl From<Shared> for Edge {
    fn from(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }
}

impl Deref for Edge {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// Those in a server who want to know of workers, besides the engine. Whoever is told must not wait for anything.
pub trait Crew: Send + Sync + 'static {
    /// Workers came or went, and the engine knows it.
    fn changed(&self);
    /// This worker came.
    fn came(&self, worker: &Name, now: Timestamp);
    /// A worker said something.
    fn spoke(&self);
    /// How busy the machine of a worker is.
    fn is_loaded(&self, worker: &Name, load: MachineLoad);
    /// The stream of this worker ended. The engine does not know it yet.
    fn left(&self, worker: &Name);
}
