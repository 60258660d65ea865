//! How many files the process may open. Most systems start a process with far fewer than it may have if it asks.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// As many as the server asks for: its connections and what else it opens. More would only slow down programs that
/// it starts, some of which go through all numbers that a file could have.
const WANTED: u64 = 65_536;
/// What is assumed if the system does not say.
const USUAL: u64 = 1_024;

/// Asks for more files, and says how many there may be then.
pub(crate) fn raise() -> u64 {
    let resource = Resource::RLIMIT_NOFILE;
    let Ok((soft, hard)) = getrlimit(resource) else { return USUAL };
    let wanted = hard.min(WANTED);
    if soft >= wanted {
        return soft;
    }
    match setrlimit(resource, wanted, hard) {
        Ok(()) => wanted,
        Err(error) => {
            tracing::debug!(%error, "cannot raise the limit of open files");
            soft
        }
    }
}
