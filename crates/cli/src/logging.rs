//! What the process says about itself, on stderr: quiet for clients, calm lines for servers and workers.
//!
//! `DIVVY_LOG` is a filter such as `debug` or `divvy_server=trace`, and beats `-v` and the defaults.

use std::fmt;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::output::words;

/// The variable that holds the filter.
pub(crate) const VARIABLE: &str = "DIVVY_LOG";

/// Starts to log. `service` is for commands that run long.
pub(crate) fn start(service: bool, verbose: u8) {
    let filter = std::env::var(VARIABLE).ok().and_then(|wish| wish.parse().ok());
    let format = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_timer(Clock)
        .with_target(verbose > 0)
        .with_ansi(false);
    let all = tracing_subscriber::registry()
        .with(format)
        .with(filter.unwrap_or_else(|| usual(service, verbose)));
    // Only a second start in one process could fail, and there is none.
    let _ = all.try_init();
}

/// What is said if `DIVVY_LOG` does not say it.
fn usual(service: bool, verbose: u8) -> Targets {
    let all = match (service, verbose) {
        (false, 0) => LevelFilter::WARN,
        (true, 0 | 1) | (false, 1) => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    // The names of all crates of divvy begin with `divvy`.
    let own = if verbose > 0 && service { LevelFilter::DEBUG } else { all };
    Targets::new().with_default(all).with_target("divvy", own)
}

/// Hours, minutes and seconds in UTC: a person who watches knows the day.
struct Clock;

impl FormatTime for Clock {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let text = words::now().to_string();
        writer.write_str(text.get(11..19).unwrap_or(&text))
    }
}
