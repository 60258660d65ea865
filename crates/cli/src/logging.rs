//! What the process says about itself, on stderr: quiet for clients, calm lines for servers and workers.
//!
//! `DIVVY_LOG` is a filter such as `debug` or `divvy_server=trace`, and beats `-v` and the defaults.

use std::fmt;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::output::words;

/// The variable that holds the filter.
pub(crate) const VARIABLE: &str = "DIVVY_LOG";

/// Starts to log. `service` is for commands that run long.
pub(crate) fn start(service: bool, verbose: u8) {
    let default = match (service, verbose) {
        (false, 0) => "warn",
        (true, 0) | (false, 1) => "info",
        (true, 1) => {
            "info,divvy=debug,divvy_cli=debug,divvy_engine=debug,divvy_server=debug,divvy_worker=debug"
        }
        _ => "debug",
    };
    let filter = EnvFilter::try_from_env(VARIABLE).unwrap_or_else(|_| EnvFilter::new(default));
    let format = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_timer(Clock);
    // Only a second start in one process could fail, and there is none.
    let _ = format.with_target(verbose > 0).with_ansi(false).try_init();
}

/// Hours, minutes and seconds in UTC: a person who watches knows the day.
struct Clock;

impl FormatTime for Clock {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let text = words::now().to_string();
        writer.write_str(text.get(11..19).unwrap_or(&text))
    }
}
