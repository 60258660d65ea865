//! Dataflow as durable work: MapReduce, aggregation, sort, graphs and streams.
//!
//! A job is a list of stages, a stage is a list of parts, and a part is one task. Reading order: [`job`] (what a kind of
//! job must say, what a part may use, where everything lies), `jobs` (the driver in the server that leads a job from
//! stage to stage), then the kinds themselves.
//!
//! **Invariant:** a file is part of a result only because a task that finished has named it, so attempts that died, were
//! repeated or were overtaken never mix with those that count.

pub mod aggregate;
#[cfg(test)]
mod alone;
mod bench;
mod command;
pub mod duckdb;
mod generate;
pub mod graph;
pub mod input;
pub mod job;
mod jobs;
pub mod mapreduce;
mod settings;
pub mod sort;
pub mod stream;
mod web;
mod workload;

pub use workload::FlowWorkload;
