//! The work of dataflow jobs: MapReduce, aggregation, sort, graphs and streams.
//!
//! A job is a list of stages, a stage is a list of parts, and a part is one task. Reading order: [`job`] (what a kind of
//! job must say, what a part may use, where everything lies), then the kinds themselves, [`input`] (what they read) and
//! [`duckdb`] (who reads Parquet for them). The inner loops are in `divvy-kernels`.
//!
//! Knows nothing of commands, pages and of the driver in the server, which are in `divvy-flow`: people wait for those, and
//! the compiler for them is cheap; this crate handles data and is optimised.
//!
//! **Invariant:** a file is part of a result only because a task that finished has named it, so attempts that died, were
//! repeated or were overtaken never mix with those that count.

pub mod aggregate;
#[cfg(test)]
mod alone;
pub mod duckdb;
pub mod generate;
pub mod graph;
pub mod input;
pub mod job;
pub mod mapreduce;
pub mod sort;
pub mod stream;
