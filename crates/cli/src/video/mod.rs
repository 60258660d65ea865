//! Videos in this binary: what a worker and a server are told about them, and how a person follows one.
//!
//! Decides nothing about videos themselves: that is `divvy-video`, which is reached over the API of a server, except
//! where this binary is that server or a worker of it.

pub(crate) mod bars;
pub(crate) mod follow;
pub(crate) mod joints;
pub(crate) mod values;
pub(crate) mod words;
pub(crate) mod worker;
