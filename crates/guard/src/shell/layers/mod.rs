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

/// Takes the service that has said that it is ready, and leaves a clone: a clone need not be ready itself.
pub(crate) fn take_ready<S: Clone>(service: &mut S) -> S {
    let clone = service.clone();
    std::mem::replace(service, clone)
}
