//! Dataflow as durable work: MapReduce, aggregation, sort, graphs and streams.

mod workload;

pub use workload::FlowWorkload;
