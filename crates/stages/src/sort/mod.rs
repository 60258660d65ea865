//! Sorting files that are larger than memory, of lines, keyed lines or records of one size.
//!
//! | stage | parts | what a part does |
//! |---|---|---|
//! | `sample` | one | looks at records all over the input; chooses where ranges of the result are cut |
//! | `runs` | one for each piece of the input | sorts its piece in memory, and writes it range by range |
//! | `ranges` | one for each range of the result | merges what all pieces have for it |
//! | `join` | one, with `single` | makes one file of all ranges |
//! | `check` | one for each file, instead of all these | looks whether the files are in order |
//!
//! Equal keys keep the order of the input, and a range may begin in the middle of them: a cut is a key and a place in the
//! input. So the result is the same bytes whoever did which part, however often, and one key that is everywhere is
//! spread over all ranges. Records are counted and hashed when they are read and when they are written, and the job
//! fails if the two differ.
//!
//! Reading order: `plan` (pieces and ranges), `piece` (reading one), `sample`, `runs`, `ranges`, `check`.

mod check;
mod piece;
mod plan;
mod ranges;
mod runs;
mod sample;
#[cfg(test)]
mod tests;

use std::path::Path;

use divvy_kernels::order::{Layout, Order, OrderError, Tally};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::input::line_of_input;
use crate::job::{
    JobError, Kind, Next, OnError, Part, PartError, PartIo, PartSpec, Report, Spec, SpecError,
    Stage, StageDone, Summary,
};

/// Sorting.
#[derive(Clone, Copy, Debug)]
pub struct Sort;

/// What is asked of a sort besides its inputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// What records are, and how they are compared.
    pub order: Order,
    /// Whether the result is one file.
    #[serde(default)]
    pub single: bool,
    /// Whether the inputs are only looked at.
    #[serde(default)]
    pub check: bool,
    /// What the inputs of a check must hold.
    #[serde(default)]
    pub expected: Expected,
}

/// What the inputs of a check must hold, as far as that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Records.
    #[serde(default)]
    pub rows: Option<u64>,
    /// Bytes.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// The checksum that a sort prints: 16 hexadecimals.
    #[serde(default)]
    pub checksum: Option<String>,
}

impl Kind for Sort {
    fn name(&self) -> &'static str {
        "sort"
    }

    fn check(&self, spec: &Spec) -> Result<(), SpecError> {
        let options: Options = spec.options()?;
        options.order.check().map_err(|problem| SpecError::new("options.order", problem))?;
        if spec.inputs.is_empty() {
            return Err(SpecError::new("inputs", "is empty; name at least one file"));
        }
        let Layout::Records { bytes, .. } = options.order.layout else { return Ok(()) };
        if spec.on_error == OnError::Skip {
            return Ok(());
        }
        let cut = spec
            .inputs
            .iter()
            .find(|input| !plan::is_packed(&input.path) && input.bytes % u64::from(bytes) != 0);
        match cut {
            None => Ok(()),
            Some(input) => Err(SpecError::new(
                "inputs",
                format!(
                    "{} has {} bytes, which is no whole number of records of {bytes} bytes; restore it, or leave its \
                     end out with --on-error skip",
                    input.path.display(),
                    input.bytes
                ),
            )),
        }
    }

    fn next(&self, spec: &Spec, done: &[StageDone]) -> Result<Next, JobError> {
        let options = options(spec)?;
        let Some(last) = done.last() else { return first(spec, &options) };
        match last.name.as_str() {
            "sample" => runs::stage(spec, last),
            "runs" => Ok(ranges::stage(last)),
            "ranges" if options.single => Ok(ranges::join_stage(last)),
            "check" => check::judge(spec, &options, last),
            _ => finish(done),
        }
    }

    fn run(&self, part: &PartSpec, io: &mut PartIo<'_>) -> Result<Report, PartError> {
        let options: Options =
            io.spec().options().map_err(|error| PartError::Broken(error.to_string()))?;
        match part.name.as_str() {
            "sample" => sample::run(&options, io),
            "runs" => runs::run(&options, part, io),
            "ranges" => ranges::run(&options, part, io),
            "join" => ranges::join(part, io),
            "check" => check::run(&options, part, io),
            other => Err(PartError::Broken(format!("a sort has no stage `{other}`"))),
        }
    }

    fn explain(&self, spec: &Spec, done: &[StageDone]) -> Vec<String> {
        let mut lines = Vec::new();
        let files = spec.inputs.len();
        if files > 0 && spec.inputs.iter().any(|input| plan::is_packed(&input.path)) {
            lines.push(
                "Packed files are read whole by one part each: they cannot be split.".to_owned(),
            );
        }
        if spec.options::<Options>().is_ok_and(|options| options.check) {
            lines.push(format!("check: looks at {files} files, one part each, in their order."));
            return lines;
        }
        lines.push(format!(
            "sample: looks at records all over {files} files of {} MB and cuts the result into {} ranges.",
            spec.input_bytes() / 1_000_000,
            plan::ranges(spec)
        ));
        match done.iter().find(|stage| stage.name == "sample").and_then(sample::read) {
            Some(sample) => lines.push(format!(
                "runs: sorts {} pieces in {} MB of memory each; a record has {} bytes.",
                plan::pieces(spec, &sample).len(),
                spec.memory_bytes / 1_000_000,
                sample.row_bytes
            )),
            None => lines.push("runs: sorts pieces that fit in the memory of a part.".to_owned()),
        }
        lines.push("ranges: merges what all pieces have for one range; one file each.".to_owned());
        if spec.options::<Options>().is_ok_and(|options| options.single) {
            lines.push("join: makes one file of all ranges.".to_owned());
        }
        lines
    }
}

fn options(spec: &Spec) -> Result<Options, JobError> {
    spec.options().map_err(|error| JobError(error.to_string()))
}

fn first(spec: &Spec, options: &Options) -> Result<Next, JobError> {
    if options.check {
        return Ok(check::stage(spec));
    }
    let parts = vec![Part::new(&json!({}), 0)];
    Ok(Next::Stage(Stage { name: "sample".to_owned(), parts, speculate: false }))
}

/// The end: as many records as there were, and the same ones.
fn finish(done: &[StageDone]) -> Result<Next, JobError> {
    let tally = |name: &str| {
        let stage = done.iter().find(|stage| stage.name == name);
        let mut sum = Tally::default();
        for part in stage.into_iter().flat_map(|stage| &stage.parts) {
            let tally: Tally =
                serde_json::from_value(part.report.extra["tally"].clone()).map_err(|error| {
                    JobError(format!("a part of stage `{name}` has no tally: {error}"))
                })?;
            sum.merge(&tally);
        }
        Ok::<Tally, JobError>(sum)
    };
    let (read, written) = (tally("runs")?, tally("ranges")?);
    if read != written {
        return Err(JobError(format!(
            "{} records were read and {} written, or not the same ones: a disk has lost data; start the job again",
            read.rows, written.rows
        )));
    }
    let lines = vec![
        format!("{} records, {} bytes", written.rows, written.bytes),
        format!("checksum {:016x}: the same records were read and written", written.checksum),
    ];
    Ok(Next::Finished(Summary { lines, data: json!({ "tally": written }) }))
}

/// What a failed read of the input means.
fn bad_input(io: &PartIo<'_>, path: &Path, order: &Order, error: &OrderError) -> PartError {
    let (offset, why) = match error {
        OrderError::Io(error) => return PartError::io(path, error),
        OrderError::Read { error, .. } if !piece::is_damage(path, error) => {
            return PartError::io(path, error);
        }
        OrderError::Read { offset, error } => {
            let why = "the packed data is cut or damaged";
            (*offset, format!("{why} ({error}); is the file whole? fetch it again"))
        }
        OrderError::Cut { offset, .. } | OrderError::Long { offset, .. } => {
            (*offset, error.to_string())
        }
    };
    let number = match order.layout {
        Layout::Records { bytes, .. } => offset / u64::from(bytes) + 1,
        Layout::Lines | Layout::Fields { .. } => line_of_input(io, path, offset),
    };
    PartError::input(path, number, why)
}
