//! A part of the stage `map`: reads its splits, maps their lines, collects what comes of it.

use std::cell::RefCell;

use super::collect::{Collector, How};
use super::command::{Combiner, Running, each_line, pair};
use super::options::{Options, Work};
use super::program::{Combining, Program, Sink};
use crate::input::{Split, Text, read};
use crate::job::{PartError, PartIo, Report};

pub(super) fn run(
    splits: &[Split],
    work: &Work,
    options: &Options,
    partitions: u32,
    io: &PartIo<'_>,
) -> Result<Report, PartError> {
    let mut report = Report::default();
    match work {
        Work::Program(program) => {
            with_program(splits, &**program, options, partitions, io, &mut report)?
        }
        Work::Commands { map, reduce: None, .. } => {
            let mut output = io.output(io.part().part)?;
            through(splits, map, io, &mut report, &mut Sink::Result(&mut output))?;
            io.finish_output(output, &mut report)?;
        }
        Work::Commands { map, combine, .. } => {
            let combiner = combine.as_ref().map(|command| Combiner {
                io,
                command,
                report: RefCell::default(),
            });
            let how = combiner.as_ref().map_or(How::All, How::Command);
            let mut collector = Collector::new(io, partitions, how);
            through(splits, map, io, &mut report, &mut Sink::Shuffle(&mut collector))?;
            collector.finish(&mut report)?;
            if let Some(combiner) = &combiner {
                report.add(&combiner.report.borrow());
            }
        }
    }
    Ok(report)
}

fn with_program(
    splits: &[Split],
    program: &dyn Program,
    options: &Options,
    partitions: u32,
    io: &PartIo<'_>,
    report: &mut Report,
) -> Result<(), PartError> {
    let mapper = program.mapper(io.spec(), &options.settings);
    let mut mapper = mapper.map_err(PartError::Broken)?;
    if program.combining() == Combining::MapOnly {
        let mut output = io.output(io.part().part)?;
        read(io, splits, Text::Utf8, report, |lines, faults| {
            mapper.map(lines, &mut Sink::Result(&mut output), faults)
        })?;
        return io.finish_output(output, report);
    }
    let mut collector = Collector::new(io, partitions, How::of(program));
    read(io, splits, Text::Utf8, report, |lines, faults| {
        mapper.map(lines, &mut Sink::Shuffle(&mut collector), faults)
    })?;
    collector.finish(report)
}

/// Gives the lines of a part to a command, and what it writes to `sink`.
fn through(
    splits: &[Split],
    command: &str,
    io: &PartIo<'_>,
    report: &mut Report,
    sink: &mut Sink<'_, '_>,
) -> Result<(), PartError> {
    let mut running = Running::start(io, command)?;
    let mut take = |lines: &[u8]| {
        each_line(lines, |line| {
            let (key, value) = pair(line);
            match sink {
                Sink::Shuffle(collector) => collector.emit(key, value),
                Sink::Result(_) => sink.line(line),
            }
        })
    };
    read(io, splits, Text::Bytes, report, |lines, _| {
        let mut bytes = lines.block.bytes.to_vec();
        if !bytes.ends_with(b"\n") && !bytes.is_empty() {
            // The next file begins with a line of its own.
            bytes.push(b'\n');
        }
        running.feed(bytes, &mut take)
    })?;
    running.finish(report, &mut take)
}
