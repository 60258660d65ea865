//! Collects what a part maps, within its memory, and writes it to the shuffle by partition and key.
//!
//! Values of the same key are brought together at once where they can be. When memory is full, everything goes to a file
//! in the scratch folder, sorted; at the end these files are merged. On the way the bytes of each key are counted in a
//! sketch, so that the plan of the next stage knows the keys that are much of the whole.

use std::fs::File;
use std::io::{BufWriter, Read, Write as _};
use std::path::PathBuf;

use divvy_kernels::aggregate::hash::partition;
use divvy_kernels::aggregate::{
    Hot, Merge, Records, RunReader, RunWriter, Table, put_number, take_number,
};
use serde_json::json;

use super::command::Combiner;
use super::program::{Combining, Program, damaged};
use crate::job::{PartError, PartIo, Report, ShuffleWriter};

/// Bytes that a spill is written and read with at once.
const SPILL_BUFFER: usize = 256 << 10;
/// Spills that are merged at once.
const SPILLS_MAX: usize = 64;
/// Keys that a part names as hot, and the least share of its bytes that such a key has.
const HOT_MAX: usize = 16;
const HOT_SHARE: f64 = 0.01;

/// Collects pairs of key and value.
pub struct Collector<'i> {
    io: &'i PartIo<'i>,
    partitions: u32,
    how: How<'i>,
    budget: usize,
    /// By key: a count, or one more than the place in `values`.
    table: Table,
    values: Vec<Vec<u8>>,
    value_bytes: usize,
    records: Records,
    spills: Vec<PathBuf>,
    spilled: u64,
}

/// How values of the same key come together.
#[derive(Clone, Copy)]
pub(super) enum How<'i> {
    Add,
    Merge(&'i dyn Program),
    All,
    Command(&'i Combiner<'i>),
}

impl<'i> How<'i> {
    pub(super) fn of(program: &'i dyn Program) -> Self {
        match program.combining() {
            Combining::Add => Self::Add,
            Combining::Merge => Self::Merge(program),
            Combining::All | Combining::MapOnly => Self::All,
        }
    }
}

impl<'i> Collector<'i> {
    pub(super) fn new(io: &'i PartIo<'i>, partitions: u32, how: How<'i>) -> Self {
        // What is sorted needs about as much again.
        let budget = io.memory_bytes() / 3;
        Self {
            io,
            partitions,
            how,
            budget,
            table: Table::new(),
            values: Vec::new(),
            value_bytes: 0,
            records: Records::default(),
            spills: Vec::new(),
            spilled: 0,
        }
    }

    /// Takes a pair.
    ///
    /// # Errors
    /// If memory is full and the disk too.
    #[inline]
    pub fn emit(&mut self, key: &[u8], value: &[u8]) -> Result<(), PartError> {
        match self.how {
            How::Add => {
                *self.table.value(key) += take_number(&mut &*value).map_err(damaged)?;
                self.make_room()
            }
            How::Merge(program) => {
                let (place, new) = self.table.entry(key);
                if new {
                    self.values.push(value.to_vec());
                    *place = self.values.len() as u64;
                    self.value_bytes += value.len() + size_of::<Vec<u8>>();
                } else {
                    let into = &mut self.values[*place as usize - 1];
                    let before = into.len();
                    program.merge(into, value).map_err(damaged)?;
                    self.value_bytes = (self.value_bytes + into.len()).saturating_sub(before);
                }
                self.make_room()
            }
            How::All | How::Command(_) => {
                self.records.push(partition(key, self.partitions), key, value);
                self.make_room()
            }
        }
    }

    /// Adds 1 to the count of every word. Only for programs that add.
    ///
    /// # Errors
    /// If memory is full and the disk too.
    pub(super) fn count_words(&mut self, text: &[u8]) -> Result<(), PartError> {
        divvy_kernels::text::words::for_each(text, |word| *self.table.value(word) += 1);
        self.make_room()
    }

    #[inline]
    fn make_room(&mut self) -> Result<(), PartError> {
        let used = self.table.memory() + self.value_bytes + self.records.memory();
        if used > self.budget { self.spill() } else { Ok(()) }
    }

    #[cold]
    fn spill(&mut self) -> Result<(), PartError> {
        if self.spills.len() == SPILLS_MAX {
            self.merge_spills()?;
        }
        let path = self.next_spill()?;
        let failed = |error: std::io::Error| PartError::io(&path, &error);
        let file = File::create(&path).map_err(failed)?;
        let mut run = RunWriter::new(BufWriter::with_capacity(SPILL_BUFFER, file));
        let mut prefixed = Vec::new();
        self.drain(&mut |partition, key, value| {
            prefix(partition, key, &mut prefixed);
            run.write(&prefixed, value).map(drop).map_err(failed)
        })?;
        run.into_inner().flush().map_err(failed)?;
        self.spills.push(path);
        Ok(())
    }

    fn next_spill(&mut self) -> Result<PathBuf, PartError> {
        self.spilled += 1;
        Ok(self.io.scratch()?.join(format!("spill-{}", self.spilled)))
    }

    /// Makes one spill of all.
    fn merge_spills(&mut self) -> Result<(), PartError> {
        let path = self.next_spill()?;
        let failed = |error: std::io::Error| PartError::io(&path, &error);
        let file = File::create(&path).map_err(failed)?;
        let mut run = RunWriter::new(BufWriter::with_capacity(SPILL_BUFFER, file));
        self.merged(&mut |key, value| run.write(key, value).map(drop).map_err(failed))?;
        run.into_inner().flush().map_err(failed)?;
        for old in self.spills.drain(..) {
            // The folder is removed with the attempt.
            let _ = std::fs::remove_file(old);
        }
        self.spills.push(path);
        Ok(())
    }

    /// Hands partition, key and value of everything in memory to `take`, in order, and forgets it.
    fn drain(
        &mut self,
        take: &mut dyn FnMut(u32, &[u8], &[u8]) -> Result<(), PartError>,
    ) -> Result<(), PartError> {
        let mut count = Vec::new();
        match self.how {
            How::Add => {
                for (partition, key, number) in self.table.sorted(self.partitions).iter() {
                    count.clear();
                    put_number(number, &mut count);
                    take(partition, key, &count)?;
                }
            }
            How::Merge(_) => {
                for (partition, key, place) in self.table.sorted(self.partitions).iter() {
                    take(partition, key, &self.values[place as usize - 1])?;
                }
            }
            How::All | How::Command(_) => {
                self.records.sort();
                if let How::Command(combiner) = self.how {
                    self.records = combiner.combine(&self.records, self.partitions)?;
                    self.records.sort();
                }
                for (partition, key, value) in self.records.iter() {
                    take(partition, key, value)?;
                }
            }
        }
        // Freed rather than kept: what follows may need the memory.
        self.table = Table::new();
        self.values = Vec::new();
        self.value_bytes = 0;
        self.records = Records::default();
        Ok(())
    }

    /// Hands all spilled records to `take`, in order, each with its partition in front of its key. Values that can come
    /// together do.
    fn merged(
        &self,
        take: &mut dyn FnMut(&[u8], &[u8]) -> Result<(), PartError>,
    ) -> Result<(), PartError> {
        let mut runs = Vec::new();
        for path in &self.spills {
            let file = File::open(path).map_err(|error| PartError::io(path, &error))?;
            let file: Box<dyn Read> = Box::new(file);
            runs.push(RunReader::new(file, SPILL_BUFFER));
        }
        let trouble = |error| PartError::Trouble(format!("a spill cannot be read: {error}"));
        let mut merge = Merge::new(runs);
        let mut joined = Joined::new(self.how);
        let mut rows = 0_u64;
        while merge.advance().map_err(trouble)? {
            let (key, value) = merge.record();
            joined.add(key, value, take)?;
            rows += 1;
            if rows.is_multiple_of(65_536) {
                self.io.check()?;
            }
        }
        joined.finish(take)
    }

    /// Writes everything to the shuffle, and into the report what is in it.
    ///
    /// # Errors
    /// If the disk is full.
    pub(super) fn finish(mut self, report: &mut Report) -> Result<(), PartError> {
        let mut shuffle = Shuffled::new(self.io, self.partitions, !matches!(self.how, How::Add))?;
        if self.spills.is_empty() {
            self.drain(&mut |partition, key, value| shuffle.write(partition, key, value))?;
        } else {
            self.spill()?;
            report.count("spills", self.spilled);
            self.merged(&mut |prefixed, value| {
                let (partition, key) = split_prefix(prefixed);
                shuffle.write(partition, key, value)
            })?;
        }
        shuffle.finish(self.io, report)
    }
}

/// Brings values of the same key together as they come by in order.
pub(super) struct Joined<'i> {
    how: How<'i>,
    key: Vec<u8>,
    value: Vec<u8>,
    count: u64,
    some: bool,
}

impl<'i> Joined<'i> {
    pub(super) fn new(how: How<'i>) -> Self {
        Self { how, key: Vec::new(), value: Vec::new(), count: 0, some: false }
    }

    pub(super) fn add(
        &mut self,
        key: &[u8],
        value: &[u8],
        take: &mut dyn FnMut(&[u8], &[u8]) -> Result<(), PartError>,
    ) -> Result<(), PartError> {
        if matches!(self.how, How::All | How::Command(_)) {
            return take(key, value);
        }
        let same = self.some && self.key == key;
        if !same {
            self.flush(take)?;
            self.key.clear();
            self.key.extend_from_slice(key);
            self.some = true;
        }
        match self.how {
            How::Add => self.count += take_number(&mut &*value).map_err(damaged)?,
            How::Merge(program) if same => program.merge(&mut self.value, value).map_err(damaged)?,
            _ => {
                self.value.clear();
                self.value.extend_from_slice(value);
            }
        }
        Ok(())
    }

    fn flush(
        &mut self,
        take: &mut dyn FnMut(&[u8], &[u8]) -> Result<(), PartError>,
    ) -> Result<(), PartError> {
        if !std::mem::take(&mut self.some) {
            return Ok(());
        }
        if matches!(self.how, How::Add) {
            self.value.clear();
            put_number(std::mem::take(&mut self.count), &mut self.value);
        }
        take(&self.key, &self.value)
    }

    pub(super) fn finish(
        mut self,
        take: &mut dyn FnMut(&[u8], &[u8]) -> Result<(), PartError>,
    ) -> Result<(), PartError> {
        self.flush(take)
    }
}

/// A file of the shuffle whose partitions are runs of records, and the keys that are much of it.
pub(crate) struct Shuffled {
    run: RunWriter<ShuffleWriter>,
    path: PathBuf,
    partition: Option<u32>,
    hot: Option<Hot>,
    key: Vec<u8>,
    bytes: u64,
}

impl Shuffled {
    /// A new one; `hot` says whether keys are weighed.
    pub(crate) fn new(io: &PartIo<'_>, partitions: u32, hot: bool) -> Result<Self, PartError> {
        let writer = io.shuffle(partitions)?;
        let (path, run) = (writer.path().to_owned(), RunWriter::new(writer));
        let hot = hot.then(Hot::default);
        Ok(Self { run, path, partition: None, hot, key: Vec::new(), bytes: 0 })
    }

    /// Appends a record; they come in the order of partitions and keys.
    pub(crate) fn write(
        &mut self,
        partition: u32,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), PartError> {
        if self.partition != Some(partition) {
            self.partition = Some(partition);
            let chosen = self.run.get_mut().partition(partition);
            chosen.map_err(|error| PartError::io(&self.path, &error))?;
        }
        let written = self.run.write(key, value);
        let bytes = written.map_err(|error| PartError::io(&self.path, &error))?;
        self.run.get_mut().add_rows(1);
        if let Some(hot) = &mut self.hot {
            if self.key != key {
                hot.add(&self.key, self.bytes);
                self.bytes = 0;
                self.key.clear();
                self.key.extend_from_slice(key);
            }
            self.bytes += bytes as u64;
        }
        Ok(())
    }

    /// Ends it. The report gets what is in it, and the hot keys as `extra.hot`: key and bytes.
    pub(crate) fn finish(mut self, io: &PartIo<'_>, report: &mut Report) -> Result<(), PartError> {
        if let Some(hot) = &mut self.hot {
            hot.add(&self.key, self.bytes);
            let keys = hot.keys(HOT_SHARE);
            let keys: Vec<_> = keys
                .iter()
                .take(HOT_MAX)
                .map(|(key, bytes)| json!([String::from_utf8_lossy(key), bytes]))
                .collect();
            if !keys.is_empty() {
                report.extra = json!({ "hot": keys });
            }
        }
        io.finish_shuffle(self.run.into_inner(), report)
    }
}

fn prefix(partition: u32, key: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&partition.to_be_bytes());
    out.extend_from_slice(key);
}

fn split_prefix(prefixed: &[u8]) -> (u32, &[u8]) {
    match prefixed.split_first_chunk::<4>() {
        Some((partition, key)) => (u32::from_be_bytes(*partition), key),
        None => (0, prefixed),
    }
}
