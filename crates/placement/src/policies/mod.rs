//! Decides nothing itself: one file per policy, and [`Kind`] to make them by name.
//!
//! What all of them keep: a target that is down, draining, at its limit, excluded or unable is never picked; if one
//! fits, one is picked (unless the policy is set to wait); no request of alternatives names a target twice. They do
//! so by choosing only through `choose`. State per target lies in `slots` and is reset when a target joins or leaves.

pub mod adaptive_p2c;
pub mod affinity;
pub mod best_fit;
mod choose;
mod error;
mod hash;
pub mod hierarchical;
pub mod join_idle;
mod kind;
mod latency;
mod least_connections;
pub mod least_response_time;
pub mod load_aware;
pub mod peak_ewma;
mod random;
mod recent;
mod round_robin;
mod slots;
mod weighted;
mod weighted_random;

pub use adaptive_p2c::AdaptiveP2c;
pub use affinity::Affinity;
pub use best_fit::BestFit;
pub use error::Error;
pub use hash::Hash;
pub use hierarchical::Hierarchical;
pub use join_idle::JoinIdle;
pub use kind::Kind;
pub use latency::Averaging;
pub use least_connections::LeastConnections;
pub use least_response_time::LeastResponseTime;
pub use load_aware::LoadAware;
pub use peak_ewma::PeakEwma;
pub use random::Random;
pub use round_robin::RoundRobin;
pub use weighted::Weighted;
pub use weighted_random::WeightedRandom;

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guides/placement.md")]
mod guide {}
