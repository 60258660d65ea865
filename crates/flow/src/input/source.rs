//! The lines of a part, block by block, and what becomes of those that are wrong: the first ends the job with its place,
//! or they are left out and counted, as the job says.

use std::cell::RefCell;
use std::io::{self, Read};
use std::rc::Rc;

use divvy_kernels::text::{Block, BlockError, Blocks};

use super::open::{Packing, line_at, open};
use super::split::{Split, bytes_of};
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

/// What becomes of lines that are wrong.
#[derive(Debug)]
pub struct Faults<'a> {
    on_error: OnError,
    input: &'a InputFile,
    report: &'a mut Report,
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
                Err(PartError::input(path, line_at(path, offset), why))
            }
            OnError::Skip => {
                // To find a line is to read the file: only for those that are named.
                let named = self.report.skipped < 5;
                let line = if named { line_at(path, offset) } else { 0 };
                self.report.skip(&path.display().to_string(), line, &why.to_string());
                Ok(())
            }
        }
    }

    /// Counters and what else the part says.
    pub fn report(&mut self) -> &mut Report {
        self.report
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
    mut take: impl FnMut(Lines<'_>, &mut Faults<'_>) -> Result<(), PartError>,
) -> Result<(), PartError> {
    let total = bytes_of(io.spec(), splits);
    let mut before = 0;
    for split in splits {
        let Some(input) = io.spec().inputs.get(split.file as usize) else {
            return Err(PartError::Broken(format!("the job has no file {}", split.file)));
        };
        let size = bytes_of(io.spec(), std::slice::from_ref(split));
        let trouble = Rc::new(RefCell::new(None));
        let (reader, at) = (open(io, input, *split)?, split.from.saturating_sub(1));
        let reader = Guarded { reader, at, trouble: Rc::clone(&trouble) };
        let mut blocks = Blocks::new(reader, split.from..split.to);
        loop {
            let mut faults = Faults { on_error: io.spec().on_error, input, report };
            let next = match blocks.next() {
                Ok(next) => next,
                Err(BlockError::Read(error)) => return Err(PartError::io(&input.path, &error)),
                Err(error @ BlockError::LineTooLong { .. }) => {
                    return Err(PartError::input(&input.path, 0, error));
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
            faults.report.rows_in += lines + open_line;
            let end = block.offset + block.bytes.len() as u64;
            let lines = Lines { input, file: split.file, block };
            match text {
                Text::Bytes => take(lines, &mut faults)?,
                Text::Utf8 => take_text(lines, &mut faults, &mut take)?,
            }
            // How much of a packed file an unpacked byte is worth is not known; what is read at most is.
            io.progress(before + (end - split.from.min(end)).min(size), total)?;
        }
        if let Some((offset, problem)) = trouble.take() {
            let why = match Packing::of(&input.path) {
                Packing::None => return Err(PartError::io(&input.path, &problem)),
                packing => format!(
                    "the {} data is broken after {offset} unpacked bytes ({problem}); is the file whole? fetch it again",
                    if packing == Packing::Gzip { "gzip" } else { "zstd" }
                ),
            };
            Faults { on_error: io.spec().on_error, input, report }.line(offset, why)?;
        }
        before += size;
    }
    report.bytes_in += total;
    Ok(())
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
struct Guarded {
    reader: Box<dyn Read>,
    /// Where in the unpacked file it is.
    at: u64,
    trouble: Trouble,
}

impl Read for Guarded {
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
