//! The lines of a part, block by block, and what becomes of those that are wrong: the first ends the job with its place,
//! or they are left out and counted, as the job says.

use std::cell::RefCell;
use std::io::{self, Read};
use std::rc::Rc;

use divvy_kernels::text::{Block, BlockError, Blocks};

use super::open::{Packing, line_of_input, open};
use super::split::{Split, bytes_of};
use crate::duckdb;
use crate::job::{InputFile, OnError, PartError, PartIo, Report};

/// Whether lines must be text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// UTF-8; what is not is wrong.
    Utf8,
    /// Any bytes.
    Bytes,
}

/// Some lines of one file.
#[derive(Clone, Copy, Debug)]
pub struct Lines<'a> {
    /// The file.
    pub input: &'a InputFile,
    /// Which file of the job.
    pub file: u32,
    /// The lines, and where they are in the unpacked file.
    pub block: Block<'a>,
}

/// What is read of a file.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// Its lines.
    Lines(Text),
    /// These columns of a Parquet file, as lines of JSON.
    Columns(&'a [String]),
}

/// What becomes of lines that are wrong.
pub struct Faults<'a> {
    io: &'a PartIo<'a>,
    on_error: OnError,
    input: &'a InputFile,
    rows: Option<RowsOf<'a>>,
    report: &'a mut Report,
}

/// Which rows of a file, which is not text itself, the lines of a block are.
#[derive(Clone, Copy, Debug)]
struct RowsOf<'a> {
    /// The number of the first, from 1; nothing if it is not known.
    first: Option<u64>,
    block: Block<'a>,
}

impl Faults<'_> {
    /// The line that begins at this byte is wrong.
    ///
    /// # Errors
    /// If that ends the job.
    pub fn line(&mut self, offset: u64, why: impl std::fmt::Display) -> Result<(), PartError> {
        let path = &self.input.path;
        match self.on_error {
            OnError::Fail => {
                let why =
                    format!("{why}; correct it, or leave such lines out with --on-error skip");
                Err(PartError::input(path, self.number(offset), why))
            }
            OnError::Skip => {
                // To find a line is to read the file: only for those that are named.
                let named = self.report.skipped < 5;
                let line = if named { self.number(offset) } else { 0 };
                self.report.skip(&path.display().to_string(), line, &why.to_string());
                Ok(())
            }
        }
    }

    /// Counters and what else the part says.
    pub fn report(&mut self) -> &mut Report {
        self.report
    }

    /// The number of the line or row, from 1; 0 if it cannot be told.
    fn number(&self, offset: u64) -> u64 {
        let Some(RowsOf { first, block }) = self.rows else {
            return line_of_input(self.io, &self.input.path, offset);
        };
        let before = usize::try_from(offset.saturating_sub(block.offset)).unwrap_or(usize::MAX);
        let before = &block.bytes[..before.min(block.bytes.len())];
        first.map_or(0, |first| first + memchr::memchr_iter(b'\n', before).count() as u64)
    }
}

/// Hands all lines of these splits to `take`, in order. Counts rows and bytes, tells how far it is, and stops when the
/// part shall.
///
/// # Errors
/// If a file cannot be read, a line is wrong and that ends the job, or `take` fails.
pub fn read(
    io: &PartIo<'_>,
    splits: &[Split],
    text: Text,
    report: &mut Report,
    take: impl FnMut(Lines<'_>, &mut Faults<'_>) -> Result<(), PartError>,
) -> Result<(), PartError> {
    read_wanted(io, splits, |_| Wanted::Lines(text), report, take)
}

/// The same, of each file what is wanted of it.
///
/// # Errors
/// As of [`read`].
pub fn read_wanted<'w>(
    io: &PartIo<'_>,
    splits: &[Split],
    wanted: impl Fn(&InputFile) -> Wanted<'w>,
    report: &mut Report,
    mut take: impl FnMut(Lines<'_>, &mut Faults<'_>) -> Result<(), PartError>,
) -> Result<(), PartError> {
    let total = bytes_of(io.spec(), splits);
    let mut before = 0;
    for split in splits {
        let Some(input) = io.spec().inputs.get(split.file as usize) else {
            return Err(PartError::Broken(format!("the job has no file {}", split.file)));
        };
        let one = One { io, input, split: *split, before, total };
        match wanted(input) {
            Wanted::Lines(text) => {
                let (reader, at) = (open(io, input, *split)?, split.from.saturating_sub(1));
                let range = split.from..split.to;
                one.read(Begun { reader, at, range, text, rows: None }, report, &mut take)?;
            }
            Wanted::Columns(columns) => {
                let rows = duckdb::rows(io, input, *split, columns)?;
                let first = rows.first_row.map(|row| row + 1);
                let (reader, range) = (Box::new(rows), 0..u64::MAX);
                let begun = Begun { reader, at: 0, range, text: Text::Utf8, rows: Some(first) };
                one.read(begun, report, &mut take)?;
            }
        }
        before += bytes_of(io.spec(), std::slice::from_ref(split));
    }
    report.bytes_in += total;
    Ok(())
}

/// One split of a part.
struct One<'a> {
    io: &'a PartIo<'a>,
    input: &'a InputFile,
    split: Split,
    /// Bytes of the splits before it, and of all.
    before: u64,
    total: u64,
}

/// A split that is open.
struct Begun<'a> {
    reader: Box<dyn Read + 'a>,
    /// The byte at which the reader stands.
    at: u64,
    range: std::ops::Range<u64>,
    text: Text,
    /// There if lines are rows of a file that is not text: the number of the first, where it is known.
    rows: Option<Option<u64>>,
}

impl One<'_> {
    /// Hands on what its reader gives.
    fn read(
        &self,
        begun: Begun<'_>,
        report: &mut Report,
        take: &mut impl FnMut(Lines<'_>, &mut Faults<'_>) -> Result<(), PartError>,
    ) -> Result<(), PartError> {
        let (io, input, on_error) = (self.io, self.input, self.io.spec().on_error);
        let size = bytes_of(io.spec(), std::slice::from_ref(&self.split));
        let Begun { reader, at, range, text, rows: first_row } = begun;
        let begin = range.start;
        let trouble = Rc::new(RefCell::new(None));
        let reader = Guarded { reader, at, trouble: Rc::clone(&trouble) };
        let mut blocks = Blocks::new(reader, range);
        let mut rows_before = 0;
        loop {
            let next = match blocks.next() {
                Ok(next) => next,
                Err(BlockError::Read(error)) => return Err(PartError::io(&input.path, &error)),
                Err(error @ BlockError::LineTooLong { offset }) => {
                    let number = match first_row {
                        None => line_of_input(io, &input.path, offset),
                        Some(first) => first.map_or(0, |first| first + rows_before),
                    };
                    return Err(PartError::input(&input.path, number, error));
                }
            };
            let Some(mut block) = next else { break };
            if trouble.borrow().is_some() && !block.bytes.ends_with(b"\n") {
                // The line was cut with the file.
                let whole = memchr::memrchr(b'\n', block.bytes).map_or(0, |at| at + 1);
                block.bytes = &block.bytes[..whole];
            }
            let lines = memchr::memchr_iter(b'\n', block.bytes).count() as u64;
            let open_line = u64::from(!block.bytes.is_empty() && !block.bytes.ends_with(b"\n"));
            report.rows_in += lines + open_line;
            let end = block.offset + block.bytes.len() as u64;
            let rows = first_row
                .map(|first| RowsOf { first: first.map(|first| first + rows_before), block });
            rows_before += lines;
            let mut faults = Faults { io, on_error, input, rows, report: &mut *report };
            let lines = Lines { input, file: self.split.file, block };
            match text {
                Text::Bytes => take(lines, &mut faults)?,
                Text::Utf8 => take_text(lines, &mut faults, take)?,
            }
            // How much of a packed file an unpacked byte is worth is not known; what is read at most is.
            io.progress(self.before + (end - begin.min(end)).min(size), self.total)?;
        }
        let Some((offset, problem)) = trouble.take() else { return Ok(()) };
        self.failed(offset, problem, report)
    }

    /// What follows from a failure to read at this byte.
    fn failed(
        &self,
        offset: u64,
        problem: io::Error,
        report: &mut Report,
    ) -> Result<(), PartError> {
        let problem = match problem.downcast::<PartError>() {
            Ok(known) => return Err(known),
            Err(problem) => problem,
        };
        let why = match Packing::of(&self.input.path) {
            Packing::None => return Err(PartError::io(&self.input.path, &problem)),
            packing => format!(
                "the {} data is broken after {offset} unpacked bytes ({problem}); is the file whole? fetch it again",
                if packing == Packing::Gzip { "gzip" } else { "zstd" }
            ),
        };
        let on_error = self.io.spec().on_error;
        Faults { io: self.io, on_error, input: self.input, rows: None, report }.line(offset, why)
    }
}

/// Hands on what is text; of a block with something else only the lines that are.
fn take_text(
    lines: Lines<'_>,
    faults: &mut Faults<'_>,
    take: &mut impl FnMut(Lines<'_>, &mut Faults<'_>) -> Result<(), PartError>,
) -> Result<(), PartError> {
    let Block { mut bytes, mut offset } = lines.block;
    loop {
        let Err(error) = std::str::from_utf8(bytes) else {
            return take(Lines { block: Block { bytes, offset }, ..lines }, faults);
        };
        // Up to the beginning of the first wrong line all is well.
        let good = memchr::memrchr(b'\n', &bytes[..error.valid_up_to()]).map_or(0, |at| at + 1);
        let end = memchr::memchr(b'\n', &bytes[good..]).map_or(bytes.len(), |at| good + at + 1);
        if good > 0 {
            take(Lines { block: Block { bytes: &bytes[..good], offset }, ..lines }, faults)?;
        }
        let column = error.valid_up_to() - good + 1;
        faults
            .line(offset + good as u64, format_args!("byte {column} of the line is not UTF-8"))?;
        if end == bytes.len() {
            return Ok(());
        }
        bytes = &bytes[end..];
        offset += end as u64;
    }
}

/// Where reading failed, and why.
type Trouble = Rc<RefCell<Option<(u64, io::Error)>>>;

/// A reader whose failure is its end, so that what was read before is worked on.
struct Guarded<'a> {
    reader: Box<dyn Read + 'a>,
    /// Where in the unpacked file it is.
    at: u64,
    trouble: Trouble,
}

impl Read for Guarded<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.trouble.borrow().is_some() {
            return Ok(0);
        }
        match self.reader.read(out) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                self.trouble.replace(Some((self.at, error)));
                Ok(0)
            }
            result => {
                self.at += result.as_ref().map_or(0, |count| *count as u64);
                result
            }
        }
    }
}
