//! The only place with a clock: wrappers that run functions and futures under the cores.

pub mod breaker;
pub mod bulkhead;
pub mod clock;
pub mod concurrency;
pub mod deadline;
pub mod fanout;
pub mod hedge;
#[cfg(feature = "tower")]
pub mod layers;
pub mod rate;
pub mod retry;
pub mod shed;
pub mod timeout;
