//! What targets carry and can bear: statistics, health, capacity, bottlenecks, plans.
//!
//! Reading order: [`quantile`] (a latency sketch), [`statistics`] (what is known of one target), [`monitor`] (all
//! targets over a sliding window) with [`imbalance`] (how uneven they are), [`health`] (one figure per target, with
//! its reasons), [`capacity`] (how much a target can bear), [`bottleneck`] (where work piles up, and what to do),
//! [`energy`] (what one more request costs in joules and money), [`plan`] (which items to move where).
//!
//! Nothing here picks a target for a request: that is for the policies. Everything here is fed with the
//! [`Event`](crate::Event)s that a policy hears; [`Watched`] puts a [`Monitor`] beside any policy.

pub mod bottleneck;
pub mod capacity;
pub mod energy;
pub mod health;
pub mod imbalance;
pub mod monitor;
pub mod plan;
pub mod quantile;
pub mod statistics;

mod decay;
mod error;
mod watched;
mod window;

pub use bottleneck::Detector;
pub use error::Error;
pub use imbalance::Imbalance;
pub use monitor::{Monitor, Snapshot, TargetLoad};
pub use plan::{Plan, Planner, Problem};
pub use quantile::Sketch;
pub use statistics::{Statistics, Summary};
pub use watched::Watched;

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guides/load.md")]
mod guide {}
