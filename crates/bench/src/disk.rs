//! The disk itself: how long one synced append takes. The limit that a durable lone task cannot beat.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use hdrhistogram::Histogram;

/// Measures appends of 4 KiB, each synced, one at a time: between other measurements, so that both meet the same disk.
pub(crate) struct Probe {
    file: File,
    times: Histogram<u64>,
}

impl Probe {
    /// A probe on the disk of this folder.
    pub(crate) fn new(dir: &Path) -> anyhow::Result<Self> {
        Ok(Self { file: File::create(dir.join("fdatasync.probe"))?, times: Histogram::new(3)? })
    }

    /// One append and its `fdatasync`.
    pub(crate) fn measure(&mut self) -> anyhow::Result<()> {
        let block = [0x5a_u8; 4096];
        let started = Instant::now();
        self.file.write_all(&block)?;
        self.file.sync_data()?;
        self.times.record(started.elapsed().as_micros() as u64)?;
        Ok(())
    }

    /// The median, in microseconds.
    pub(crate) fn p50_us(&self) -> u64 {
        self.times.value_at_quantile(0.5)
    }
}
