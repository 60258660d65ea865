//! What lasts between turns: one file with positions, watermarks, windows and the lengths of the outputs, and the outputs.
//!
//! Outputs are written and synced first, then the file that says how long they are is replaced at once. Whatever lies
//! behind those lengths was written by an attempt that died, and is cut.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use divvy_kernels::aggregate::{put_bytes, take_bytes};
use divvy_kernels::window::Watermarks;
use divvy_workload::files::write_whole;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::source::Position;
use super::windows::Results;
use crate::job::{Folder, Keep, OutputFile, PartError, Skip};

/// Everything that lasts besides the outputs.
const CHECKPOINT: &str = "checkpoint";
/// Lines of results.
const OUT: &str = "out.jsonl";
/// Events that came too late; also their name in the result.
pub(super) const LATE: &str = "late.jsonl";
/// Bytes before the windows in the checkpoint, at most: a position for each source.
const HEAD_BYTES_MAX: u64 = 4 << 20;

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
    /// Up to when all events have come, where that is known.
    #[serde(default)]
    pub(super) watermark_ms: Option<i64>,
    /// Windows that are not closed.
    #[serde(default)]
    pub(super) windows_open: u64,
}

/// How far a stream is that goes on: what it has kept last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoFar {
    /// Events that were read.
    pub events: u64,
    /// Events that came after their windows were closed.
    pub late: u64,
    /// Windows that are not closed.
    pub windows_open: u64,
    /// The time of the latest event, in milliseconds since 1970.
    pub latest_ms: Option<i64>,
    /// Up to when all events have come, in milliseconds since 1970.
    pub watermark_ms: Option<i64>,
    /// The files of the result as far as they will not change, and where each is.
    pub files: Vec<(OutputFile, PathBuf)>,
}

impl SoFar {
    /// What a stream has kept in this folder of a job; nothing before the first time.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(folder: &Folder) -> io::Result<Option<Self>> {
        // A stream has one stage with one part.
        let keep = folder.keep(0, 0);
        let mut head = Vec::new();
        match File::open(keep.join(CHECKPOINT)) {
            Ok(file) => file.take(HEAD_BYTES_MAX).read_to_end(&mut head)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let known: Option<Known> = take_bytes(&mut head.as_slice())
            .ok()
            .and_then(|text| serde_json::from_slice(text).ok());
        let Some(known) = known else { return Err(io::ErrorKind::InvalidData.into()) };
        let file = |name: &str, rows, bytes| OutputFile {
            name: name.to_owned(),
            rows,
            bytes,
            ..OutputFile::default()
        };
        let mut files = vec![(file("part-00000", known.rows, known.out_bytes), keep.join(OUT))];
        if known.late > 0 {
            files.push((file(LATE, known.late, known.late_bytes), keep.join(LATE)));
        }
        Ok(Some(Self {
            events: known.events,
            late: known.late,
            windows_open: known.windows_open,
            latest_ms: known.latest_ms,
            watermark_ms: known.watermark_ms,
            files,
        }))
    }

    /// How far the watermark is behind the latest event.
    pub fn lag_ms(&self) -> Option<u64> {
        let lag = self.latest_ms?.saturating_sub(self.watermark_ms?);
        Some(u64::try_from(lag).unwrap_or(0))
    }
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
        let checkpoint = keep.path().join(CHECKPOINT);
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
        let out = Output::open(keep.path().join(OUT), length(|known| known.out_bytes))?;
        let late = Output::open(keep.path().join(LATE), length(|known| known.late_bytes))?;
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
