//! The `divvy` binary: the command line with its workloads. A workload more is a line more here.

use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    divvy_cli::main(vec![
        Arc::new(divvy_video::VideoWorkload),
        Arc::new(divvy_crawl::CrawlWorkload),
        Arc::new(divvy_flow::FlowWorkload),
    ])
}
