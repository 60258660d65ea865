//! Bytes of a file of the server, read as if it were here.

use std::io::{self, Read};
use std::ops::Range;
use std::rc::Rc;

use memchr::memchr;

use super::super::PartError;
use super::super::shuffle::Source;
use super::{OnTheWay, Transfers};

/// Bytes that are asked for at once where only the end of a line is wanted.
const TAIL_STEP: u64 = 64 << 10;

/// Some bytes of a file, in order: the next ones are on their way while the last ones are worked on.
pub(super) struct Ranged {
    from: Rc<Transfers>,
    path: Vec<String>,
    left: Range<u64>,
    step: u64,
    here: Vec<u8>,
    used: usize,
    ahead: Option<OnTheWay>,
}

impl Ranged {
    pub(super) fn new(
        from: &Rc<Transfers>,
        path: Vec<String>,
        range: Range<u64>,
        step: u64,
    ) -> Self {
        let from = Rc::clone(from);
        Self { from, path, left: range, step, here: Vec::new(), used: 0, ahead: None }
    }

    /// Fetches the first bytes.
    pub(super) fn begin(&mut self) -> Result<(), PartError> {
        let Some(first) = self.ask() else { return Ok(()) };
        self.here = self.from.arrived(first)?;
        self.ahead = self.ask();
        Ok(())
    }

    fn ask(&mut self) -> Option<OnTheWay> {
        let start = self.left.start;
        let end = self.left.end.min(start + self.step);
        self.left.start = end.max(start);
        (start < end).then(|| self.from.ask(self.path.clone(), start..end))
    }
}

impl Read for Ranged {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.used == self.here.len() && !out.is_empty() {
            let Some(next) = self.ahead.take().or_else(|| self.ask()) else { return Ok(0) };
            self.here = self.from.arrived(next).map_err(io::Error::other)?;
            self.used = 0;
            self.ahead = self.ask();
        }
        let count = out.len().min(self.here.len() - self.used);
        out[..count].copy_from_slice(&self.here[self.used..self.used + count]);
        self.used += count;
        Ok(count)
    }
}

/// The lines that start in a range: up to its end, and of what lies behind only the rest of the last line.
pub(super) struct Lines {
    head: Ranged,
    last: Option<u8>,
    path: Vec<String>,
    behind: Range<u64>,
    tail: Option<Ranged>,
    is_over: bool,
}

impl Lines {
    /// The lines of `head`, the last of which may go on `behind` it.
    pub(super) fn new(head: Ranged, path: Vec<String>, behind: Range<u64>) -> Self {
        Self { head, last: None, path, behind, tail: None, is_over: false }
    }
}

impl Read for Lines {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.is_over || out.is_empty() {
            return Ok(0);
        }
        if self.tail.is_none() {
            let count = self.head.read(out)?;
            if count > 0 {
                self.last = out[..count].last().copied();
                return Ok(count);
            }
            if self.last == Some(b'\n') {
                self.is_over = true;
                return Ok(0);
            }
            let (from, path) = (&self.head.from, std::mem::take(&mut self.path));
            self.tail = Some(Ranged::new(from, path, self.behind.clone(), TAIL_STEP));
        }
        let Some(tail) = &mut self.tail else { return Ok(0) };
        let mut count = tail.read(out)?;
        if let Some(end) = memchr(b'\n', &out[..count]) {
            (count, self.is_over, self.tail) = (end + 1, true, None);
        }
        Ok(count)
    }
}

/// A file of the shuffle.
pub(super) struct RemoteFile {
    pub(super) from: Rc<Transfers>,
    pub(super) path: Vec<String>,
    pub(super) length: u64,
    pub(super) step: u64,
}

impl Source for RemoteFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn bytes(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.from.fetch(self.path.clone(), Some(range)).map_err(io::Error::other)
    }

    fn reader(self, range: Range<u64>) -> io::Result<Box<dyn Read>> {
        let Self { from, path, step, .. } = self;
        let mut reader = Ranged::new(&from, path, range, step);
        // Those of many files come at once, not one after the other when they are looked at first.
        reader.ahead = reader.ask();
        Ok(Box::new(reader))
    }
}
