//! How many workers a pool should have, and why.
//!
//! Reading order: [`sample`] (what was seen), [`decision`] (what is wanted, with the reason in words), [`scaler`] (the
//! machine between them, one per pool), [`explain`] (why so many) and [`costs`]. Inside: `load` (what samples mean),
//! `policies` (how much is wanted, one file each), `forecast` (what will arrive), `pace` (how fast it may change), `mix`
//! (which types of workers), `reach` (what is out of reach), `history`. For people: [`status`].
//!
//! Drive it so: one [`Scaler`] per pool; every few seconds a [`Sample`] into [`Scaler::decide`], and its [`Decision`] to
//! whoever starts and stops workers. Keep [`Scaler::memory`] now and then, and give it to [`Scaler::resume`] after a
//! restart.
//!
//! **Invariant:** nothing here reads a clock, draws chance or starts anything. The same settings and samples give the
//! same decisions, in a server and in a simulation.

pub mod costs;
pub mod decision;
pub mod explain;
pub mod replay;
pub mod sample;
pub mod scaler;
pub mod status;

mod forecast;
mod history;
mod load;
mod mix;
mod pace;
mod policies;
mod reach;

pub use costs::Costs;
pub use decision::{Bound, Change, Decision, Flapping, Wanted};
pub use explain::Explanation;
pub use policies::{NAMES as POLICY_NAMES, name as policy_name};
pub use sample::{Due, Fleet, KindLoad, Sample};
pub use scaler::{Memory, Scaler};

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/autoscaling.md")]
mod guide {}
