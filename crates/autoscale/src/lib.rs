//! How many workers a pool should have, and why.
//!
//! Reading order: [`sample`] (what was seen), [`decision`] (what is wanted, with the reason in words), [`scaler`] (the
//! machine between them, one per pool).
//!
//! **Invariant:** nothing here reads a clock, draws chance or starts anything. The same settings and samples give the
//! same decisions, in a server and in a simulation.

pub mod decision;
pub mod sample;
pub mod scaler;

pub use decision::{Bound, Change, Decision, Wanted};
pub use sample::{Due, Fleet, KindLoad, Sample};
pub use scaler::Scaler;
