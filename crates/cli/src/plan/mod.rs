//! What `divvy plan` is fed with: a file, the history of a server, samples that are run on this machine.
//!
//! Decides nothing about plans; `divvy_lab::plan` does.

pub(crate) mod check;
pub(crate) mod file;
pub(crate) mod history;
pub(crate) mod samples;
