//! A piece of the input in memory: read, sorted, cut into ranges, written.
//!
//! Records stay where they were read to; what is sorted are entries of 16 bytes with eight bytes of the key, after the idea
//! of AlphaSort (Nyberg and others, 1994). Where those are equal, the next eight are taken, so that long common
//! beginnings cost one look each instead of one per comparison.

use std::io::{Read, Write};
use std::ops::Range;

use memchr::memchr_iter;

use super::OrderError;
use super::layout::{Layout, Order};
use super::splitters::Splitter;
use super::tally::Tally;

/// Bytes that are read at once.
const BLOCK_BYTES: usize = 1 << 20;
/// Bytes that are written at once.
const STAGE_BYTES: usize = 1 << 18;
/// Bytes of a run, at most, because entries have 32 bits for the place of a record.
const RUN_BYTES_MAX: usize = u32::MAX as usize - 2 * BLOCK_BYTES;
/// Bytes of common beginning after which keys are compared as a whole.
const DEPTH_MAX: usize = 64;
/// Entries below which keys are compared as a whole.
const GROUP_SMALL: usize = 24;

/// One record of a run.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Eight bytes of its key.
    prefix: u64,
    start: u32,
    /// Without the line end.
    bytes: u32,
}

/// How a run was filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// The memory is full, and there is more to read.
    Full,
    /// The input has ended.
    End,
}

/// Records in memory.
#[derive(Debug)]
pub struct Run {
    order: Order,
    memory: usize,
    data: Vec<u8>,
    /// How much of the data is in entries; behind it lies the beginning of a record.
    indexed: usize,
    entries: Vec<Entry>,
    /// Where the data begins in the input.
    base: u64,
}

impl Run {
    /// An empty run that takes about this many bytes, records and entries together.
    pub fn new(order: Order, memory: usize) -> Self {
        let memory = memory.clamp(4 * BLOCK_BYTES, RUN_BYTES_MAX);
        Self { order, memory, data: Vec::new(), indexed: 0, entries: Vec::new(), base: 0 }
    }

    /// Says where the input begins in its file, before anything is read.
    pub fn starting_at(mut self, offset: u64) -> Self {
        self.base = offset;
        self
    }

    /// Records that are in it.
    pub fn rows(&self) -> usize {
        self.entries.len()
    }

    /// Forgets what was sorted, and reads until the memory is full or the input has ended. The input is the same each time.
    ///
    /// # Errors
    /// If the input cannot be read to its end or ends in the middle of a record: the whole ones before that are in the run.
    pub fn fill(&mut self, input: &mut impl Read) -> Result<Filled, OrderError> {
        self.forget();
        loop {
            let room = self.memory.saturating_sub(self.used());
            if room < BLOCK_BYTES {
                if self.entries.is_empty() {
                    return Err(OrderError::Long { offset: self.base, limit: self.data.len() });
                }
                return Ok(Filled::Full);
            }
            self.make_room(BLOCK_BYTES);
            let read = input.by_ref().take(BLOCK_BYTES as u64).read_to_end(&mut self.data);
            self.index();
            match read {
                Ok(0) => {
                    self.end()?;
                    return Ok(Filled::End);
                }
                Ok(_) => {}
                Err(error) => {
                    let offset = self.base + self.indexed as u64;
                    return Err(OrderError::Read { offset, error });
                }
            }
        }
    }

    /// Sorts what is in it.
    pub fn sort(&mut self) {
        let Self { order, data, entries, .. } = self;
        sort_by_prefix(entries);
        break_ties(*order, data, entries, 0);
    }

    /// Where ranges begin and end in it, once it is sorted: one range more than there are splitters. `file` is the
    /// file that it was read from.
    pub fn ranges(&self, splitters: &[Splitter], file: u32) -> Vec<Range<usize>> {
        let mut ranges = Vec::with_capacity(splitters.len() + 1);
        let mut start = 0;
        for splitter in splitters {
            let rest = &self.entries[start..];
            let end = start
                + rest.partition_point(|entry| {
                    let position = (file, self.base + u64::from(entry.start));
                    splitter.is_after(&self.order, self.key(entry), position)
                });
            ranges.push(start..end);
            start = end;
        }
        ranges.push(start..self.entries.len());
        ranges
    }

    /// Writes some of the sorted records, each with its line end, and counts them.
    pub fn write(&self, range: Range<usize>, output: &mut impl Write) -> Result<Tally, OrderError> {
        let end = usize::from(self.order.is_lines());
        let mut tally = Tally::default();
        let mut stage = Vec::with_capacity(STAGE_BYTES + BLOCK_BYTES);
        for entry in &self.entries[range] {
            let start = entry.start as usize;
            let record = &self.data[start..start + entry.bytes as usize + end];
            tally.add(record);
            stage.extend_from_slice(record);
            if stage.len() >= STAGE_BYTES {
                output.write_all(&stage)?;
                stage.clear();
            }
        }
        output.write_all(&stage)?;
        Ok(tally)
    }

    /// The records with their positions, in the order in which they are in it.
    pub fn records(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.entries.iter().map(|entry| (self.base + u64::from(entry.start), self.record(entry)))
    }

    /// Bytes of memory that records and entries take.
    pub fn used(&self) -> usize {
        self.data.len() + self.entries.len() * size_of::<Entry>()
    }

    fn record(&self, entry: &Entry) -> &[u8] {
        &self.data[entry.start as usize..][..entry.bytes as usize]
    }

    fn key(&self, entry: &Entry) -> &[u8] {
        self.order.key(self.record(entry))
    }

    /// Keeps only the beginning of the next record.
    fn forget(&mut self) {
        self.base += self.indexed as u64;
        self.data.copy_within(self.indexed.., 0);
        self.data.truncate(self.data.len() - self.indexed);
        self.indexed = 0;
        self.entries.clear();
    }

    /// Grows by doubling while that stays within the memory, since doubling beyond it would take twice of it.
    fn make_room(&mut self, bytes: usize) {
        let wanted = self.data.len() + bytes;
        if self.data.capacity() < wanted {
            let doubled = (2 * self.data.capacity()).clamp(wanted, wanted.max(self.memory));
            self.data.reserve_exact(doubled - self.data.len());
        }
    }

    fn index(&mut self) {
        match self.order.layout {
            Layout::Records { bytes, .. } => self.index_records(bytes as usize),
            Layout::Lines | Layout::Fields { .. } => self.index_lines(),
        }
    }

    fn index_lines(&mut self) {
        let Self { order, data, entries, indexed, .. } = self;
        let mut start = *indexed;
        let from = start;
        for end in memchr_iter(b'\n', &data[from..]) {
            let end = from + end;
            let prefix = order.prefix(order.key(&data[start..end]), 0);
            entries.push(Entry { prefix, start: start as u32, bytes: (end - start) as u32 });
            start = end + 1;
        }
        *indexed = start;
    }

    fn index_records(&mut self, bytes: usize) {
        let Self { order, data, entries, indexed, .. } = self;
        for record in data[*indexed..].chunks_exact(bytes) {
            let prefix = order.prefix(order.key(record), 0);
            entries.push(Entry { prefix, start: *indexed as u32, bytes: bytes as u32 });
            *indexed += bytes;
        }
    }

    /// What is left when the input has ended: a line without its end, or a piece of a record.
    fn end(&mut self) -> Result<(), OrderError> {
        let found = self.data.len() - self.indexed;
        if found == 0 {
            return Ok(());
        }
        if let Layout::Records { bytes, .. } = self.order.layout {
            let offset = self.base + self.indexed as u64;
            return Err(OrderError::Cut { offset, found, expected: bytes as usize });
        }
        self.data.push(b'\n');
        self.index_lines();
        Ok(())
    }
}

/// By eight bytes, then by place, which keeps equal keys in their order.
fn sort_by_prefix(entries: &mut [Entry]) {
    entries.sort_unstable_by_key(|entry| u128::from(entry.prefix) << 32 | u128::from(entry.start));
}

/// Sorts by what follows where eight bytes from `depth` on are equal.
fn break_ties(order: Order, data: &[u8], entries: &mut [Entry], depth: usize) {
    for group in entries.chunk_by_mut(|a, b| a.prefix == b.prefix) {
        if group.len() == 1 {
            continue;
        }
        let key = |entry: &Entry| order.key(&data[entry.start as usize..][..entry.bytes as usize]);
        let next = depth + 8;
        if group.len() <= GROUP_SMALL || next >= DEPTH_MAX || order.numeric {
            group.sort_unstable_by(|a, b| {
                order.compare_rest(key(a), key(b)).then(a.start.cmp(&b.start))
            });
            continue;
        }
        let mut goes_on = false;
        for entry in group.iter_mut() {
            let key = key(entry);
            goes_on |= key.len() > next;
            entry.prefix = order.prefix(key, next);
        }
        if goes_on {
            sort_by_prefix(group);
            break_ties(order, data, group, next);
        } else if group.windows(2).any(|pair| key(&pair[0]).len() != key(&pair[1]).len()) {
            // What was filled up with zeros stands for a key that has them.
            group.sort_unstable_by(|a, b| {
                order.compare_rest(key(a), key(b)).then(a.start.cmp(&b.start))
            });
        }
    }
}
