//! Layers for tower services, one per guard.

pub mod breaker;
pub mod bulkhead;
pub mod concurrency;
pub mod deadline;
pub mod hedge;
pub mod rate;
pub mod retry;
pub mod shed;
pub mod timeout;
