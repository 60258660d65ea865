//! Cuts what a reader gives into blocks of whole lines, each with its place in the file.
//!
//! A split of a file is the lines that *start* in its range of bytes. So whoever reads the range from byte 100 begins at
//! byte 99 and leaves out everything up to the first line end, and reads its last line to the end although that lies
//! behind the range. Every line is in exactly one split, wherever the cuts are.

use std::io::{self, Read};
use std::ops::Range;

/// Bytes of a block, if no line is longer.
pub const BLOCK_BYTES: usize = 1 << 20;
/// Bytes of a line at most. A longer one is no text that anyone wants to work on line by line.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// Blocks of whole lines.
#[derive(Debug)]
pub struct Blocks<R> {
    reader: R,
    buffer: Vec<u8>,
    /// What of the buffer was read and not given yet.
    held: Range<usize>,
    /// The place in the file of the first byte that is held.
    offset: u64,
    /// Lines that start from here on belong to another split.
    until: u64,
    skip_line: bool,
    ended: bool,
}

/// Some whole lines. The last line of a file may lack its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// The lines with their ends.
    pub bytes: &'a [u8],
    /// Where they begin in the file.
    pub offset: u64,
}

/// Why there is no further block.
#[derive(Debug, thiserror::Error)]
pub enum BlockError {
    /// The reader failed.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// A line does not end.
    #[error(
        "the line at byte {offset} is longer than {LINE_BYTES_MAX} bytes; is this a text file?"
    )]
    LineTooLong {
        /// Where it begins.
        offset: u64,
    },
}

impl<R: Read> Blocks<R> {
    /// The lines that start in `range`. The reader begins at byte `range.start - 1`, or at the beginning of the file if
    /// the range does.
    pub fn new(reader: R, range: Range<u64>) -> Self {
        let (buffer, held) = (Vec::new(), 0..0);
        let skip_line = range.start > 0;
        let offset = range.start.saturating_sub(1);
        Self { reader, buffer, held, offset, until: range.end, skip_line, ended: false }
    }

    /// All lines.
    pub fn whole(reader: R) -> Self {
        Self::new(reader, 0..u64::MAX)
    }

    /// The next lines, or none at the end.
    ///
    /// # Errors
    /// If the reader fails, or a line does not end.
    #[expect(clippy::should_implement_trait, reason = "a block borrows the buffer of the next")]
    pub fn next(&mut self) -> Result<Option<Block<'_>>, BlockError> {
        if self.skip_line {
            self.skip_line = false;
            self.skip_to_line_end()?;
        }
        if self.offset >= self.until {
            return Ok(None);
        }
        let mut searched = 0;
        let bytes = loop {
            let held = &self.buffer[self.held.clone()];
            if let Some(bytes) = self.whole_lines(held, searched) {
                break bytes;
            }
            if self.ended {
                break held.len();
            }
            searched = held.len();
            if searched > LINE_BYTES_MAX {
                return Err(BlockError::LineTooLong { offset: self.offset });
            }
            self.fill()?;
        };
        if bytes == 0 {
            return Ok(None);
        }
        let (start, offset) = (self.held.start, self.offset);
        self.held.start += bytes;
        self.offset += bytes as u64;
        Ok(Some(Block { bytes: &self.buffer[start..start + bytes], offset }))
    }

    /// How many held bytes are whole lines of this split; none if not even one line is there.
    fn whole_lines(&self, held: &[u8], searched: usize) -> Option<usize> {
        // The line that holds the last byte before `until` is the last one.
        let last = usize::try_from(self.until - self.offset - 1).unwrap_or(usize::MAX);
        if last < held.len() {
            let from = last.max(searched);
            return memchr::memchr(b'\n', held.get(from..)?).map(|at| from + at + 1);
        }
        memchr::memrchr(b'\n', &held[searched..]).map(|at| searched + at + 1)
    }

    fn skip_to_line_end(&mut self) -> Result<(), BlockError> {
        loop {
            let held = &self.buffer[self.held.clone()];
            let (skipped, found) = match memchr::memchr(b'\n', held) {
                Some(at) => (at + 1, true),
                None => (held.len(), self.ended),
            };
            self.held.start += skipped;
            self.offset += skipped as u64;
            if found {
                return Ok(());
            }
            self.fill()?;
        }
    }

    /// Reads more behind what is held.
    fn fill(&mut self) -> io::Result<()> {
        if self.held.start > 0 {
            self.buffer.copy_within(self.held.clone(), 0);
            self.held = 0..self.held.len();
        }
        let room = self.held.len() + BLOCK_BYTES;
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
        while self.held.end < self.buffer.len() {
            match self.reader.read(&mut self.buffer[self.held.end..]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(read) => self.held.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl<'a> Block<'a> {
    /// The lines without their ends (`\n` or `\r\n`), each with its place in the file.
    pub fn lines(&self) -> impl Iterator<Item = (u64, &'a [u8])> + use<'a> {
        let (bytes, offset) = (self.bytes, self.offset);
        let mut start = 0;
        std::iter::from_fn(move || {
            let rest = bytes.get(start..).filter(|rest| !rest.is_empty())?;
            let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let place = offset + start as u64;
            start += end + 1;
            let line = &rest[..end];
            Some((place, line.strip_suffix(b"\r").unwrap_or(line)))
        })
    }
}
