//! The `divvy` binary: the command line with its workloads, each behind a feature. A workload more is a line more here.

use std::process::ExitCode;
use std::sync::Arc;

use divvy_workload::Workload;

fn main() -> ExitCode {
    let workloads: &[Arc<dyn Workload>] = &[
        #[cfg(feature = "video")]
        Arc::new(divvy_video::VideoWorkload),
        #[cfg(feature = "crawl")]
        Arc::new(divvy_crawl::CrawlWorkload),
        #[cfg(feature = "flow")]
        Arc::new(divvy_flow::FlowWorkload),
    ];
    divvy_cli::main(workloads.to_vec())
}
