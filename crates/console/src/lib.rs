//! How divvy speaks to people: what a command prints, how it ends, and the values that people write.
//!
//! Reading order: [`exit`] (how a run ends), [`output`] (what the reader sees), [`values`] (what can be written),
//! [`yaml`] (files that people write), [`suggest`] (what was probably meant), [`confirm`] (the question before something
//! that cannot be taken back). The command line and every workload that brings a command print through it.
//!
//! **Invariant:** nothing here knows a command, a server beyond how it fails, or a task beyond its id, its state and why it waits.

pub mod confirm;
pub mod exit;
pub mod output;
pub mod suggest;
pub mod values;
pub mod yaml;

mod place;

pub use exit::{Code, Failure};
pub use output::Output;
