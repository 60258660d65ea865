//! The experiments, one file each. [`crate::all`] lists them.

pub(crate) mod herd;
pub(crate) mod scalability;
pub(crate) mod stealing;

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guides/lab.md")]
mod guide {}
