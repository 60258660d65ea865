//! The disk itself: how long one synced append takes. The limit that a durable lone task cannot beat.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use hdrhistogram::Histogram;

/// Appends of 4 KiB, each synced.
const ROUNDS: usize = 300;

/// The median of an append and `fdatasync`, in microseconds.
pub(super) fn fdatasync_p50_us(dir: &Path) -> anyhow::Result<u64> {
    let mut file = File::create(dir.join("fdatasync.probe"))?;
    let block = vec![0x5a_u8; 4096];
    let mut times = Histogram::<u64>::new(3)?;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        file.write_all(&block)?;
        file.sync_data()?;
        times.record(started.elapsed().as_micros() as u64)?;
    }
    Ok(times.value_at_quantile(0.5))
}
