//! The experiments, one file each. [`crate::all`] lists them.

pub(crate) mod herd;

#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guides/lab.md")]
mod guide {}
