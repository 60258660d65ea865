//! Decides how a rule of scaling is put to the test: a fleet of workers under a load that changes for days, in simulated
//! time.
//!
//! Light on purpose: tasks are short and all alike, so a second of simulated time is one step. In it tasks arrive by
//! chance around a rate, wait in one queue, and are started in their order by the workers that are there. Workers take a
//! time to start, during which they are paid; those that are given up leave at once. Everything that decides is the
//! autoscaler that users get.
//!
//! The arrivals are drawn before anybody decides: all rules face the same tasks. The same setup and seed give the same
//! outcome.

pub mod traffic;
mod world;

pub use traffic::Traffic;
pub use world::{Notice, Outcome, Point, Rule, World};
