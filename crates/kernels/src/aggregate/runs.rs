//! Runs: records of key and value, sorted by key, and the merge of many of them.
//!
//! A record is the lengths of both, then both. Records with equal keys keep the order of their runs, so a merge of the
//! same runs gives the same bytes every time.

use std::io::{self, Read, Write};

use super::bytes::{put_number, take_number};
use super::table::prefix;

/// Bytes that a run reads at once, at least.
const BUFFER_BYTES_MIN: usize = 16 << 10;
/// Bytes of one record at most.
pub const RECORD_BYTES_MAX: usize = 1 << 31;
/// Bytes of the two lengths at most.
const LENGTHS_MAX: usize = 20;

/// Writes records.
#[derive(Debug)]
pub struct RunWriter<W> {
    out: W,
    lengths: Vec<u8>,
}

impl<W: Write> RunWriter<W> {
    /// Writes to `out`, which should have a buffer.
    pub fn new(out: W) -> Self {
        Self { out, lengths: Vec::with_capacity(LENGTHS_MAX) }
    }

    /// Appends a record; how many bytes it took.
    ///
    /// # Errors
    /// Those of the writer.
    #[inline]
    pub fn write(&mut self, key: &[u8], value: &[u8]) -> io::Result<usize> {
        self.lengths.clear();
        put_number(key.len() as u64, &mut self.lengths);
        put_number(value.len() as u64, &mut self.lengths);
        if self.lengths.len() + key.len() + value.len() <= 256 {
            // One call is faster than three.
            self.lengths.extend_from_slice(key);
            self.lengths.extend_from_slice(value);
            self.out.write_all(&self.lengths)?;
            return Ok(self.lengths.len());
        }
        self.out.write_all(&self.lengths)?;
        self.out.write_all(key)?;
        self.out.write_all(value)?;
        Ok(self.lengths.len() + key.len() + value.len())
    }

    /// Where it writes to.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// The same, for good.
    pub fn into_inner(self) -> W {
        self.out
    }
}

/// Reads records.
#[derive(Debug)]
pub struct RunReader<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    key: usize,
    value: usize,
    ended: bool,
}

impl<R: Read> RunReader<R> {
    /// Reads about so many bytes at once.
    pub fn new(reader: R, buffer_bytes: usize) -> Self {
        let buffer = vec![0; buffer_bytes.max(BUFFER_BYTES_MIN)];
        Self { reader, buffer, start: 0, end: 0, key: 0, value: 0, ended: false }
    }

    /// Goes on to the next record; whether there is one.
    ///
    /// # Errors
    /// If the reader fails, or ends in the middle of a record.
    #[inline]
    pub fn advance(&mut self) -> io::Result<bool> {
        self.start += self.key + self.value;
        (self.key, self.value) = (0, 0);
        if self.end - self.start < LENGTHS_MAX {
            self.fill(LENGTHS_MAX)?;
        }
        if self.start == self.end {
            return Ok(false);
        }
        let mut head = &self.buffer[self.start..self.end];
        let before = head.len();
        let lengths = (take_number(&mut head), take_number(&mut head));
        let (Ok(key), Ok(value)) = lengths else { return Err(damaged()) };
        if key.saturating_add(value) > RECORD_BYTES_MAX as u64 {
            return Err(damaged());
        }
        self.start += before - head.len();
        (self.key, self.value) = (key as usize, value as usize);
        let needed = self.key + self.value;
        if self.end - self.start < needed {
            self.fill(needed)?;
            if self.end - self.start < needed {
                return Err(damaged());
            }
        }
        Ok(true)
    }

    /// The key of the record.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.buffer[self.start..][..self.key]
    }

    /// The value of the record.
    #[inline]
    pub fn value(&self) -> &[u8] {
        &self.buffer[self.start + self.key..][..self.value]
    }

    /// Reads until so many bytes are there, or the end.
    fn fill(&mut self, wanted: usize) -> io::Result<()> {
        if self.ended {
            return Ok(());
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        while self.end < self.buffer.len() {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a run of records is damaged")
}

/// Many runs as one: by key, and equal keys in the order of the runs.
#[derive(Debug)]
pub struct Merge<R> {
    runs: Vec<RunReader<R>>,
    /// A heap of runs that have a record: the one with the least key is first.
    heap: Vec<(u64, usize)>,
    begun: bool,
}

impl<R: Read> Merge<R> {
    /// Merges these runs.
    pub fn new(runs: Vec<RunReader<R>>) -> Self {
        Self { runs, heap: Vec::new(), begun: false }
    }

    /// Goes on to the next record; whether there is one.
    ///
    /// # Errors
    /// If a run cannot be read.
    #[inline]
    pub fn advance(&mut self) -> io::Result<bool> {
        if !self.begun {
            self.begun = true;
            for (number, run) in self.runs.iter_mut().enumerate() {
                if run.advance()? {
                    self.heap.push((prefix(run.key()), number));
                }
            }
            for at in (0..self.heap.len() / 2).rev() {
                self.sink(at);
            }
            return Ok(!self.heap.is_empty());
        }
        let Some((_, number)) = self.heap.first().copied() else { return Ok(false) };
        if self.runs[number].advance()? {
            self.heap[0] = (prefix(self.runs[number].key()), number);
        } else {
            self.heap.swap_remove(0);
        }
        self.sink(0);
        Ok(!self.heap.is_empty())
    }

    /// The record: key and value. Call it only after [`advance`](Self::advance) found one.
    #[inline]
    pub fn record(&self) -> (&[u8], &[u8]) {
        let run = &self.runs[self.heap[0].1];
        (run.key(), run.value())
    }

    #[inline]
    fn sink(&mut self, mut at: usize) {
        loop {
            let left = 2 * at + 1;
            if left >= self.heap.len() {
                return;
            }
            let right = left + 1;
            let less =
                if right < self.heap.len() && self.before(right, left) { right } else { left };
            if !self.before(less, at) {
                return;
            }
            self.heap.swap(less, at);
            at = less;
        }
    }

    #[inline]
    fn before(&self, left: usize, right: usize) -> bool {
        let ((left_prefix, left), (right_prefix, right)) = (self.heap[left], self.heap[right]);
        if left_prefix != right_prefix {
            return left_prefix < right_prefix;
        }
        (self.runs[left].key(), left) < (self.runs[right].key(), right)
    }
}
