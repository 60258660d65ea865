//! One run of DuckDB for a part: what it is asked, its rows as they come, and what its end means.
//!
//! Its limits: processor time by the bytes to be read, and time in which it says nothing while it is waited for.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use divvy_workload::provider::duckdb::{AT_FAULT, CPU_PER_MB, CPU_START};
use divvy_workload::provider::{Ended, Run};
use serde::{Deserialize, Serialize};

use super::Duckdb;
use crate::input::Split;
use crate::job::{InputFile, PartError, PartIo};

/// How long it may say nothing while it is waited for.
const STALL: Duration = Duration::from_secs(120);
/// How often it is looked whether the part shall stop.
const LOOK: Duration = Duration::from_millis(200);
/// Bytes before the first row.
const HEAD_BYTES_MAX: usize = 4 << 10;

/// What it is asked for.
#[derive(Serialize)]
struct Request<'a> {
    task: &'static str,
    path: &'a Path,
    from: u64,
    to: u64,
    columns: &'a [String],
    memory_bytes: usize,
    threads: usize,
}

/// What it says before the first row.
#[derive(Deserialize)]
struct Head {
    first_row: Option<u64>,
}

/// Rows of a split as lines of JSON, whose values are text. An error of reading holds a [`PartError`].
pub(crate) struct Rows<'a> {
    io: &'a PartIo<'a>,
    path: PathBuf,
    /// Nothing once it has ended.
    run: Option<Run>,
    piece: Vec<u8>,
    /// How much of the piece was taken.
    taken: usize,
    /// The number of the first row in the file, from 0, if the rows follow each other.
    pub(crate) first_row: Option<u64>,
}

/// Begins to read these columns of the row groups that begin in a split.
///
/// # Errors
/// If this worker cannot, or the file is not what it should be.
pub(crate) fn rows<'a>(
    io: &'a PartIo<'a>,
    input: &InputFile,
    split: Split,
    columns: &[String],
) -> Result<Rows<'a>, PartError> {
    io.may_read(&input.path)?;
    input.expect_unchanged()?;
    let duckdb: Duckdb = io.duckdb()?;
    let source = input.path.canonicalize().map_err(|error| PartError::io(&input.path, &error))?;
    let Split { from, to, .. } = split;
    let (memory_bytes, threads) = (io.memory_bytes(), io.threads());
    let request = Request { task: "rows", path: &source, from, to, columns, memory_bytes, threads };
    let mut line = serde_json::to_vec(&request)
        .map_err(|error| PartError::Broken(format!("{}: {error}", source.display())))?;
    line.push(b'\n');
    let mb =
        u32::try_from(to.min(input.bytes).saturating_sub(from) / 1_000_000).unwrap_or(u32::MAX);
    let cpu = CPU_START.saturating_add(CPU_PER_MB.saturating_mul(mb));
    let run = duckdb.run(&line, io.scratch()?, [source], cpu);
    let run =
        run.map_err(|problem| PartError::Trouble(format!("cannot start DuckDB: {problem}")))?;
    let (path, run) = (input.path.clone(), Some(run));
    let mut rows = Rows { io, path, run, piece: Vec::new(), taken: 0, first_row: None };
    rows.first_row = rows.head()?;
    Ok(rows)
}

impl Rows<'_> {
    /// Reads the line before the first row.
    fn head(&mut self) -> Result<Option<u64>, PartError> {
        let mut line = Vec::new();
        loop {
            let rest = &self.piece[self.taken..];
            let end = memchr::memchr(b'\n', rest);
            line.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
            self.taken += end.map_or(rest.len(), |end| end + 1);
            if end.is_some() || line.len() > HEAD_BYTES_MAX {
                break;
            }
            if !self.fill()? {
                break;
            }
        }
        let head: Head = serde_json::from_slice(&line).map_err(|error| {
            PartError::Trouble(format!("{}: DuckDB gives no rows: {error}", self.path.display()))
        })?;
        Ok(head.first_row)
    }

    /// Waits for the next piece; whether there is one.
    fn fill(&mut self) -> Result<bool, PartError> {
        let mut waited = Duration::ZERO;
        loop {
            let Some(run) = &self.run else { return Ok(false) };
            match run.next(LOOK) {
                Some(piece) if piece.is_empty() => waited += LOOK,
                Some(piece) => {
                    (self.piece, self.taken) = (piece, 0);
                    return Ok(true);
                }
                None => {
                    self.end()?;
                    return Ok(false);
                }
            }
            self.io.check()?;
            if waited >= STALL {
                self.run = None;
                let (path, seconds) = (self.path.display(), STALL.as_secs());
                return Err(PartError::Trouble(format!(
                    "{path}: DuckDB said nothing for {seconds} s and was stopped"
                )));
            }
        }
    }

    /// What the end of the run means.
    fn end(&mut self) -> Result<(), PartError> {
        let Some(run) = self.run.take() else { return Ok(()) };
        run.end().map_err(|Ended { code, words }| {
            let path = self.path.display();
            match code {
                Some(AT_FAULT) => PartError::Broken(format!("{path}: {words}")),
                _ => PartError::Trouble(format!("{path}: DuckDB did not read it: {words}")),
            }
        })
    }
}

impl Read for Rows<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.piece.len() && !self.fill().map_err(io::Error::other)? {
            return Ok(0);
        }
        let count = out.len().min(self.piece.len() - self.taken);
        out[..count].copy_from_slice(&self.piece[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}
