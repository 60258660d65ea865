//! Sorted records that did not fit into memory: files in the scratch folder, merged when all is there.
//!
//! In a spill the partition stands in front of the key, so that one order is that of partitions and keys.

use std::fs::File;
use std::io::{BufWriter, Read, Write as _};
use std::path::PathBuf;

use divvy_kernels::aggregate::{Merge, RunReader, RunWriter};

use crate::job::{PartError, PartIo};

/// Bytes that a spill is written and read with at once.
const BUFFER_BYTES: usize = 256 << 10;
/// Spills that are merged at once.
const SPILLS_MAX: usize = 64;
/// Rows between two looks at whether the part shall stop.
const LOOK_EVERY: u64 = 65_536;

/// Takes partition, key and value of a record.
pub(crate) type Take<'t> = dyn FnMut(u32, &[u8], &[u8]) -> Result<(), PartError> + 't;

/// Spills of a part.
pub(crate) struct Spills<'i> {
    io: &'i PartIo<'i>,
    paths: Vec<PathBuf>,
    written: u64,
}

impl<'i> Spills<'i> {
    pub(crate) fn new(io: &'i PartIo<'i>) -> Self {
        Self { io, paths: Vec::new(), written: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// How many were written.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Writes what `fill` hands over, in the order of partitions and keys.
    pub(crate) fn add(
        &mut self,
        fill: impl FnOnce(&mut Take<'_>) -> Result<(), PartError>,
    ) -> Result<(), PartError> {
        if self.paths.len() == SPILLS_MAX {
            let old = std::mem::take(&mut self.paths);
            let merged = self.write(|take| self.merge_of(&old, take))?;
            for path in old {
                // The folder is removed with the attempt.
                let _ = std::fs::remove_file(path);
            }
            self.paths.push(merged);
        }
        self.written += 1;
        let path = self.write(fill)?;
        self.paths.push(path);
        Ok(())
    }

    fn write(
        &self,
        fill: impl FnOnce(&mut Take<'_>) -> Result<(), PartError>,
    ) -> Result<PathBuf, PartError> {
        let scratch = self.io.scratch()?;
        let name = format!("spill-{}-{}", self.written, self.paths.len());
        let path = scratch.join(name);
        let failed = |error: std::io::Error| PartError::io(&path, &error);
        let file = File::create(&path).map_err(failed)?;
        let mut run = RunWriter::new(BufWriter::with_capacity(BUFFER_BYTES, file));
        let mut prefixed = Vec::new();
        fill(&mut |partition, key, value| {
            prefixed.clear();
            prefixed.extend_from_slice(&partition.to_be_bytes());
            prefixed.extend_from_slice(key);
            run.write(&prefixed, value).map(drop).map_err(failed)
        })?;
        run.into_inner().flush().map_err(failed)?;
        Ok(path)
    }

    /// Hands all records to `take`, in order; equal keys in the order in which they were spilled.
    pub(crate) fn merge(&self, take: &mut Take<'_>) -> Result<(), PartError> {
        self.merge_of(&self.paths, take)
    }

    fn merge_of(&self, paths: &[PathBuf], take: &mut Take<'_>) -> Result<(), PartError> {
        let mut runs = Vec::new();
        for path in paths {
            let file = File::open(path).map_err(|error| PartError::io(path, &error))?;
            let file: Box<dyn Read> = Box::new(file);
            runs.push(RunReader::new(file, BUFFER_BYTES));
        }
        let trouble = |error| PartError::Trouble(format!("a spill cannot be read: {error}"));
        let mut merge = Merge::new(runs);
        let mut rows = 0_u64;
        while merge.advance().map_err(trouble)? {
            let (prefixed, value) = merge.record();
            let Some((partition, key)) = prefixed.split_first_chunk::<4>() else {
                return Err(PartError::Trouble("a spill is damaged".to_owned()));
            };
            take(u32::from_be_bytes(*partition), key, value)?;
            rows += 1;
            if rows.is_multiple_of(LOOK_EVERY) {
                self.io.check()?;
            }
        }
        Ok(())
    }
}
