//! Decides how a placement policy is put to the test: balancers send requests to targets with queues, in simulated time.
//!
//! Each target serves one request after the other, in the order in which they came. Requests arrive at random (Poisson)
//! and need a random time (exponential). Each balancer sees only what it did itself and what came back to it, unless
//! targets report their queues ([`Reports::Exact`]). A target that runs empty says so to one balancer, drawn at random,
//! as in the join-idle-queue paper (Lu and others, 2011).
//!
//! Arrivals, needed times and keys are drawn apart from the policies' own chance: two policies with one seed face the
//! same requests. That makes small differences visible. Knows nothing of threads and clocks; the same setup and seed
//! give the same outcome.
//!
//! [`cluster`] is another simulation: workers around divvy's real scheduler. [`fleet`] is the third: how many workers there
//! are, decided by the real autoscaler.

pub mod cluster;
pub mod fleet;
mod outcome;
mod setup;
mod world;

use divvy_placement::Policy;

use crate::experiment::Error;
pub use outcome::{Outcome, QUEUE_OVERLOADED, Quantiles, Slice};
pub use setup::{Fleet, PARTIES_MAX, REQUESTS_MAX, Reports, Setup, Upset};

/// Runs a setup; `policy` makes the policy of each balancer from the seed that it is given.
pub fn run(
    setup: &Setup,
    policy: &mut dyn FnMut(u64) -> Box<dyn Policy>,
) -> Result<Outcome, Error> {
    setup.check()?;
    Ok(world::World::new(setup, policy).run())
}
