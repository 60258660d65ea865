//! Inputs of trials, and the CPU time of what runs in this very process.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

use anyhow::Result;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

use super::trial::Bench;
use crate::generate::{self, Amount, Data};

/// Makes a file of the bench.
pub(super) fn made(
    bench: &Bench<'_>,
    name: &str,
    data: Data,
    bytes: u64,
    rows: u64,
) -> Result<PathBuf> {
    let path = bench.folder().join(name);
    let mut file = BufWriter::with_capacity(1 << 20, File::create(&path)?);
    generate::write(data, Amount { bytes, rows }, 1, &mut file)?;
    file.flush()?;
    Ok(path)
}

/// CPU time of this process so far, in seconds.
pub(super) fn self_cpu_s() -> f64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |usage| {
        let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        micros as f64 / 1e6
    })
}
