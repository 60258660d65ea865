//! `divvy flow aggregate`: what it understands, and the job that it becomes.

use anyhow::Result;
use clap::Args;
use divvy_workload::Context;
use divvy_workload::console::exit::{Code, Failure};
use divvy_workload::console::values::Size;

use super::args::Common;
use super::start;
use crate::aggregate::{Format, Options, OutputFormat};
use crate::input;
use crate::job::NewJob;

const EXAMPLES: &str = "\
Examples:
  divvy flow aggregate --input 'sales/*.csv' --group-by shop --agg 'count, sum(price), p99(price)' --out result
  divvy flow aggregate --input 'trips/*.parquet' --group-by zone --agg 'count, avg(fare)' --wait
  divvy flow aggregate --input events.jsonl.gz --group-by country,device --agg 'distinct(user), top(5,page)' --approx --wait

Words of --agg: count, count(x), sum(x), avg(x), min(x), max(x), distinct(x),
common(x,y), p50(x), p99.9(x), median(x), top(5,x), histogram(x). min and max
without a column are of the column before them; common is how many different
values both columns have. With --approx, distinct, common, quantiles and top are
sketches of bounded size, and their error bounds are printed.

Parquet is read by workers with DuckDB: divvy flow provider install duckdb";

/// Group rows and say something about each group.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AggregateArgs {
    /// Files, folders or quoted patterns: CSV or JSON lines, also .gz and .zst,
    /// or Parquet
    #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
    input: Vec<String>,
    /// Columns that make a group [default: all rows are one]
    #[arg(long, value_delimiter = ',', value_name = "a,b")]
    group_by: Vec<String>,
    /// What is asked of each group
    #[arg(long, required = true, value_name = "WORDS")]
    agg: String,
    /// Answer with sketches and error bounds where exact answers need much
    /// memory
    #[arg(long)]
    approx: bool,
    /// What the files are [default: by their names]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// What parts the fields of CSV [default: a comma; a tab in .tsv]
    #[arg(long, value_name = "LETTER")]
    delimiter: Option<char>,
    /// The names of the columns, if CSV files have no header
    #[arg(long, value_delimiter = ',', value_name = "a,b")]
    columns: Option<Vec<String>>,
    /// What the result is written as
    #[arg(long, value_enum, default_value = "csv")]
    output: OutputFormat,
    /// Divide a partition over several reducers from this many times its fair
    /// share on; 0 never does [default: 2]
    #[arg(long, value_name = "TIMES")]
    skew: Option<f64>,
    /// The least size of a partition that is divided [default: 4MiB]
    #[arg(long, value_name = "SIZE")]
    skew_min: Option<Size>,
    #[command(flatten)]
    common: Common,
}

/// Starts the job.
pub(crate) async fn run(args: &AggregateArgs, context: &Context) -> Result<Code> {
    let options = Options {
        group_by: args.group_by.clone(),
        agg: args.agg.clone(),
        approx: args.approx,
        format: args.format,
        delimiter: args.delimiter,
        columns: args.columns.clone(),
        output: args.output,
        skew: args.skew,
        skew_bytes: args.skew_min.map(|size| size.0),
    };
    let inputs = input::expand(&args.input).map_err(|error| Failure::usage(error.to_string()))?;
    let options = serde_json::to_value(options)?;
    let job = NewJob { inputs, options, ..args.common.job("aggregate") };
    start::run(&job, &args.common, context).await
}
