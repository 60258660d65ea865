//! `divvy flow`: starts jobs, watches and steers them.
//!
//! Everything goes over the API of a server. Ctrl-C while it waits ends this command only; the job goes on. The
//! arguments of each kind of job are in a file of its own.

pub(crate) mod args;
mod follow;
pub(crate) mod start;
mod words;
