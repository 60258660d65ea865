//! Which page of which host is fetched next, and when.
//!
//! Reading order: `address` (what a URL is called here, and which are traps), `robots` (what a host allows), `seen` (the
//! filter before the exact fingerprints), `frontier` (hosts, bands, the heap of hosts by their next allowed time).
//!
//! **Invariant:** nothing here reads a clock, draws unseeded chance or touches files and networks. Time is an argument.

pub mod address;
pub mod frontier;
pub mod robots;
pub mod rules;
pub mod seen;
