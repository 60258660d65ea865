//! What lasts: the [`Store`] trait, the suite that every store must pass (`conformance`, behind the feature of that
//! name), and two stores: [`memory`] for tests and benches of other parts, `sqlite` for everything else, behind the feature
//! of that name, which is on unless told otherwise.
//!
//! A store is given facts in order and answers for each [`divvy_types::Verdict`]: fencing and idempotency are
//! decided here for all back-ends. It knows nothing of readiness, order or workers.
//!
//! **Invariant:** when [`Store::commit`] returns `Ok`, every fact of the group survives the loss of power.

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod members;
pub mod memory;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod traits;

pub use divvy_types::OpenTask;
pub use members::{MemberEnd, MemberRecord, Members};
pub use memory::MemoryStore;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
pub use traits::{
    AttemptRecord, Error, Family, Maintenance, Outcome, Reader, Recovered, Room, SpilledLane,
    Store, TaskPage, TaskRecord, WorkflowPage,
};
