//! The result: a line for each vertex, its name and what was found, with tabs between them.

use std::io::Write as _;

use super::names::Names;
use crate::job::{OutputWriter, PartError, PartIo, Report};

/// Bytes that are written at once.
const STAGE_BYTES: usize = 1 << 18;

pub(super) struct Lines<'a> {
    writer: OutputWriter,
    names: &'a Names,
    stage: Vec<u8>,
}

impl<'a> Lines<'a> {
    pub(super) fn create(io: &PartIo<'_>, names: &'a Names) -> Result<Self, PartError> {
        let writer = io.output(0)?;
        Ok(Self { writer, names, stage: Vec::with_capacity(2 * STAGE_BYTES) })
    }

    /// Writes the line of a vertex; `value` appends what was found.
    pub(super) fn line(
        &mut self,
        vertex: u32,
        value: impl FnOnce(&Names, &mut Vec<u8>),
    ) -> Result<(), PartError> {
        self.names.write(vertex, &mut self.stage);
        self.stage.push(b'\t');
        value(self.names, &mut self.stage);
        self.stage.push(b'\n');
        self.writer.add_rows(1);
        if self.stage.len() >= STAGE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), PartError> {
        let written = self.writer.write_all(&self.stage);
        self.stage.clear();
        written.map_err(|error| PartError::io(&self.writer.path(), &error))
    }

    pub(super) fn finish(mut self, io: &PartIo<'_>, report: &mut Report) -> Result<(), PartError> {
        self.write()?;
        io.finish_output(self.writer, report)
    }
}

/// Appends a number so that reading it gives the same one.
pub(super) fn put(number: f64, out: &mut Vec<u8>) {
    // Writing into memory does not fail.
    let _ = write!(out, "{number}");
}
