//! A part of the stage `partial`: rows become what is kept of their groups, within the part's memory.

use divvy_kernels::aggregate::{Groups, Query};

use super::options::{Format, Options};
use super::rows::Rows;
use crate::input::{Split, Text, Wanted, read_wanted};
use crate::job::{InputFile, PartError, PartIo, Report};
use crate::mapreduce::collect::Shuffled;
use crate::mapreduce::spills::Spills;

/// Rows between two looks at the memory, at least.
const LOOK_EVERY: usize = 16_384;

pub(super) fn run(
    splits: &[Split],
    options: &Options,
    query: &Query,
    partitions: u32,
    io: &PartIo<'_>,
) -> Result<Report, PartError> {
    let mut report = Report::default();
    let mut groups = Groups::new(query);
    let mut spills = Spills::new(io);
    // What is sorted and written needs some besides.
    let budget = io.memory_bytes() / 2;
    let mut until_look = LOOK_EVERY;
    let mut current: Option<(u32, Rows)> = None;
    let wanted = |input: &InputFile| match options.format_of(&input.path) {
        Ok((Format::Parquet, _)) => Wanted::Columns(query.columns()),
        _ => Wanted::Lines(Text::Utf8),
    };
    read_wanted(io, splits, wanted, &mut report, |lines, faults| {
        if current.as_ref().is_none_or(|(file, _)| *file != lines.file) {
            current = Some((lines.file, Rows::of(lines.input, options, query, io)?));
        }
        let Some((_, rows)) = &mut current else { return Ok(()) };
        for (offset, line) in lines.block.lines() {
            if rows.has_header && offset == 0 {
                faults.report().rows_in -= 1;
                continue;
            }
            if line.is_empty() {
                faults.report().rows_in -= 1;
                continue;
            }
            if let Err(why) = rows.read(line, |fields| groups.add(fields)) {
                faults.line(offset, why)?;
            }
            until_look -= 1;
            if until_look == 0 {
                if groups.memory() > budget {
                    spills.add(|take| groups.write_sorted(partitions, take))?;
                }
                until_look = LOOK_EVERY.max(groups.len());
            }
        }
        Ok(())
    })?;
    report.rows_in = report.rows_in.saturating_sub(report.skipped);
    let mut shuffle = Shuffled::new(io, partitions, true)?;
    let mut write = |partition: u32, key: &[u8], state: &[u8]| shuffle.write(partition, key, state);
    if spills.is_empty() {
        groups.write_sorted(partitions, &mut write)?;
    } else {
        spills.add(|take| groups.write_sorted(partitions, take))?;
        report.count("spills", spills.written());
        // Groups that were spilled more than once come together in the next stage.
        spills.merge(&mut write)?;
    }
    shuffle.finish(io, &mut report)?;
    Ok(report)
}
