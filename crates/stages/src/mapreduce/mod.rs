//! MapReduce: `divvy flow mapreduce`.
//!
//! ```text
//! map (a part per split) ─► shuffle, sorted by key ─► reduce (a part per partition, several for one with a hot key) ─► merge
//! ```
//!
//! The stage `merge` exists only if a partition was divided. A program without a reduce has only the stage `map`. Reading
//! order: [`options`] (what is asked), [`program`] and [`typed`] (what a program is), `collect` (memory, spills), `skew`
//! (hot keys), `map` and `reduce` (what parts do), `command` (programs of any language).

mod builtin;
pub(crate) mod collect;
mod command;
mod map;
pub mod options;
pub mod program;
pub(crate) mod reduce;
pub(crate) mod skew;
pub(crate) mod spills;
pub mod typed;

#[cfg(test)]
mod tests;

pub use options::Options;
pub use program::{Combining, Mapper, Program, Sink, Values, register};
pub use typed::{Counters, Datum, Emit, Map, Merging, Reduce, add};

use divvy_kernels::aggregate::divide::Rule;
use options::{Work, partitions};
use serde_json::json;

use crate::input;
use crate::input::split::part;
use crate::job::tasks::COMMANDS;
use crate::job::{
    JobError, Kind, Next, Part, PartError, PartIo, PartSpec, Report, Spec, SpecError, Stage,
    StageDone, Summary,
};

/// The kind `mapreduce`.
#[derive(Clone, Copy, Debug)]
pub struct MapReduce;

impl Kind for MapReduce {
    fn name(&self) -> &'static str {
        "mapreduce"
    }

    fn check(&self, spec: &Spec) -> Result<(), SpecError> {
        let options: Options = spec.options()?;
        if spec.inputs.is_empty() {
            return Err(SpecError::new("inputs", "is empty; name files to read"));
        }
        if let Work::Program(program) = options.work()? {
            program.mapper(spec, &options.settings).map_err(|problem| {
                SpecError::new("settings", format!("cannot be used: {problem}"))
            })?;
        }
        Ok(())
    }

    fn next(&self, spec: &Spec, done: &[StageDone]) -> Result<Next, JobError> {
        let wrong = |error: SpecError| JobError(error.to_string());
        let options: Options = spec.options().map_err(wrong)?;
        let work = options.work().map_err(wrong)?;
        let splits = input::plan(spec);
        let partitions = partitions(spec, splits.len());
        let rule = divides(&options, &work);
        let (name, mut parts) = match done {
            [] => ("map", splits.iter().map(|splits| part(spec, splits)).collect()),
            [map] if work.combining() != Combining::MapOnly => {
                ("reduce", skew::reducers(map, partitions, rule))
            }
            [map, reduce] => ("merge", skew::joiners(map, reduce, partitions, rule)),
            _ => ("", Vec::new()),
        };
        if parts.is_empty() {
            return Ok(Next::Finished(summary(spec, &work, partitions, done)));
        }
        if work.is_commands() {
            parts.iter_mut().for_each(|part: &mut Part| part.needs.push(COMMANDS.to_owned()));
        }
        Ok(Next::Stage(Stage { name: name.to_owned(), parts, speculate: true }))
    }

    fn run(&self, part: &PartSpec, io: &mut PartIo<'_>) -> Result<Report, PartError> {
        let wrong = |error: SpecError| PartError::Broken(error.to_string());
        let options: Options = io.spec().options().map_err(wrong)?;
        let work = options.work().map_err(wrong)?;
        match part.name.as_str() {
            "map" => {
                let count = partitions(io.spec(), part.parts as usize);
                map::run(&part.work::<Vec<_>>()?, &work, &options, count, io)
            }
            "reduce" | "merge" => reduce::run(&part.work()?, &work, io),
            other => Err(PartError::Broken(format!("mapreduce has no stage `{other}`"))),
        }
    }

    fn explain(&self, spec: &Spec, done: &[StageDone]) -> Vec<String> {
        let Ok(options) = spec.options::<Options>() else { return Vec::new() };
        let Ok(work) = options.work() else { return Vec::new() };
        let mut lines = input::explain(spec);
        let count = partitions(spec, input::plan(spec).len());
        lines.push(match work.combining() {
            Combining::MapOnly => "what is mapped is the result, in the order of the input".to_owned(),
            Combining::All => {
                "each value travels to the reducer of its key; a combiner or a mergeable reduce would make that less".to_owned()
            }
            Combining::Merge | Combining::Add => {
                "values of the same key come together where they are mapped, and a partition with a hot key may be divided over several reducers".to_owned()
            }
        });
        if let Some(map) = done.first()
            && work.combining() != Combining::MapOnly
        {
            lines.extend(skew::explain(map, count, divides(&options, &work)));
        }
        lines
    }
}

/// When partitions are divided, if they may be.
fn divides(options: &Options, work: &Work) -> Option<Rule> {
    options.skew().filter(|_| work.combining().is_mergeable())
}

fn summary(spec: &Spec, work: &Work, partitions: u32, done: &[StageDone]) -> Summary {
    let mut all = Report::default();
    let mut counters = Report::default();
    for (number, stage) in done.iter().enumerate() {
        for part in &stage.parts {
            counters.add(&part.report);
            if number == 0 {
                all.rows_in += part.report.rows_in;
            }
            all.rows_out += part.report.outputs.iter().map(|file| file.rows).sum::<u64>();
        }
    }
    let (read, skipped) = (all.rows_in, counters.skipped);
    let mut lines = vec![format!("{read} lines read, {} lines written", all.rows_out)];
    if skipped > 0 {
        lines.push(format!("{skipped} lines were wrong and left out"));
    }
    lines.extend(counters.counters.iter().map(|(name, count)| format!("{name}: {count}")));
    let hot = done.first().map(skew::hot_keys).unwrap_or_default();
    if let Some(map) = done.first().filter(|_| work.combining() != Combining::MapOnly) {
        lines.extend(skew::explain(map, partitions, None).into_iter().skip(1));
        if done.len() > 2 {
            lines.push("partitions with hot keys were divided over several reducers".to_owned());
        }
    }
    let hot: Vec<_> = hot.into_iter().take(16).collect();
    let data = json!({
        "lines_read": read, "lines_written": all.rows_out, "skipped": skipped,
        "counters": counters.counters, "hot_keys": hot, "partitions": partitions,
        "inputs": spec.inputs.len(),
    });
    Summary { lines, data }
}
