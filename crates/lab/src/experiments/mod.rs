//! The experiments, one file each. [`crate::all`] lists them.

pub(crate) mod balancers;
pub(crate) mod herd;
pub(crate) mod hot_partition;
pub(crate) mod ring;

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guides/lab.md")]
mod guide {}
