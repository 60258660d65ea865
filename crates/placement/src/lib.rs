//! Where work goes: one [`Policy`] interface for the threads of a process, the backends of a service and the workers
//! of a cluster.
//!
//! Reading order: [`target`] (what can be picked), [`policy`] (the interface: a pick over a view, events back),
//! [`balancer`] (targets and a policy together, with everything that changes at run time), [`policies`] (one file per
//! policy), [`shared`] (one balancer for many threads), [`hashing`] (rings and their relatives, hot keys), [`load`]
//! (statistics, health, capacity, plans).
//!
//! Time is an argument: a `Duration` since any fixed moment that the caller chooses. Chance comes from generators
//! that are seeded from outside. So the same code decides in a server, in a test and in a simulation.
//!
//! **Invariant:** nothing here reads a clock, draws an unseeded random number, starts a thread or does I/O. A target
//! that is down or draining is never picked.

pub mod balancer;
pub mod hashing;
pub mod load;
pub mod policies;
pub mod policy;
pub mod shared;
pub mod target;

pub use balancer::{Balancer, Batch};
pub use policy::{Event, Outcome, Pick, Policy, Ranked, Reason, Refused, Request, View};
pub use shared::{SharedBalancer, Ticket};
pub use target::{State, Target, TargetId, TargetSpec, Targets};
