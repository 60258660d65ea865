//! Dataflow as a workload: everything that it brings to the binary, in one value.

use divvy_workload::Workload;

/// MapReduce, aggregation, sort, graphs and streams.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowWorkload;

impl Workload for FlowWorkload {
    fn name(&self) -> &'static str {
        "flow"
    }
}
