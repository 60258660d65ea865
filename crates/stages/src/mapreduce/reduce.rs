//! A part of the stages `reduce` and `merge`: merges what earlier parts wrote of a partition, key by key.

use std::fs::File;
use std::io::{BufWriter, Read, Write as _};
use std::path::Path;

use divvy_kernels::aggregate::{Merge, RunReader, RunWriter};

use super::collect::{Collector, How, Joined, Shuffled};
use super::command::{Pairs, Running, each_line, pair};
use super::options::Work;
use super::program::{Program, Values};
use super::skew::Gather;
use crate::job::{OutputWriter, PartError, PartIo, Report};

/// Runs that are merged at once: files that are open at the same time.
const RUNS_MAX: usize = 256;
/// Bytes that all runs together read at once, at most, as a share of the part's memory.
const MEMORY_SHARE: usize = 4;
const RUN_BUFFER_MAX: usize = 1 << 20;
/// Bytes of the result that are gathered before they are written.
const OUT_BYTES: usize = 64 << 10;
/// Rows between two looks at whether the part shall stop.
const LOOK_EVERY: u64 = 16_384;

/// Records of many runs.
pub(crate) type Records = Merge<Box<dyn Read>>;

pub(super) fn run(gather: &Gather, work: &Work, io: &mut PartIo<'_>) -> Result<Report, PartError> {
    let mut report = Report::default();
    let mut records = gathered(gather, io, &mut report)?;
    let io = &*io;
    match (work, gather.output) {
        (Work::Program(program), Some(number)) => {
            let mut output = io.output(number)?;
            reduce(&**program, &mut records, io, &mut output, &mut report)?;
            io.finish_output(output, &mut report)?;
        }
        (Work::Program(program), None) => {
            let mut shuffle = Shuffled::new(io, 1, false)?;
            let mut joined = Joined::new(How::of(&**program));
            let mut write = |_: u32, key: &[u8], value: &[u8]| shuffle.write(0, key, value);
            each(&mut records, io, &mut report, |key, value| {
                joined.add(0, key, value, &mut write)
            })?;
            joined.finish(&mut write)?;
            shuffle.finish(io, &mut report)?;
        }
        (Work::Commands { reduce: Some(reduce), .. }, Some(number)) => {
            let mut output = io.output(number)?;
            let path = output.path();
            through(reduce, &mut records, io, &mut report, &mut |lines| {
                output.add_rows(memchr::memchr_iter(b'\n', lines).count() as u64);
                let mut written = output.write_all(lines);
                if !lines.ends_with(b"\n") {
                    output.add_rows(1);
                    written = written.and_then(|()| output.write_all(b"\n"));
                }
                written.map_err(|error| PartError::io(&path, &error))
            })?;
            io.finish_output(output, &mut report)?;
        }
        (Work::Commands { reduce: Some(reduce), .. }, None) => {
            let mut collector = Collector::new(io, 1, How::All);
            through(reduce, &mut records, io, &mut report, &mut |lines| {
                each_line(lines, |line| {
                    let (key, value) = pair(line);
                    collector.emit(key, value)
                })
            })?;
            collector.finish(&mut report)?;
        }
        (Work::Commands { reduce: None, .. }, _) => {
            return Err(PartError::Broken("the job has no reduce command".to_owned()));
        }
    }
    Ok(report)
}

/// What earlier parts wrote, merged; counts what will be read.
pub(crate) fn gathered(
    gather: &Gather,
    io: &mut PartIo<'_>,
    report: &mut Report,
) -> Result<Records, PartError> {
    let parts: Vec<u32> = (gather.from..gather.to).collect();
    let done = io.stage(gather.stage)?;
    for part in done.parts.get(gather.from as usize..gather.to as usize).into_iter().flatten() {
        if let Some(size) = part.report.partitions.get(gather.partition as usize) {
            report.rows_in += size.rows;
            report.bytes_in += size.bytes;
        }
    }
    let mut scratch = Vec::new();
    let mut readers: Vec<Box<dyn Read>> = Vec::new();
    for (round, some) in parts.chunks(RUNS_MAX).enumerate() {
        let mut open: Vec<Box<dyn Read>> = Vec::new();
        for part in some {
            if let Some(reader) = io.open(gather.stage, *part, gather.partition)? {
                open.push(Box::new(reader));
            }
        }
        if parts.len() <= RUNS_MAX {
            readers = open;
        } else {
            let path = io.scratch()?.join(format!("round-{round}"));
            write_round(open, &path, io)?;
            scratch.push(path);
        }
    }
    for path in &scratch {
        let file = File::open(path).map_err(|error| PartError::io(path, &error))?;
        readers.push(Box::new(file));
    }
    Ok(merge(readers, io))
}

fn merge(readers: Vec<Box<dyn Read>>, io: &PartIo<'_>) -> Records {
    let buffer = io.memory_bytes() / MEMORY_SHARE / readers.len().max(1);
    let buffer = buffer.min(RUN_BUFFER_MAX);
    Merge::new(readers.into_iter().map(|reader| RunReader::new(reader, buffer)).collect())
}

/// Makes one run of several, so that few files are open at once.
fn write_round(readers: Vec<Box<dyn Read>>, path: &Path, io: &PartIo<'_>) -> Result<(), PartError> {
    let failed = |error: std::io::Error| PartError::io(path, &error);
    let file = BufWriter::with_capacity(RUN_BUFFER_MAX, File::create(path).map_err(failed)?);
    let mut run = RunWriter::new(file);
    each(&mut merge(readers, io), io, &mut Report::default(), |key, value| {
        run.write(key, value).map(drop).map_err(failed)
    })?;
    run.into_inner().flush().map_err(failed)
}

/// Hands every record to `take`, in order.
pub(crate) fn each(
    records: &mut Records,
    io: &PartIo<'_>,
    report: &mut Report,
    mut take: impl FnMut(&[u8], &[u8]) -> Result<(), PartError>,
) -> Result<(), PartError> {
    let (mut rows, mut bytes) = (0_u64, 0_u64);
    while records.advance().map_err(unreadable)? {
        let (key, value) = records.record();
        bytes += (key.len() + value.len()) as u64;
        take(key, value)?;
        rows += 1;
        if rows.is_multiple_of(LOOK_EVERY) {
            io.progress(bytes, report.bytes_in)?;
        }
    }
    Ok(())
}

fn reduce(
    program: &dyn Program,
    records: &mut Records,
    io: &PartIo<'_>,
    output: &mut OutputWriter,
    report: &mut Report,
) -> Result<(), PartError> {
    let path = output.path();
    let (mut out, mut key) = (Vec::new(), Vec::new());
    let (mut keys, mut bytes) = (0_u64, 0_u64);
    let mut more = records.advance().map_err(unreadable)?;
    while more {
        key.clear();
        let (current, value) = records.record();
        bytes += (current.len() + value.len()) as u64;
        key.extend_from_slice(current);
        let mut values = Values::new(records, &key);
        output.add_rows(program.reduce(io.spec(), &key, &mut values, &mut out, report)?);
        more = values.finish()?;
        keys += 1;
        if keys.is_multiple_of(LOOK_EVERY) {
            io.progress(bytes, report.bytes_in)?;
        }
        if out.len() >= OUT_BYTES || !more {
            output.write_all(&out).map_err(|error| PartError::io(&path, &error))?;
            out.clear();
        }
    }
    report.count("keys", keys);
    Ok(())
}

/// Gives records to a command, and what it writes to `take`.
fn through(
    command: &str,
    records: &mut Records,
    io: &PartIo<'_>,
    report: &mut Report,
    take: &mut dyn FnMut(&[u8]) -> Result<(), PartError>,
) -> Result<(), PartError> {
    let mut running = Running::start(io, command)?;
    let mut pairs = Pairs::default();
    let mut counted = report.clone();
    each(records, io, &mut counted, |key, value| pairs.add(key, value, &mut running, take))?;
    pairs.flush(&mut running, take)?;
    running.finish(report, take)
}

fn unreadable(error: std::io::Error) -> PartError {
    PartError::Trouble(format!("the shuffle cannot be read: {error}"))
}
