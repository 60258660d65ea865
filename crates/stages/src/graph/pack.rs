//! The first stage: lists of edges as text become packed edges, by where they end.
//!
//! The edges of a part come together in memory, range by range, because a partition of the shuffle follows the other; those of a
//! part that is larger than usual wait in a file of the scratch folder.
//!
//! Names become numbers in the order in which they are met, so one part reads all files then, and its table of names has to
//! fit in its memory. The names follow the edges as a partition of their own.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;

use divvy_kernels::aggregate::{Table, put_bytes};
use divvy_kernels::graph::bins::{BINS, Bins};
use divvy_kernels::graph::edges::{self, BadEdge};
use divvy_kernels::text::Block;
use serde_json::json;

use super::spilled::Spilled;
use super::{Ids, Options};
use crate::input::{self, Faults, Split, Text, split};
use crate::job::{Part, PartError, PartIo, PartSpec, Report, ShuffleWriter, Spec};

/// The partition of names, behind those of edges: one for each range in which they end.
pub(super) const NAMES: u32 = BINS as u32;
/// Bytes of names that are written at once.
const STAGE_BYTES: usize = 1 << 18;
/// The share of a part's memory that edges take before they go to the scratch folder.
const EDGES_SHARE: usize = 4;

/// The parts of the stage.
pub(super) fn parts(spec: &Spec, ids: Ids) -> Vec<Part> {
    let splits = input::plan(spec);
    match ids {
        Ids::Number => splits.iter().map(|splits| split::part(spec, splits)).collect(),
        Ids::Name => vec![split::part(spec, &splits.concat())],
    }
}

pub(super) fn run(
    options: &Options,
    part: &PartSpec,
    io: &PartIo<'_>,
) -> Result<Report, PartError> {
    let splits: Vec<Split> = part.work()?;
    let mut report = Report::default();
    let mut packer = Packer::new(options, io)?;
    // Numbers are digits, whatever else is in their lines.
    let text = if options.ids == Ids::Name { Text::Utf8 } else { Text::Bytes };
    input::read(io, &splits, text, &mut report, |lines, faults| {
        packer.take(lines.block, faults)?;
        packer.check_memory()
    })?;
    packer.finish(&mut report)?;
    Ok(report)
}

struct Packer<'i> {
    io: &'i PartIo<'i>,
    bins: Bins,
    spilled: Option<Spilled>,
    names: Option<Names>,
    weighted: bool,
    edge_bytes: u64,
}

/// Numbers of names, and the names in the order of their numbers.
struct Names {
    table: Table,
    path: PathBuf,
    file: File,
    /// Names that are not in the file yet.
    text: Vec<u8>,
}

impl<'i> Packer<'i> {
    fn new(options: &Options, io: &'i PartIo<'i>) -> Result<Self, PartError> {
        let names = match options.ids {
            Ids::Number => None,
            Ids::Name => {
                let path = io.scratch()?.join("names");
                let file = File::create_new(&path).map_err(|error| PartError::io(&path, &error))?;
                Some(Names { table: Table::new(), path, file, text: Vec::new() })
            }
        };
        let (weighted, edge_bytes) = (options.weighted, options.edge_bytes() as u64);
        Ok(Self { io, bins: Bins::new(), spilled: None, names, weighted, edge_bytes })
    }

    /// Takes some lines.
    fn take(&mut self, block: Block<'_>, faults: &mut Faults<'_>) -> Result<(), PartError> {
        let takes_plain_lines = self.names.is_none() && !self.weighted;
        let mut rest = block.bytes;
        while !rest.is_empty() {
            if takes_plain_lines && let Some((from, to, bytes)) = edges::plain_line(rest) {
                self.bins.push(from, to, None);
                rest = &rest[bytes..];
                continue;
            }
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            if let Err(bad) = self.line(&rest[..end]) {
                faults.line(block.offset + (block.bytes.len() - rest.len()) as u64, bad)?;
            }
            rest = &rest[end..];
            if let Some(names) = &mut self.names
                && names.text.len() >= STAGE_BYTES
            {
                names.write()?;
            }
        }
        Ok(())
    }

    /// Takes a line of any sort.
    fn line(&mut self, line: &[u8]) -> Result<(), BadEdge> {
        let Some(edge) = edges::parse(line)? else { return Ok(()) };
        let weight = if self.weighted { Some(edges::weight(edge.weight)?) } else { None };
        let (from, to) = match &mut self.names {
            None => (edges::vertex(edge.from)?, edges::vertex(edge.to)?),
            Some(names) => (names.number(edge.from), names.number(edge.to)),
        };
        self.bins.push(from, to, weight);
        Ok(())
    }

    fn check_memory(&mut self) -> Result<(), PartError> {
        let memory = self.io.memory_bytes();
        if self.bins.bytes() > memory / EDGES_SHARE {
            let spilled = match &mut self.spilled {
                Some(spilled) => spilled,
                none => none.insert(Spilled::create(self.io)?),
            };
            spilled.add(&mut self.bins)?;
        }
        let Some(names) = &self.names else { return Ok(()) };
        if names.table.len() >= u32::MAX as usize - 1 {
            return Err(PartError::Broken(
                "there are more than 4,294,967,294 names of vertices".to_owned(),
            ));
        }
        if names.table.memory() <= memory {
            return Ok(());
        }
        Err(PartError::Broken(format!(
            "{} names of vertices do not fit in {} MB of memory; give more with --memory, or number the vertices",
            names.table.len(),
            memory / 1_000_000
        )))
    }

    fn finish(mut self, report: &mut Report) -> Result<(), PartError> {
        let partitions = if self.names.is_some() { NAMES + 1 } else { NAMES };
        let mut writer = self.io.shuffle(partitions)?;
        let path = writer.path().to_owned();
        let failed = |error: io::Error| PartError::io(&path, &error);
        let mut edges = 0;
        for (partition, bin) in (0..).zip(0..BINS) {
            writer.partition(partition).map_err(failed)?;
            let mut bytes = 0;
            let mut write = |piece: &[u8]| {
                bytes += piece.len() as u64;
                writer.write_all(piece).map_err(failed)
            };
            if let Some(spilled) = &self.spilled {
                spilled.each(bin, self.bins.width_log2(), &mut write)?;
            }
            write(self.bins.bin(bin))?;
            writer.add_rows(bytes / self.edge_bytes);
            edges += bytes / self.edge_bytes;
            self.io.check()?;
        }
        if let Some(names) = &mut self.names {
            names.write()?;
            writer.partition(NAMES).map_err(failed)?;
            names.copy_to(&mut writer)?;
        }
        self.io.finish_shuffle(writer, report)?;
        report.extra = json!({ "edges": edges, "last": self.bins.last() });
        Ok(())
    }
}

impl Names {
    fn number(&mut self, name: &[u8]) -> u32 {
        let next = self.table.len() as u64;
        let (number, is_new) = self.table.entry(name);
        if is_new {
            *number = next;
            put_bytes(name, &mut self.text);
        }
        *number as u32
    }

    /// Appends what waits to the file. A name that is lost would give all behind it the wrong numbers.
    fn write(&mut self) -> Result<(), PartError> {
        let written = self.file.write_all(&self.text);
        self.text.clear();
        written.map_err(|error| PartError::io(&self.path, &error))
    }

    /// Copies the file.
    fn copy_to(&self, writer: &mut ShuffleWriter) -> Result<(), PartError> {
        let unread = |error: io::Error| PartError::io(&self.path, &error);
        let mut file = File::open(&self.path).map_err(unread)?;
        let mut buffer = vec![0; STAGE_BYTES];
        loop {
            let count = file.read(&mut buffer).map_err(unread)?;
            if count == 0 {
                return Ok(());
            }
            let written = writer.write_all(&buffer[..count]);
            written.map_err(|error| PartError::io(writer.path(), &error))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_cannot_be_written_is_told() {
        let path = PathBuf::from("/dev/full");
        let file = File::options().write(true).open(&path).unwrap();
        let mut names = Names { table: Table::new(), path, file, text: Vec::new() };
        assert_eq!((names.number(b"a"), names.number(b"b"), names.number(b"a")), (0, 1, 0));
        let error = names.write().unwrap_err();
        assert!(error.to_string().contains("/dev/full: the disk is full"), "{error}");
    }
}
