//! Sorts one piece of the input and writes it range by range.
//!
//! A piece is planned so that it fits in memory. Where it does not, because rows are shorter than expected or a file is
//! packed, each memory full is a run in the scratch folder, and the runs are merged before they are handed on.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek as _, SeekFrom, Take, Write as _};
use std::path::PathBuf;

use divvy_kernels::order::{
    Filled, Layout, MERGE_BUFFER_BYTES_MIN, OrderError, Run, Splitter, Tally, merge,
};
use serde_json::json;

use super::plan::{self, BUFFERS_BYTES, Piece};
use super::{Options, bad_input, piece, sample};
use crate::job::{
    JobError, Next, OnError, Part, PartError, PartIo, PartSpec, Report, Spec, Stage, StageDone,
};

/// Runs of one piece, at most: each is an open file while they are merged.
const RUNS_MAX: usize = 512;

/// One part for each piece.
pub(super) fn stage(spec: &Spec, sampled: &StageDone) -> Result<Next, JobError> {
    let sampled = sample::read(sampled)
        .ok_or_else(|| JobError("the sample cannot be read; start the job again".to_owned()))?;
    let pieces = plan::pieces(spec, &sampled);
    let parts = pieces.iter().map(|piece| Part::new(piece, piece.end - piece.start)).collect();
    Ok(Next::Stage(Stage { name: "runs".to_owned(), parts, speculate: true }))
}

pub(super) fn run(
    options: &Options,
    part: &PartSpec,
    io: &mut PartIo<'_>,
) -> Result<Report, PartError> {
    let piece: Piece = part.work()?;
    let sampled = sample::read(&*io.stage(0)?)
        .ok_or_else(|| PartError::Broken("the sample of the job cannot be read".to_owned()))?;
    let input = &io.spec().inputs[piece.file as usize];
    let (mut reader, start) = piece::open(&piece, options.order.is_lines(), io)?;
    let mut report = Report::default();
    if let Layout::Records { bytes, .. } = options.order.layout
        && !plan::is_packed(&input.path)
        && piece.end < input.bytes
        && input.bytes - piece.end < u64::from(bytes)
    {
        let row = piece.end / u64::from(bytes) + 1;
        report.skip(&input.path.display().to_string(), row, "the last record is cut");
    }
    let memory = io.memory_bytes().saturating_sub(BUFFERS_BYTES as usize);
    let mut sorter = Sorter {
        options,
        splitters: &sampled.splitters,
        piece,
        run: Run::new(options.order, memory).starting_at(start),
        io,
        done: 0,
    };
    let filled = sorter.fill(&mut reader, &mut report)?;
    let tally = if filled == Filled::End {
        sorter.write_only_run(&mut report)?
    } else {
        sorter.write_many_runs(&mut reader, &mut report)?
    };
    report.rows_in = tally.rows;
    report.bytes_in = tally.bytes;
    report.extra = json!({ "tally": tally });
    Ok(report)
}

struct Sorter<'a, 'io> {
    options: &'a Options,
    splitters: &'a [Splitter],
    piece: Piece,
    run: Run,
    io: &'a PartIo<'io>,
    done: u64,
}

impl Sorter<'_, '_> {
    /// Reads and sorts a memory full.
    fn fill(&mut self, reader: &mut dyn Read, report: &mut Report) -> Result<Filled, PartError> {
        let mut watched = Watched { reader, io: self.io, done: self.done, piece: self.piece };
        let filled = self.run.fill(&mut watched);
        self.done = watched.done;
        self.io.check()?;
        let filled = filled.or_else(|error| self.end_early(&error, report))?;
        self.run.sort();
        self.io.check()?;
        Ok(filled)
    }

    /// The file is not whole: that ends the job, or what is whole of it is sorted, as the job says.
    fn end_early(&self, error: &OrderError, report: &mut Report) -> Result<Filled, PartError> {
        let path = &self.io.spec().inputs[self.piece.file as usize].path;
        let is_end = matches!(error, OrderError::Read { .. } | OrderError::Cut { .. });
        match bad_input(self.io, path, &self.options.order, error) {
            PartError::Input { file, line, why }
                if is_end && self.io.spec().on_error == OnError::Skip =>
            {
                report.skip(&file, line, &why);
                Ok(Filled::End)
            }
            error => Err(error),
        }
    }

    fn ranges(&self) -> u32 {
        self.splitters.len() as u32 + 1
    }

    /// The usual way: all is in memory.
    fn write_only_run(&self, report: &mut Report) -> Result<Tally, PartError> {
        let mut writer = self.io.shuffle(self.ranges())?;
        let path = writer.path().to_owned();
        let mut tally = Tally::default();
        for (range, rows) in (0..).zip(self.run.ranges(self.splitters, self.piece.file)) {
            writer.partition(range).map_err(|error| PartError::io(&path, &error))?;
            let part =
                self.run.write(rows, &mut writer).map_err(|error| unwritten(&path, &error))?;
            writer.add_rows(part.rows);
            tally.merge(&part);
            self.io.check()?;
        }
        self.io.finish_shuffle(writer, report)?;
        Ok(tally)
    }

    /// Runs in files of the scratch folder, merged range by range.
    fn write_many_runs(
        &mut self,
        reader: &mut dyn Read,
        report: &mut Report,
    ) -> Result<Tally, PartError> {
        let mut runs = vec![self.spill(0)?];
        loop {
            let filled = self.fill(reader, report)?;
            if runs.len() == RUNS_MAX {
                return Err(PartError::Broken(format!(
                    "{} is more than {RUNS_MAX} times the memory of a part; give more with --memory",
                    self.io.spec().inputs[self.piece.file as usize].path.display()
                )));
            }
            runs.push(self.spill(runs.len())?);
            if filled == Filled::End {
                break;
            }
        }
        report.count("runs that were spilled", runs.len() as u64);
        // The memory of the run becomes buffers of readers.
        let order = self.options.order;
        self.run = Run::new(order, 0);
        let buffer = (self.io.memory_bytes() / 2 / runs.len()).max(MERGE_BUFFER_BYTES_MIN);
        let mut writer = self.io.shuffle(self.ranges())?;
        let path = writer.path().to_owned();
        let mut tally = Tally::default();
        for range in 0..self.ranges() {
            writer.partition(range).map_err(|error| PartError::io(&path, &error))?;
            let streams = runs.iter().map(|run| run.open(range as usize));
            let streams = streams.collect::<Result<Vec<_>, PartError>>()?;
            let mut step = |_| self.io.check().map_err(Stop::Part);
            let merged = merge(&order, streams, buffer, &mut writer, &mut step);
            let part = merged.map_err(|stop| stop.into_error(&path))?;
            writer.add_rows(part.rows);
            tally.merge(&part);
        }
        self.io.finish_shuffle(writer, report)?;
        Ok(tally)
    }

    fn spill(&self, nth: usize) -> Result<Spilled, PartError> {
        let path = self.io.scratch()?.join(format!("run-{nth}"));
        let failed = |error: io::Error| PartError::io(&path, &error);
        let mut file = BufWriter::with_capacity(1 << 20, File::create(&path).map_err(failed)?);
        let mut ranges = Vec::new();
        let mut offset = 0;
        for rows in self.run.ranges(self.splitters, self.piece.file) {
            let tally =
                self.run.write(rows, &mut file).map_err(|error| unwritten(&path, &error))?;
            ranges.push((offset, tally.bytes));
            offset += tally.bytes;
            self.io.check()?;
        }
        file.flush().map_err(failed)?;
        Ok(Spilled { path, ranges })
    }
}

/// A run in the scratch folder: where its ranges are.
struct Spilled {
    path: PathBuf,
    ranges: Vec<(u64, u64)>,
}

impl Spilled {
    fn open(&self, range: usize) -> Result<Take<File>, PartError> {
        let failed = |error: io::Error| PartError::io(&self.path, &error);
        let (offset, bytes) = self.ranges[range];
        let mut file = File::open(&self.path).map_err(failed)?;
        file.seek(SeekFrom::Start(offset)).map_err(failed)?;
        Ok(file.take(bytes))
    }
}

/// Why a merge ended before its end.
pub(super) enum Stop {
    Order(OrderError),
    Part(PartError),
}

impl From<OrderError> for Stop {
    fn from(error: OrderError) -> Self {
        Self::Order(error)
    }
}

impl Stop {
    pub(super) fn into_error(self, path: &std::path::Path) -> PartError {
        match self {
            Self::Order(error) => unwritten(path, &error),
            Self::Part(error) => error,
        }
    }
}

pub(super) fn unwritten(path: &std::path::Path, error: &OrderError) -> PartError {
    match error {
        OrderError::Io(error) => PartError::io(path, error),
        other => PartError::Trouble(format!("{}: {other}", path.display())),
    }
}

/// Says how far the piece is read, and ends the reading when the part shall stop.
struct Watched<'a, 'io> {
    reader: &'a mut dyn Read,
    io: &'a PartIo<'io>,
    done: u64,
    piece: Piece,
}

impl Read for Watched<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.done += count as u64;
        let total = self.piece.end - self.piece.start;
        match self.io.progress(self.done.min(total), total) {
            Ok(()) => Ok(count),
            Err(_) => Err(io::Error::other("told to stop")),
        }
    }
}
