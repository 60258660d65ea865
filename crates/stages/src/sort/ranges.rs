//! Merges what all pieces have for one range of the result, and joins ranges to one file.
//!
//! Runs come in the order of the input, and the merge lets earlier ones go first among equal keys. Where there are more
//! runs than may be open at once, neighbours are merged to the scratch folder first.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::ops::Range;
use std::path::Path;

use divvy_kernels::order::{MERGE_BUFFER_BYTES_MIN, Order, Tally, merge};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Options;
use super::runs::Stop;
use crate::job::{Next, Part, PartError, PartIo, PartSpec, Report, Stage, StageDone};

/// Streams that are merged at once: each is an open file.
const FAN_IN_MAX: usize = 256;
/// Bytes that one stream has, at most: more makes nothing faster.
const BUFFER_BYTES_MAX: usize = 2 << 20;
/// Bytes that are copied at once.
const COPY_BYTES: usize = 1 << 20;

/// What a part is to do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Work {
    /// The stage that it reads.
    stage: u32,
    /// Which range.
    range: u32,
}

/// One part for each range.
pub(super) fn stage(runs: &StageDone) -> Next {
    let ranges = runs.parts.first().map_or(1, |part| part.report.partitions.len().max(1));
    let bytes = |range: usize| {
        runs.parts.iter().filter_map(|part| Some(part.report.partitions.get(range)?.bytes)).sum()
    };
    let work = |range: usize| Work { stage: 1, range: range as u32 };
    let parts = (0..ranges).map(|range| Part::new(&work(range), bytes(range))).collect();
    Next::Stage(Stage { name: "ranges".to_owned(), parts, speculate: true })
}

/// One part that joins all ranges.
pub(super) fn join_stage(ranges: &StageDone) -> Next {
    let bytes = ranges.parts.iter().map(|part| part.report.bytes_out).sum();
    let parts = vec![Part::new(&Work { stage: 2, range: 0 }, bytes)];
    Next::Stage(Stage { name: "join".to_owned(), parts, speculate: false })
}

pub(super) fn run(
    options: &Options,
    part: &PartSpec,
    io: &mut PartIo<'_>,
) -> Result<Report, PartError> {
    let work: Work = part.work()?;
    let runs = io.stage(work.stage)?.parts.len() as u32;
    let streams = if runs as usize <= FAN_IN_MAX {
        open_runs(io, &work, 0..runs)?
    } else {
        merge_neighbours(options.order, io, &work, runs)?
    };
    let mut report = Report::default();
    let tally;
    if options.single {
        let mut writer = io.shuffle(1)?;
        let path = writer.path().to_owned();
        tally = merge_all(options.order, io, streams, &mut writer, &path)?;
        writer.add_rows(tally.rows);
        io.finish_shuffle(writer, &mut report)?;
    } else {
        let mut writer = io.output(work.range)?;
        let path = writer.path();
        tally = merge_all(options.order, io, streams, &mut writer, &path)?;
        writer.add_rows(tally.rows);
        io.finish_output(writer, &mut report)?;
    }
    report.rows_in = tally.rows;
    report.bytes_in = tally.bytes;
    report.extra = json!({ "tally": tally });
    Ok(report)
}

fn open_runs(
    io: &mut PartIo<'_>,
    work: &Work,
    runs: Range<u32>,
) -> Result<Vec<Box<dyn Read>>, PartError> {
    let mut streams: Vec<Box<dyn Read>> = Vec::new();
    for run in runs {
        if let Some(reader) = io.open(work.stage, run, work.range)? {
            streams.push(Box::new(reader));
        }
    }
    Ok(streams)
}

/// Fewer streams in the scratch folder, in the same order.
fn merge_neighbours(
    order: Order,
    io: &mut PartIo<'_>,
    work: &Work,
    runs: u32,
) -> Result<Vec<Box<dyn Read>>, PartError> {
    let mut merged: Vec<Box<dyn Read>> = Vec::new();
    for first in (0..runs).step_by(FAN_IN_MAX) {
        let streams = open_runs(io, work, first..runs.min(first + FAN_IN_MAX as u32))?;
        let path = io.scratch()?.join(format!("merged-{first}"));
        let failed = |error: io::Error| PartError::io(&path, &error);
        let mut file = BufWriter::with_capacity(COPY_BYTES, File::create(&path).map_err(failed)?);
        merge_all(order, io, streams, &mut file, &path)?;
        file.flush().map_err(failed)?;
        merged.push(Box::new(File::open(&path).map_err(failed)?));
    }
    Ok(merged)
}

fn merge_all(
    order: Order,
    io: &PartIo<'_>,
    streams: Vec<Box<dyn Read>>,
    output: &mut impl Write,
    path: &Path,
) -> Result<Tally, PartError> {
    let share = io.memory_bytes() / 2 / streams.len().max(1);
    let buffer = share.clamp(MERGE_BUFFER_BYTES_MIN, BUFFER_BYTES_MAX);
    let mut written = 0;
    let mut step = |bytes: u64| {
        written += bytes;
        io.progress(written, io.part().bytes).map_err(Stop::Part)
    };
    merge(&order, streams, buffer, output, &mut step).map_err(|stop| stop.into_error(path))
}

/// Makes one file of all ranges.
pub(super) fn join(part: &PartSpec, io: &mut PartIo<'_>) -> Result<Report, PartError> {
    let work: Work = part.work()?;
    let rows = io.stage(work.stage)?.parts.iter().map(|part| part.report.rows_out).sum();
    let mut report = Report { rows_in: rows, ..Report::default() };
    let mut writer = io.output(0)?;
    writer.add_rows(rows);
    let path = writer.path();
    let failed = |error: io::Error| PartError::io(&path, &error);
    let mut buffer = vec![0; COPY_BYTES];
    for mut reader in io.open_all(work.stage, 0)? {
        loop {
            let count = reader.read(&mut buffer).map_err(failed)?;
            if count == 0 {
                break;
            }
            writer.write_all(&buffer[..count]).map_err(failed)?;
            report.bytes_in += count as u64;
            io.progress(report.bytes_in, part.bytes)?;
        }
    }
    io.finish_output(writer, &mut report)?;
    Ok(report)
}
