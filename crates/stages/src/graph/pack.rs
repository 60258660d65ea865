//! The first stage: lists of edges as text become packed edges.
//!
//! Names become numbers in the order in which they are met, so one part reads all files then, and its table of names has to
//! fit in its memory. The names follow the edges as a partition of their own.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;

use divvy_kernels::aggregate::{Table, put_bytes};
use divvy_kernels::graph::edges::{self, BadEdge, Line};
use serde_json::json;

use super::{Ids, Options};
use crate::input::{self, Split, Text, split};
use crate::job::{Part, PartError, PartIo, PartSpec, Report, ShuffleWriter, Spec};

/// The partition of edges.
pub(super) const EDGES: u32 = 0;
/// The partition of names.
pub(super) const NAMES: u32 = 1;
/// Bytes of packed edges that are written at once.
const STAGE_BYTES: usize = 1 << 18;

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
        let mut offset = lines.block.offset;
        for line in lines.block.bytes.split_inclusive(|byte| *byte == b'\n') {
            let edge = edges::parse(line).and_then(|parsed| match parsed {
                Some(edge) => packer.numbers(&edge),
                None => Ok(None),
            });
            match edge {
                Ok(Some((from, to, weight))) => packer.push(from, to, weight)?,
                Ok(None) => {}
                Err(bad) => faults.line(offset, bad)?,
            }
            offset += line.len() as u64;
        }
        packer.check_memory(io.memory_bytes())
    })?;
    packer.finish(io, &mut report)?;
    Ok(report)
}

struct Packer {
    writer: ShuffleWriter,
    names: Option<Names>,
    weighted: bool,
    block: Vec<u8>,
    edges: u64,
    /// The largest number of a vertex.
    last: Option<u32>,
}

/// Numbers of names, and the names in the order of their numbers.
struct Names {
    table: Table,
    path: PathBuf,
    file: File,
    /// Names that are not in the file yet.
    text: Vec<u8>,
}

impl Packer {
    fn new(options: &Options, io: &PartIo<'_>) -> Result<Self, PartError> {
        let names = match options.ids {
            Ids::Number => None,
            Ids::Name => {
                let path = io.scratch()?.join("names");
                let file = File::create_new(&path).map_err(|error| PartError::io(&path, &error))?;
                Some(Names { table: Table::new(), path, file, text: Vec::new() })
            }
        };
        let writer = io.shuffle(if names.is_some() { 2 } else { 1 })?;
        let (block, weighted) = (Vec::with_capacity(2 * STAGE_BYTES), options.weighted);
        Ok(Self { writer, names, weighted, block, edges: 0, last: None })
    }

    fn numbers(&mut self, line: &Line<'_>) -> Result<Option<(u32, u32, Option<f32>)>, BadEdge> {
        let weight = if self.weighted { Some(edges::weight(line.weight)?) } else { None };
        let (from, to) = match &mut self.names {
            None => (edges::vertex(line.from)?, edges::vertex(line.to)?),
            Some(names) => (names.number(line.from), names.number(line.to)),
        };
        Ok(Some((from, to, weight)))
    }

    fn push(&mut self, from: u32, to: u32, weight: Option<f32>) -> Result<(), PartError> {
        edges::pack(from, to, weight, &mut self.block);
        self.edges += 1;
        self.last = self.last.max(Some(from.max(to)));
        if let Some(names) = &mut self.names
            && names.text.len() >= STAGE_BYTES
        {
            names.write()?;
        }
        if self.block.len() >= STAGE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), PartError> {
        let written = self.writer.write_all(&self.block);
        self.block.clear();
        written.map_err(|error| PartError::io(self.writer.path(), &error))
    }

    fn check_memory(&self, memory: usize) -> Result<(), PartError> {
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

    fn finish(mut self, io: &PartIo<'_>, report: &mut Report) -> Result<(), PartError> {
        self.write()?;
        self.writer.add_rows(self.edges);
        let path = self.writer.path().to_owned();
        let failed = |error: io::Error| PartError::io(&path, &error);
        if let Some(mut names) = self.names {
            names.write()?;
            self.writer.partition(NAMES).map_err(failed)?;
            let unread = |error: io::Error| PartError::io(&names.path, &error);
            let mut file = File::open(&names.path).map_err(unread)?;
            let mut buffer = vec![0; STAGE_BYTES];
            loop {
                let count = file.read(&mut buffer).map_err(unread)?;
                if count == 0 {
                    break;
                }
                self.writer.write_all(&buffer[..count]).map_err(failed)?;
            }
        }
        io.finish_shuffle(self.writer, report)?;
        report.extra = json!({ "edges": self.edges, "last": self.last });
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
