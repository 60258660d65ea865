//! Numbers of vertices: in memory if there is one range, on disk if there are more, and what was reached after a pass.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use divvy_kernels::graph::grid::Grid;
use divvy_workload::files::{read_json, write_json};
use serde::{Deserialize, Serialize};

use crate::job::{Keep, PartError};

/// Numbers that are turned into bytes at once.
const CHUNK: usize = 1 << 15;

/// A number of a fixed size.
pub(super) trait Number: Copy + Default {
    const BYTES: usize;
    fn put(self, out: &mut Vec<u8>);
    fn take(bytes: &[u8]) -> Self;
}

impl Number for f64 {
    const BYTES: usize = 8;

    fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn take(bytes: &[u8]) -> Self {
        Self::from_le_bytes(*bytes.first_chunk().expect("eight bytes each"))
    }
}

impl Number for u32 {
    const BYTES: usize = 4;

    fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn take(bytes: &[u8]) -> Self {
        Self::from_le_bytes(*bytes.first_chunk().expect("four bytes each"))
    }
}

/// The numbers of all vertices in a file, range by range.
#[derive(Clone, Debug)]
pub(super) struct Column {
    path: PathBuf,
    grid: Grid,
}

impl Column {
    pub(super) fn new(keep: &Keep, name: &str, grid: Grid) -> Self {
        Self { path: keep.path().join(name), grid }
    }

    pub(super) fn exists(&self) -> bool {
        self.path.exists()
    }

    /// The numbers of a range.
    pub(super) fn read<T: Number>(&self, range: u32) -> Result<Vec<T>, PartError> {
        let bounds = self.grid.bounds(range);
        let failed = |error: io::Error| PartError::io(&self.path, &error);
        let file = File::open(&self.path).map_err(failed)?;
        let mut numbers = Vec::with_capacity(bounds.len());
        let mut bytes = vec![0; CHUNK * T::BYTES];
        let mut at = u64::from(bounds.start) * T::BYTES as u64;
        while numbers.len() < bounds.len() {
            let count = (bounds.len() - numbers.len()).min(CHUNK) * T::BYTES;
            file.read_exact_at(&mut bytes[..count], at).map_err(failed)?;
            numbers.extend(bytes[..count].chunks_exact(T::BYTES).map(T::take));
            at += count as u64;
        }
        Ok(numbers)
    }

    /// Puts the numbers of a range in place of those that were there.
    pub(super) fn write<T: Number>(&self, range: u32, numbers: &[T]) -> Result<(), PartError> {
        let failed = |error: io::Error| PartError::io(&self.path, &error);
        let options = File::options().write(true).create(true).truncate(false).open(&self.path);
        let file = options.map_err(failed)?;
        let mut bytes = Vec::with_capacity(CHUNK * T::BYTES);
        let mut at = u64::from(self.grid.bounds(range).start) * T::BYTES as u64;
        for chunk in numbers.chunks(CHUNK) {
            bytes.clear();
            chunk.iter().for_each(|number| number.put(&mut bytes));
            file.write_all_at(&bytes, at).map_err(failed)?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    /// Makes it outlast a loss of power.
    pub(super) fn sync(&self) -> Result<(), PartError> {
        let synced = File::open(&self.path).and_then(|file| file.sync_all());
        synced.map_err(|error| PartError::io(&self.path, &error))
    }

    pub(super) fn remove(&self) {
        // What stays is swept with the job.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Numbers of the ranges of a graph. With one range they stay in memory.
pub(super) enum Ranges<T> {
    Memory(Vec<T>),
    Disk(Column),
}

impl<T: Number> Ranges<T> {
    /// The numbers of a range. Give them back before the next are taken.
    pub(super) fn take(&mut self, range: u32) -> Result<Vec<T>, PartError> {
        match self {
            Self::Memory(numbers) => Ok(std::mem::take(numbers)),
            Self::Disk(column) => column.read(range),
        }
    }

    /// Gives back what has not changed.
    pub(super) fn give_back(&mut self, numbers: Vec<T>) {
        if let Self::Memory(all) = self {
            *all = numbers;
        }
    }
}

/// What was reached after a pass; the numbers of vertices are in a file of their own, which this names.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Reached<T> {
    /// Passes that are done.
    pub(super) pass: u32,
    /// What else is known.
    pub(super) known: T,
}

/// The last pass that was finished.
pub(super) fn reached<T: for<'de> Deserialize<'de>>(
    keep: &Keep,
) -> Result<Option<Reached<T>>, PartError> {
    read_json(&keep.path().join("reached.json"))
        .map_err(|error| PartError::Trouble(error.to_string()))
}

/// Keeps what a pass has reached: its numbers, which are written by now, and then the word that they count.
pub(super) fn keep_reached<T: Serialize>(
    keep: &Keep,
    grid: Grid,
    reached: &Reached<T>,
) -> Result<(), PartError> {
    values(keep, reached.pass, grid).sync()?;
    write_json(&keep.path().join("reached.json"), reached)
        .map_err(|error| PartError::Trouble(error.to_string()))?;
    if let Some(before) = reached.pass.checked_sub(1) {
        values(keep, before, grid).remove();
    }
    Ok(())
}

/// The numbers that a pass has reached.
pub(super) fn values(keep: &Keep, pass: u32, grid: Grid) -> Column {
    Column::new(keep, &format!("values-{pass}"), grid)
}
