//! A part of the stages `reduce` and `merge`: what is kept of the same group comes together, and is answered in the end.

use std::io::Write as _;

use divvy_kernels::aggregate::groups::read_key;
use divvy_kernels::aggregate::{Answer, Groups, Query};
use divvy_workload::console::output::words::bytes;

use super::options::{Options, OutputFormat};
use crate::job::{OutputWriter, PartError, PartIo, Report};
use crate::mapreduce::collect::Shuffled;
use crate::mapreduce::reduce::{each, gathered};
use crate::mapreduce::skew::Gather;

/// Groups that are held before they are answered.
const GROUPS_MAX: usize = 1_024;
/// Bytes that are taken in between two looks at the memory.
const LOOK_BYTES: usize = 4 << 20;

pub(super) fn run(
    gather: &Gather,
    options: &Options,
    query: &Query,
    io: &mut PartIo<'_>,
) -> Result<Report, PartError> {
    let mut report = Report::default();
    let mut records = gathered(gather, io, &mut report)?;
    let io = &*io;
    let mut target = Target::new(gather, options, query, io)?;
    let mut groups = Groups::new(query);
    let mut last = Vec::new();
    let (mut since_look, mut full) = (0, false);
    let look_bytes = LOOK_BYTES.min(io.memory_bytes() / 16);
    each(&mut records, io, &mut report, |key, state| {
        if last != key {
            if full || groups.len() >= GROUPS_MAX {
                target.write(&mut groups)?;
                full = false;
            }
            last.clear();
            last.extend_from_slice(key);
        }
        groups.merge(key, state).map_err(|error| PartError::Trouble(error.to_string()))?;
        since_look += state.len();
        if since_look >= look_bytes {
            since_look = 0;
            let used = groups.memory();
            full = used > io.memory_bytes() / 2;
            let alone = groups.len() == 1 && used > io.memory_bytes();
            if alone || used > 2 * io.memory_bytes() {
                return Err(too_large(key, io));
            }
        }
        Ok(())
    })?;
    target.write(&mut groups)?;
    target.finish(io, &mut report)?;
    Ok(report)
}

fn too_large(key: &[u8], io: &PartIo<'_>) -> PartError {
    let columns = read_key(key);
    let names: Vec<_> = columns.iter().map(|column| String::from_utf8_lossy(column)).collect();
    PartError::Broken(format!(
        "group ({}) needs more than the {} that a part may use for an exact answer; give it more with --memory, or use --approx",
        names.join(", "),
        bytes(io.memory_bytes() as u64)
    ))
}

/// Where groups go: to the result, or on to the part that brings a divided partition together.
enum Target {
    Result { output: OutputWriter, names: Vec<String>, format: OutputFormat, out: Vec<u8> },
    Shuffle(Shuffled),
}

impl Target {
    fn new(
        gather: &Gather,
        options: &Options,
        query: &Query,
        io: &PartIo<'_>,
    ) -> Result<Self, PartError> {
        let Some(number) = gather.output else {
            return Ok(Self::Shuffle(Shuffled::new(io, 1, false)?));
        };
        let (output, names) = (io.output(number)?, query.header());
        let mut out = Vec::new();
        if number == 0 && options.output == OutputFormat::Csv {
            for (at, name) in names.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                divvy_kernels::text::csv::write_field(name.as_bytes(), b',', &mut out);
            }
            out.push(b'\n');
        }
        Ok(Self::Result { output, names, format: options.output, out })
    }

    fn write(&mut self, groups: &mut Groups<'_>) -> Result<(), PartError> {
        match self {
            Self::Shuffle(shuffle) => {
                groups.write_sorted(1, |_, key, state| shuffle.write(0, key, state))
            }
            Self::Result { output, names, format, out } => {
                groups.answers(|answer: Answer| {
                    match format {
                        OutputFormat::Csv => answer.write_csv(out),
                        OutputFormat::Jsonl => answer.write_json(names, out),
                    }
                    output.add_rows(1);
                    Ok::<(), PartError>(())
                })?;
                let path = output.path();
                output.write_all(out).map_err(|error| PartError::io(&path, &error))?;
                out.clear();
                Ok(())
            }
        }
    }

    fn finish(self, io: &PartIo<'_>, report: &mut Report) -> Result<(), PartError> {
        match self {
            Self::Shuffle(shuffle) => shuffle.finish(io, report),
            Self::Result { output, .. } => io.finish_output(output, report),
        }
    }
}
