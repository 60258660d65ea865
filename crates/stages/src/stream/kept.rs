//! What lasts between turns: one file with positions, watermarks, windows and the lengths of the outputs, and the outputs.
//!
//! Outputs are written and synced first, then the file that says how long they are is replaced at once. Whatever lies
//! behind those lengths was written by an attempt that died, and is cut.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use divvy_kernels::aggregate::{put_bytes, take_bytes};
use divvy_kernels::window::Watermarks;
use divvy_workload::files::write_whole;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::source::Position;
use super::windows::Results;
use crate::job::{Keep, PartError, Skip};

/// What is known of a stream besides its windows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Known {
    pub(super) positions: Vec<Position>,
    pub(super) marks: Watermarks,
    /// The latest event.
    pub(super) latest_ms: Option<i64>,
    pub(super) events: u64,
    pub(super) bytes: u64,
    pub(super) late: u64,
    pub(super) rows: u64,
    pub(super) skipped: u64,
    pub(super) first_skipped: Vec<Skip>,
    pub(super) out_bytes: u64,
    pub(super) late_bytes: u64,
    /// When something came last, by the clock.
    pub(super) heard_at_ms: u64,
    /// When this was kept, by the clock.
    pub(super) kept_at_ms: u64,
    /// How often something was kept.
    pub(super) commits: u64,
}

/// The files of a stream.
pub(super) struct Files {
    checkpoint: PathBuf,
    out: Output,
    late: Output,
}

struct Output {
    path: PathBuf,
    file: File,
}

impl Files {
    /// What was kept last goes into `results`; nothing at the very beginning.
    pub(super) fn open(
        keep: &Keep,
        results: &mut Results,
    ) -> Result<(Self, Option<Known>), PartError> {
        let checkpoint = keep.path().join("checkpoint");
        let known = match std::fs::read(&checkpoint) {
            Ok(bytes) => Some(load(&bytes, results).ok_or_else(|| {
                PartError::Broken(format!(
                    "{}: is damaged; restore it, or start a new stream",
                    checkpoint.display()
                ))
            })?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(PartError::io(&checkpoint, &error)),
        };
        let length = |of: fn(&Known) -> u64| known.as_ref().map_or(0, of);
        let out = Output::open(keep.path().join("out.jsonl"), length(|known| known.out_bytes))?;
        let late = Output::open(keep.path().join("late.jsonl"), length(|known| known.late_bytes))?;
        Ok((Self { checkpoint, out, late }, known))
    }

    /// Appends lines; they count once they are kept.
    pub(super) fn write(
        &mut self,
        known: &mut Known,
        out: &[u8],
        late: &[u8],
    ) -> Result<(), PartError> {
        self.out.write(out)?;
        self.late.write(late)?;
        known.out_bytes += out.len() as u64;
        known.late_bytes += late.len() as u64;
        Ok(())
    }

    /// Keeps everything together. The bytes of what was kept.
    pub(super) fn keep(&mut self, known: &Known, results: &Results) -> Result<usize, PartError> {
        self.out.sync()?;
        self.late.sync()?;
        let mut bytes = Vec::new();
        let text = serde_json::to_vec(known)
            .map_err(|error| PartError::Broken(format!("the state of the stream: {error}")))?;
        put_bytes(&text, &mut bytes);
        results.windows.save(&mut bytes);
        let hash = xxh3_64(&bytes).to_le_bytes();
        bytes.extend_from_slice(&hash);
        write_whole(&self.checkpoint, &bytes)
            .map_err(|error| PartError::io(&self.checkpoint, &error))?;
        Ok(bytes.len())
    }

    /// Where results are.
    pub(super) fn paths(&self) -> (&Path, &Path) {
        (&self.out.path, &self.late.path)
    }
}

fn load(bytes: &[u8], results: &mut Results) -> Option<Known> {
    let (bytes, hash) = bytes.split_last_chunk::<8>()?;
    if xxh3_64(bytes).to_le_bytes() != *hash {
        return None;
    }
    let mut rest = bytes;
    let known = serde_json::from_slice(take_bytes(&mut rest).ok()?).ok()?;
    results.windows.load(&mut rest).ok()?;
    rest.is_empty().then_some(known)
}

impl Output {
    fn open(path: PathBuf, length: u64) -> Result<Self, PartError> {
        let failed = |error: io::Error| PartError::io(&path, &error);
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?.len();
        if found < length {
            return Err(PartError::Broken(format!(
                "{}: has {found} bytes, but {length} were kept; restore it, or start a new stream",
                path.display()
            )));
        }
        file.set_len(length).map_err(failed)?;
        Ok(Self { path, file })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), PartError> {
        self.file.write_all(bytes).map_err(|error| PartError::io(&self.path, &error))
    }

    fn sync(&self) -> Result<(), PartError> {
        self.file.sync_data().map_err(|error| PartError::io(&self.path, &error))
    }
}
