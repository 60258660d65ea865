//! The time of this machine's clock, as workloads write it down.

use divvy_console::output::words;

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    words::now().0 / 1_000
}
