//! Dataflow as durable work: MapReduce, aggregation, sort, graphs and streams.
//!
//! The face of it: `jobs` (the driver in the server that leads a job from stage to stage), commands, pages, settings and
//! benchmarks. What a job is and how its parts are done is in `divvy-stages`, and can be used from here.

mod bench;
mod command;
mod jobs;
mod settings;
mod web;
mod workload;

pub use divvy_stages::{aggregate, graph, input, job, mapreduce, sort, stream};
use divvy_stages::{duckdb, generate};
pub use workload::FlowWorkload;
