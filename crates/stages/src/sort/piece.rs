//! Reading a piece of the input: the lines that begin in it, or its records.
//!
//! Whoever reads from byte 100 begins at byte 99 and leaves out all up to the first line end; and reads the last line to its
//! end, although that lies behind the piece. So every line is in exactly one piece.

use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;

use memchr::memchr;

use super::plan::{self, Piece};
use crate::input::{self, Split};
use crate::job::{PartError, PartIo};

/// Bytes that are read at once where a line end is looked for.
const LOOK_BYTES: usize = 1 << 16;

/// Opens a piece of the job's input; where its first record begins.
pub(super) fn open(
    piece: &Piece,
    is_lines: bool,
    io: &PartIo<'_>,
) -> Result<(Box<dyn Read>, u64), PartError> {
    let Some(file) = io.spec().inputs.get(piece.file as usize) else {
        return Err(PartError::Broken(format!("the job has no input {}", piece.file)));
    };
    let Piece { file: number, start, end } = *piece;
    if plan::is_packed(&file.path) {
        return Ok((input::open(io, file, Split { file: number, from: 0, to: u64::MAX })?, 0));
    }
    if !is_lines {
        // What is opened begins one byte before what is asked for, unless that is the beginning.
        let from = if start == 0 { 0 } else { start + 1 };
        let reader = input::open(io, file, Split { file: number, from, to: end })?;
        return Ok((Box::new(reader.take(end - start)), start));
    }
    let reader = input::open(io, file, Split { file: number, from: start, to: end })?;
    let mut reader = BufReader::with_capacity(LOOK_BYTES, reader);
    let start = if start == 0 { Ok(0) } else { skip_line(&mut reader, start - 1) };
    let start = start.map_err(|error| PartError::io(&file.path, &error))?;
    Ok((Box::new(Lines { reader, at: start, end, ended: start >= end }), start))
}

/// Goes behind the first line end; where that is.
fn skip_line(reader: &mut BufReader<Box<dyn Read>>, from: u64) -> io::Result<u64> {
    let mut at = from;
    loop {
        let buffer = reader.fill_buf()?;
        let found = memchr(b'\n', buffer);
        let length = found.map_or(buffer.len(), |end| end + 1);
        reader.consume(length);
        at += length as u64;
        if found.is_some() || length == 0 {
            return Ok(at);
        }
    }
}

/// Whether what is wrong is in the file, and not with the disk.
pub(super) fn is_damage(path: &Path, error: &io::Error) -> bool {
    let kind = error.kind();
    plan::is_packed(path)
        && matches!(
            kind,
            io::ErrorKind::UnexpectedEof
                | io::ErrorKind::InvalidData
                | io::ErrorKind::InvalidInput
                | io::ErrorKind::Other
        )
}

/// The lines that begin before `end`.
struct Lines {
    reader: BufReader<Box<dyn Read>>,
    at: u64,
    end: u64,
    ended: bool,
}

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ended || buffer.is_empty() {
            return Ok(0);
        }
        // The line end at the last byte of the piece, or the first one behind it, is the last.
        let before = usize::try_from(self.end.saturating_sub(self.at + 1)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(if before == 0 { LOOK_BYTES } else { before });
        let count = self.reader.read(&mut buffer[..wanted])?;
        self.at += count as u64;
        if count == 0 {
            self.ended = true;
        } else if before == 0
            && let Some(end) = memchr(b'\n', &buffer[..count])
        {
            self.ended = true;
            return Ok(end + 1);
        }
        Ok(count)
    }
}
