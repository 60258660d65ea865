//! The command line of divvy with one workload: thumbnails.

use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    divvy_cli::main(vec![Arc::new(divvy_thumbnails::Thumbnails)])
}
