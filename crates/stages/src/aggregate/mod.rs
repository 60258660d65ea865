//! Aggregation: `divvy flow aggregate`.
//!
//! ```text
//! partial (a part per split) ─► states by group ─► reduce (a part per partition, several for one with a hot group) ─► merge
//! ```
//!
//! What travels is what is kept of each group, not its rows: a count is a number, an approximate distinct count a sketch.
//! Only exact distinct values and quantiles grow with the rows, and there a group that is much of all data makes a
//! partition large, which is then divided as in MapReduce.

mod merge;
mod options;
mod partial;
mod rows;

#[cfg(test)]
mod tests;

pub use options::{Format, Options, OutputFormat};

use divvy_kernels::aggregate::Query;
use serde_json::json;

use crate::duckdb;
use crate::input::split::part;
use crate::input::{self, Split};
use crate::job::{
    JobError, Kind, Next, Part, PartError, PartIo, PartSpec, Report, Spec, SpecError, Stage,
    StageDone, Summary,
};
use crate::mapreduce::options::partitions;
use crate::mapreduce::skew;

/// The kind `aggregate`.
#[derive(Clone, Copy, Debug)]
pub struct Aggregate;

impl Kind for Aggregate {
    fn name(&self) -> &'static str {
        "aggregate"
    }

    fn check(&self, spec: &Spec) -> Result<(), SpecError> {
        let options: Options = spec.options()?;
        if spec.inputs.is_empty() {
            return Err(SpecError::new("inputs", "is empty; name files to read"));
        }
        for input in &spec.inputs {
            options.format_of(&input.path)?;
        }
        options.query().map(drop)
    }

    fn next(&self, spec: &Spec, done: &[StageDone]) -> Result<Next, JobError> {
        let wrong = |error: SpecError| JobError(error.to_string());
        let options: Options = spec.options().map_err(wrong)?;
        let query = options.query().map_err(wrong)?;
        let splits = input::plan(spec);
        let partitions = partitions(spec, splits.len());
        let (name, parts) = match done {
            [] => ("partial", splits.iter().map(|splits| reader(spec, &options, splits)).collect()),
            [partial] => ("reduce", skew::reducers(partial, partitions, options.skew())),
            [partial, reduce] => {
                ("merge", skew::joiners(partial, reduce, partitions, options.skew()))
            }
            _ => ("", Vec::new()),
        };
        if parts.is_empty() {
            return Ok(Next::Finished(summary(&query, partitions, done)));
        }
        Ok(Next::Stage(Stage { name: name.to_owned(), parts, speculate: true }))
    }

    fn run(&self, part: &PartSpec, io: &mut PartIo<'_>) -> Result<Report, PartError> {
        let wrong = |error: SpecError| PartError::Broken(error.to_string());
        let options: Options = io.spec().options().map_err(wrong)?;
        let query = options.query().map_err(wrong)?;
        match part.name.as_str() {
            "partial" => {
                let count = partitions(io.spec(), part.parts as usize);
                partial::run(&part.work::<Vec<_>>()?, &options, &query, count, io)
            }
            "reduce" | "merge" => merge::run(&part.work()?, &options, &query, io),
            other => Err(PartError::Broken(format!("aggregate has no stage `{other}`"))),
        }
    }

    fn explain(&self, spec: &Spec, done: &[StageDone]) -> Vec<String> {
        let Ok(options) = spec.options::<Options>() else { return Vec::new() };
        let Ok(query) = options.query() else { return Vec::new() };
        let mut lines = input::explain(spec);
        let parquet = spec.inputs.iter().filter(|input| options.is_parquet(&input.path)).count();
        if parquet > 0 {
            lines.push(format!(
                "{parquet} of the files are Parquet, cut between row groups and read by DuckDB, on workers that have it ({})",
                duckdb::CURE
            ));
        }
        let words: Vec<&str> =
            query.measures().iter().map(|measure| measure.name.as_str()).collect();
        lines.push(format!(
            "of each group by ({}) is kept what {} need, {}",
            options.group_by.join(", "),
            words.join(", "),
            if query.is_approximate() { "as sketches of bounded size" } else { "exactly" }
        ));
        lines.extend(query.error_bounds());
        if let Some(partial) = done.first() {
            let count = partitions(spec, input::plan(spec).len());
            lines.extend(skew::explain(partial, count, options.skew()));
        }
        lines
    }
}

/// A part of the first stage. One that reads Parquet needs a worker who can.
fn reader(spec: &Spec, options: &Options, splits: &[Split]) -> Part {
    let mut part = part(spec, splits);
    let mut inputs = splits.iter().filter_map(|split| spec.inputs.get(split.file as usize));
    if inputs.any(|input| options.is_parquet(&input.path)) {
        part.needs.push(duckdb::CAPABILITY.to_owned());
    }
    part
}

fn summary(query: &Query, partitions: u32, done: &[StageDone]) -> Summary {
    let mut all = Report::default();
    for stage in done {
        for part in &stage.parts {
            all.skipped += part.report.skipped;
            all.rows_out += part.report.outputs.iter().map(|file| file.rows).sum::<u64>();
        }
    }
    let partial = done.first();
    let rows: u64 =
        partial.map_or(0, |stage| stage.parts.iter().map(|part| part.report.rows_in).sum());
    let (groups, skipped) = (all.rows_out, all.skipped);
    let mut lines = vec![format!("{rows} rows in {groups} groups")];
    if skipped > 0 {
        lines.push(format!("{skipped} rows were wrong and left out"));
    }
    let bounds = query.error_bounds();
    lines.extend(bounds.iter().cloned());
    if let Some(partial) = partial {
        lines.extend(skew::explain(partial, partitions, None).into_iter().skip(1));
    }
    if done.len() > 2 {
        lines.push("partitions with hot groups were divided over several reducers".to_owned());
    }
    let hot: Vec<_> =
        partial.map(skew::hot_keys).unwrap_or_default().into_iter().take(16).collect();
    let data = json!({
        "rows": rows, "groups": groups, "skipped": skipped, "columns": query.header(),
        "error_bounds": bounds, "hot_groups": hot, "partitions": partitions,
    });
    Summary { lines, data }
}
