//! The experiments, one file each. [`crate::all`] lists them.

pub(crate) mod herd;
