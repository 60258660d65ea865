//! `divvy flow graph`: what it understands, and the job that it becomes.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use divvy_kernels::graph::edges;
use divvy_workload::Context;
use divvy_workload::console::exit::Code;
use serde_json::json;

use super::args::Common;
use super::start;
use crate::graph::{Algorithm, Ids, Options};
use crate::input::{self, Packing};
use crate::job::{InputFile, NewJob};

/// Lines that are looked at to see what vertices are called.
const LINES_LOOKED_AT: usize = 1_000;

const EXAMPLES: &str = "\
Examples:
  divvy flow graph pagerank --edges edges.tsv --wait
  divvy flow graph components --edges edges.tsv --memory 64MB --out result
  divvy flow graph sssp --edges roads.tsv --weighted --source 17 --wait
  divvy flow graph pagerank --edges 'divvy-data/crawls/*/*/links.tsv' --wait";

/// Ranks, components, degrees and distances of large graphs.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GraphArgs {
    /// What to find out
    #[arg(value_enum)]
    algorithm: Algorithm,
    /// Lists of edges: from, to and perhaps a length in each line; files,
    /// folders or quoted patterns
    #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
    edges: Vec<String>,
    /// What vertices are called
    #[arg(long, value_enum, default_value = "auto")]
    ids: IdsArg,
    /// sssp: the vertex where distances begin
    #[arg(long, value_name = "VERTEX")]
    source: Option<String>,
    /// sssp: edges have lengths, in a third field
    #[arg(long)]
    weighted: bool,
    /// pagerank: the share of rank that follows edges
    #[arg(long, default_value_t = 0.85)]
    damping: f64,
    /// pagerank: stop when all ranks together move less than this
    #[arg(long, default_value_t = 1e-6)]
    tolerance: f64,
    /// pagerank: stop after this many iterations at the latest
    #[arg(long, default_value_t = 100)]
    iterations: u32,
    /// How many of the largest are printed
    #[arg(long, default_value_t = 10)]
    top: u32,
    #[command(flatten)]
    common: Common,
}

/// What vertices are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum IdsArg {
    /// Numbers if the first lines have only numbers
    Auto,
    /// Numbers of 32 bits
    Number,
    /// Any text without tabs, such as addresses of pages
    Name,
}

/// Starts the job.
pub(crate) async fn run(args: &GraphArgs, context: &Context) -> Result<Code> {
    let inputs = input::expand(&args.edges)?;
    let ids = match args.ids {
        IdsArg::Number => Ids::Number,
        IdsArg::Name => Ids::Name,
        IdsArg::Auto => guess(&inputs)?,
    };
    let options = Options {
        ids,
        source: args.source.clone(),
        weighted: args.weighted,
        damping: args.damping,
        tolerance: args.tolerance,
        iterations: args.iterations,
        top: args.top,
        ..Options::new(args.algorithm)
    };
    let new = NewJob { inputs, options: json!(options), ..args.common.job("graph") };
    start::run(&new, &args.common, context).await
}

/// Names, unless the first lines have only numbers. A packed file is not looked into.
fn guess(inputs: &[InputFile]) -> Result<Ids> {
    let plain =
        inputs.iter().find(|input| input.bytes > 0 && Packing::of(&input.path) == Packing::None);
    plain.map_or(Ok(Ids::Number), |input| look(&input.path))
}

fn look(path: &Path) -> Result<Ids> {
    let context = || format!("reading {}", path.display());
    let file = std::fs::File::open(path).with_context(context)?;
    for line in BufReader::new(file).split(b'\n').take(LINES_LOOKED_AT) {
        let line = line.with_context(context)?;
        if let Ok(Some(edge)) = edges::parse(&line)
            && (edges::vertex(edge.from).is_err() || edges::vertex(edge.to).is_err())
        {
            return Ok(Ids::Name);
        }
    }
    Ok(Ids::Number)
}
