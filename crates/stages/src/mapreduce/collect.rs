//! Collects what a part maps, within its memory, and writes it to the shuffle by partition and key.
//!
//! Values of the same key are brought together at once where they can be. When memory is full, everything goes to a file
//! in the scratch folder, sorted; at the end these files are merged. On the way the bytes of each key are counted in a
//! sketch, so that the plan of the next stage knows the keys that are much of the whole.

use std::path::PathBuf;

use divvy_kernels::aggregate::hash::partition;
use divvy_kernels::aggregate::{Hot, Records, RunWriter, Table, put_number, take_number};
use serde_json::json;

use super::command::Combiner;
use super::program::{Combining, Program, damaged};
use super::spills::{Spills, Take};
use crate::job::{PartError, PartIo, Report, ShuffleWriter};

/// Keys that a part names as hot, and what such a key has at least: this share of a partition's fair share.
const HOT_MAX: usize = 16;
const HOT_SHARE: f64 = 0.5;

/// Collects pairs of key and value.
pub struct Collector<'i> {
    io: &'i PartIo<'i>,
    partitions: u32,
    how: How<'i>,
    budget: usize,
    held: Held,
    spills: Spills<'i>,
}

/// What is in memory.
#[derive(Default)]
struct Held {
    /// By key: a count, or one more than the place in `values`.
    table: Table,
    values: Vec<Vec<u8>>,
    value_bytes: usize,
    records: Records,
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
        Self { io, partitions, how, budget, held: Held::default(), spills: Spills::new(io) }
    }

    /// Takes a pair.
    ///
    /// # Errors
    /// If memory is full and the disk too.
    #[inline]
    pub fn emit(&mut self, key: &[u8], value: &[u8]) -> Result<(), PartError> {
        match self.how {
            How::Add => {
                *self.held.table.value(key) += take_number(&mut &*value).map_err(damaged)?;
                self.make_room()
            }
            How::Merge(program) => {
                self.held.merge(program, key, value)?;
                self.make_room()
            }
            How::All | How::Command(_) => {
                self.held.records.push(partition(key, self.partitions), key, value);
                self.make_room()
            }
        }
    }

    /// Adds 1 to the count of every word. Only for programs that add.
    ///
    /// # Errors
    /// If memory is full and the disk too.
    pub(super) fn count_words(&mut self, text: &[u8]) -> Result<(), PartError> {
        divvy_kernels::text::words::for_each(text, |word| *self.held.table.value(word) += 1);
        self.make_room()
    }

    #[inline]
    fn make_room(&mut self) -> Result<(), PartError> {
        let held = &self.held;
        let used = held.table.memory() + held.value_bytes + held.records.memory();
        if used > self.budget { self.spill() } else { Ok(()) }
    }

    #[cold]
    fn spill(&mut self) -> Result<(), PartError> {
        let held = &mut self.held;
        self.spills.add(|take| held.drain(self.how, self.partitions, take))
    }

    /// Writes everything to the shuffle, and into the report what is in it.
    ///
    /// # Errors
    /// If the disk is full.
    pub(super) fn finish(mut self, report: &mut Report) -> Result<(), PartError> {
        let mut shuffle = Shuffled::new(self.io, self.partitions, !matches!(self.how, How::Add))?;
        let mut write =
            |partition: u32, key: &[u8], value: &[u8]| shuffle.write(partition, key, value);
        if self.spills.is_empty() {
            self.held.drain(self.how, self.partitions, &mut write)?;
        } else {
            self.spill()?;
            report.count("spills", self.spills.written());
            let mut joined = Joined::new(self.how);
            self.spills.merge(&mut |partition, key, value| {
                joined.add(partition, key, value, &mut write)
            })?;
            joined.finish(&mut write)?;
        }
        shuffle.finish(self.io, report)
    }
}

impl Held {
    fn merge(&mut self, program: &dyn Program, key: &[u8], value: &[u8]) -> Result<(), PartError> {
        let (place, new) = self.table.entry(key);
        if new {
            self.values.push(value.to_vec());
            *place = self.values.len() as u64;
            self.value_bytes += value.len() + size_of::<Vec<u8>>();
            return Ok(());
        }
        let into = &mut self.values[*place as usize - 1];
        let before = into.len();
        program.merge(into, value).map_err(damaged)?;
        self.value_bytes = (self.value_bytes + into.len()).saturating_sub(before);
        Ok(())
    }

    /// Hands partition, key and value of everything in memory to `take`, in order, and forgets it.
    fn drain(
        &mut self,
        how: How<'_>,
        partitions: u32,
        take: &mut Take<'_>,
    ) -> Result<(), PartError> {
        let mut count = Vec::new();
        match how {
            How::Add => {
                for (partition, key, number) in self.table.sorted(partitions).iter() {
                    count.clear();
                    put_number(number, &mut count);
                    take(partition, key, &count)?;
                }
            }
            How::Merge(_) => {
                for (partition, key, place) in self.table.sorted(partitions).iter() {
                    take(partition, key, &self.values[place as usize - 1])?;
                }
            }
            How::All | How::Command(_) => {
                self.records.sort();
                if let How::Command(combiner) = how {
                    self.records = combiner.combine(&self.records, partitions)?;
                    self.records.sort();
                }
                for (partition, key, value) in self.records.iter() {
                    take(partition, key, value)?;
                }
            }
        }
        // Freed rather than kept: what follows may need the memory.
        *self = Self::default();
        Ok(())
    }
}

/// Brings values of the same key together as they come by in order.
pub(super) struct Joined<'i> {
    how: How<'i>,
    /// The partition of what is held, if anything is.
    partition: Option<u32>,
    key: Vec<u8>,
    value: Vec<u8>,
    count: u64,
}

impl<'i> Joined<'i> {
    pub(super) fn new(how: How<'i>) -> Self {
        Self { how, partition: None, key: Vec::new(), value: Vec::new(), count: 0 }
    }

    pub(super) fn add(
        &mut self,
        partition: u32,
        key: &[u8],
        value: &[u8],
        take: &mut Take<'_>,
    ) -> Result<(), PartError> {
        if matches!(self.how, How::All | How::Command(_)) {
            return take(partition, key, value);
        }
        let same = self.partition == Some(partition) && self.key == key;
        if !same {
            self.finish(take)?;
            self.key.clear();
            self.key.extend_from_slice(key);
            self.partition = Some(partition);
        }
        match self.how {
            How::Add => self.count += take_number(&mut &*value).map_err(damaged)?,
            How::Merge(program) if same => {
                program.merge(&mut self.value, value).map_err(damaged)?
            }
            _ => {
                self.value.clear();
                self.value.extend_from_slice(value);
            }
        }
        Ok(())
    }

    /// Hands over what is held.
    pub(super) fn finish(&mut self, take: &mut Take<'_>) -> Result<(), PartError> {
        let Some(partition) = self.partition.take() else { return Ok(()) };
        if matches!(self.how, How::Add) {
            self.value.clear();
            put_number(std::mem::take(&mut self.count), &mut self.value);
        }
        take(partition, &self.key, &self.value)
    }
}

/// A file of the shuffle whose partitions are runs of records, and the keys that are much of it.
pub(crate) struct Shuffled {
    run: RunWriter<ShuffleWriter>,
    path: PathBuf,
    partition: Option<u32>,
    hot: Option<Hot>,
    hot_share: f64,
    key: Vec<u8>,
    bytes: u64,
}

impl Shuffled {
    /// A new one; `hot` says whether keys are weighed.
    pub(crate) fn new(io: &PartIo<'_>, partitions: u32, hot: bool) -> Result<Self, PartError> {
        let writer = io.shuffle(partitions)?;
        let (path, run) = (writer.path().to_owned(), RunWriter::new(writer));
        let hot = hot.then(Hot::default);
        let hot_share = HOT_SHARE / f64::from(partitions.max(1));
        Ok(Self { run, path, partition: None, hot, hot_share, key: Vec::new(), bytes: 0 })
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
            let keys = hot.keys(self.hot_share);
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
