//! Experiments on the real parts: tables, charts, one page.
//!
//! Reading order: [`experiment`] (what an experiment is, and the list of them), [`report`] (what it hands back),
//! [`chart`] (drawings), [`sim`] (balancers and targets in simulated time), [`patterns`] (work spread over threads,
//! measured), [`child`] (work in processes of their own), `experiments` (one file each), [`plan`] (how many workers a
//! load needs).
//!
//! An experiment decides nothing that the parts decide: it drives the policies, guards, pools and machines that users
//! get, with loads that are drawn from a seed. Most run in simulated time, so a seed gives the same report on every
//! machine; those that measure this machine say so ([`Timing`]).
//!
//! **Invariant:** nothing here prints or writes files, and no figure is made up: findings are computed from the data
//! of the run.

pub mod chart;
pub mod child;
pub mod experiment;
pub mod patterns;
pub mod plan;
pub mod report;
pub mod sim;

mod experiments;

pub use experiment::{Error, Experiment, Progress, Settings, Timing, all, find};
pub use report::Report;
